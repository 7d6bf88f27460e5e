//! Starting and running a core.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::Duration;

use super::fate::{EndCause, Fate};
use super::{Backend, CoreHandle, Runtime};
use crate::affinity::{CoreId, pin_current_thread};
use crate::buf::{BufferCounts, Pools};
use crate::contain::{drop_contained, panic_message};
use crate::core::{self, Core, CoreShared};
use crate::driver::Driver;
use crate::driver::epoll::Epoll;
use crate::driver::sim::{Sim, SimConfig};
use crate::driver::uring::Uring;
use crate::limits;
use crate::watchdog::Watchdog;

/// The configuration of one core.
#[derive(Clone, Copy)]
pub(super) struct CoreConfig {
    pub(super) pin: Option<CoreId>,
    pub(super) backend: Backend,
    pub(super) spin: Duration,
    pub(super) held_bytes_max: usize,
}

/// Cores that have started. Dropping them, as an error does, ends them.
pub(super) struct Cores {
    threads: Vec<CoreThread>,
    handles: Vec<CoreHandle>,
    fate: Arc<Fate>,
}

impl Cores {
    /// Starts one core for each of `pins`; they are running when this returns.
    pub(super) fn start(pins: &[Option<CoreId>], config: CoreConfig) -> io::Result<Self> {
        let mut cores = Self { threads: Vec::new(), handles: Vec::new(), fate: Arc::default() };
        for (number, &pin) in pins.iter().enumerate() {
            let config = CoreConfig { pin, ..config };
            cores.threads.push(CoreThread::start(config, number, &cores.fate)?);
        }
        for thread in &mut cores.threads {
            cores.handles.push(thread.started()?);
        }
        Ok(cores)
    }

    /// Whether all use the same kernel interface.
    pub(super) fn are_alike(&self) -> bool {
        let interface = |core: &CoreHandle| core.backend().split(' ').next().map(str::to_owned);
        self.handles.windows(2).all(|pair| interface(&pair[0]) == interface(&pair[1]))
    }

    pub(super) fn into_runtime(self, stall_threshold: Duration) -> Runtime {
        let shared = self.handles.iter().map(CoreHandle::shared).collect();
        Runtime {
            cores: self.handles.into(),
            threads: self.threads.into_iter().map(CoreThread::into_inner).collect(),
            fate: self.fate,
            _watchdog: Watchdog::start(shared, stall_threshold),
        }
    }
}

/// A thread that is becoming a core. Dropping it ends that core.
struct CoreThread {
    thread: Option<thread::JoinHandle<()>>,
    started: mpsc::Receiver<io::Result<CoreHandle>>,
    handle: Option<CoreHandle>,
}

impl CoreThread {
    fn start(config: CoreConfig, number: usize, fate: &Arc<Fate>) -> io::Result<Self> {
        let (tell, started) = mpsc::sync_channel(1);
        let its = Arc::clone(fate);
        let body = move || {
            its.adopt_thread();
            // Foreign code is contained further inside; this is for panics that should not
            // happen.
            let run = || run_core(config, number, &tell, &its);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                its.failed(number, EndCause::Panicked(panic_message(panic).into()));
            }
            its.ended();
        };
        fate.begin();
        match thread::Builder::new().name(format!("ringway-{number}")).spawn(body) {
            Ok(thread) => Ok(Self { thread: Some(thread), started, handle: None }),
            Err(error) => {
                fate.ended();
                Err(error)
            }
        }
    }

    /// Waits until the core is running.
    fn started(&mut self) -> io::Result<CoreHandle> {
        let told = self.started.recv();
        let told = told.unwrap_or_else(|_| {
            Err(io::Error::other("a core's thread ended before the core was running"))
        });
        self.handle = told.as_ref().ok().cloned();
        told
    }

    fn into_inner(mut self) -> thread::JoinHandle<()> {
        self.thread.take().expect("present until it is taken or dropped")
    }
}

impl Drop for CoreThread {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if let Some(handle) = self.handle.take().or_else(|| self.started().ok()) {
            handle.stop();
        }
        let _its_end_is_in_the_fate = thread.join();
    }
}

fn run_core(
    config: CoreConfig,
    number: usize,
    tell: &mpsc::SyncSender<io::Result<CoreHandle>>,
    fate: &Fate,
) {
    let core = match make_core(config) {
        Ok(core) => core,
        Err(error) => {
            let _starter_gave_up = tell.send(Err(error));
            return;
        }
    };
    let handle = CoreHandle::new(core.shared.clone(), core.driver.borrow().describe());
    let Ok(entered) = core::enter(&core) else {
        return; // a new thread has no core
    };
    let _starter_gave_up = tell.send(Ok(handle));
    let _told = turn_and_end(&core, || false, |cause| fate.failed(number, cause.clone()));
    drop(entered);
    drop_contained("what a core has left behind", core);
}

/// Runs `main` on the calling thread.
pub(super) fn block_on<F: Future + 'static>(core: Rc<Core>, main: F) -> io::Result<F::Output>
where
    F::Output: 'static,
{
    let entered = core::enter(&core)?;
    let join = core.spawn(main);
    let ran = turn_and_end(&core, || join.is_finished(), |_| ());
    drop(entered);
    drop_contained("what a core has left behind", core);
    ran?;
    match join.take_outcome() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) if error.is_panic() => panic!("{error}"),
        _ => Err(io::Error::other("the core was stopped before its main task had ended")),
    }
}

/// Turns the core until `done`, or until it is told to stop, and then ends it, whatever has
/// happened. `failed` is called with a failure before the end starts.
fn turn_and_end(
    core: &Core,
    done: impl Fn() -> bool,
    failed: impl FnOnce(&EndCause),
) -> Result<(), EndCause> {
    let ran = match catch_unwind(AssertUnwindSafe(|| core.run_until(done))) {
        Ok(ran) => ran.map_err(|error| EndCause::Failed(Arc::new(error))),
        Err(panic) => Err(EndCause::Panicked(panic_message(panic).into())),
    };
    if let Err(cause) = &ran {
        failed(cause);
    }
    core.end();
    ran
}

/// Creates the calling thread's core, pinned first so that its memory is local.
pub(super) fn make_core(config: CoreConfig) -> io::Result<Rc<Core>> {
    if let Some(cpu) = config.pin {
        pin_current_thread(cpu)?;
    }
    let eventfd = core::wake_descriptor()?;
    let shared = CoreShared::register(eventfd.clone()).ok_or_else(|| {
        io::Error::other(format!("more than {} cores in one process", limits::LIVE_CORES_MAX))
    })?;
    // Each driver has buffers of its own: those lent to an unused ring do not come back.
    let pools = || Pools::new(BufferCounts::USUAL, &Arc::downgrade(&eventfd));
    let uring = || {
        let pools = pools()?;
        Uring::new(&pools, eventfd.clone()).map_err(|error| refused(&error))
    };
    let epoll = || Epoll::new(&pools()?, eventfd.clone());
    let driver: Box<dyn Driver> = match config.backend {
        Backend::Epoll => Box::new(epoll()?),
        Backend::Uring => Box::new(uring()?),
        Backend::Auto => match uring() {
            Ok(uring) => Box::new(uring),
            Err(error) => {
                tracing::warn!("{error}; falling back to epoll");
                Box::new(epoll()?)
            }
        },
    };
    Ok(Core::new(shared, driver, config.spin, config.held_bytes_max))
}

pub(super) fn make_simulated_core(config: SimConfig) -> io::Result<Rc<Core>> {
    let shared = CoreShared::register(core::wake_descriptor()?)
        .ok_or_else(|| io::Error::other("too many cores in one process"))?;
    let pools = Pools::new(BufferCounts::USUAL, &Weak::new())?;
    let driver = Box::new(Sim::new(config, &pools));
    Ok(Core::new(shared, driver, Duration::ZERO, limits::HELD_BYTES_MAX))
}

/// The error for a refused io_uring, with a hint at what would help.
fn refused(error: &io::Error) -> io::Error {
    let hint = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring",
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden: see the sysctl kernel.io_uring_disabled and the container's \
             seccomp profile"
        }
        Some(libc::EINVAL) => "the kernel is older than 6.1",
        Some(libc::ENOMEM) => "the memory lock limit is too small: raise RLIMIT_MEMLOCK",
        Some(libc::EMFILE | libc::ENFILE) => "out of file descriptors",
        _ => "the kernel refused io_uring",
    };
    io::Error::new(error.kind(), format!("{hint} ({error})"))
}
