//! From a configuration to a core that turns.

use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::{Backend, CoreHandle};
use crate::affinity::{CoreId, pin_current_thread};
use crate::core::{self, Core, CoreShared};
use crate::driver::Driver;
use crate::driver::epoll::Epoll;
use crate::driver::sim::{Sim, SimConfig};
use crate::driver::uring::Uring;
use crate::limits;
use crate::sys::Pools;

/// What one core is made with.
#[derive(Clone, Copy)]
pub(super) struct CoreConfig {
    pub(super) pin: Option<CoreId>,
    pub(super) backend: Backend,
    pub(super) spin: Duration,
}

/// A thread that is becoming a core.
pub(super) struct CoreThread {
    thread: thread::JoinHandle<io::Result<()>>,
    started: mpsc::Receiver<io::Result<CoreHandle>>,
}

impl CoreThread {
    pub(super) fn start(config: CoreConfig, number: usize) -> io::Result<Self> {
        let (tell, started) = mpsc::sync_channel(1);
        let body = move || run_core(config, &tell);
        let thread = thread::Builder::new().name(format!("ringway-{number}")).spawn(body)?;
        Ok(Self { thread, started })
    }

    /// Waits until the core is at work.
    pub(super) fn started(&self) -> io::Result<CoreHandle> {
        let told = self.started.recv();
        told.unwrap_or_else(|_| Err(io::Error::other("a core ended while it was starting")))
    }

    pub(super) fn into_inner(self) -> thread::JoinHandle<io::Result<()>> {
        self.thread
    }
}

fn run_core(config: CoreConfig, tell: &mpsc::SyncSender<io::Result<CoreHandle>>) -> io::Result<()> {
    let core = match make_core(config) {
        Ok(core) => core,
        Err(error) => {
            let _starter_gave_up = tell.send(Err(error));
            return Ok(());
        }
    };
    let handle = CoreHandle::new(core.shared.clone(), core.driver.borrow().describe());
    let entered = core::enter(&core)?;
    if tell.send(Ok(handle)).is_err() {
        return Ok(());
    }
    let ended = core.run_until(|| false);
    wind_up(&core);
    drop(entered);
    ended
}

/// Runs `main` on the calling thread.
pub(super) fn block_on<F: Future + 'static>(core: &Rc<Core>, main: F) -> io::Result<F::Output>
where
    F::Output: 'static,
{
    let entered = core::enter(core)?;
    let join = core.spawn(main);
    let ran = core.run_until(|| join.is_finished());
    let outcome = join.take_outcome();
    wind_up(core);
    drop(entered);
    ran?;
    match outcome {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => panic!("{error}"),
        None => Err(io::Error::other("the core was stopped before its main task had ended")),
    }
}

/// Drops what runs on the core, lets streams send what they have queued, and closes everything.
fn wind_up(core: &Rc<Core>) {
    core.shared.mailbox.close();
    core.drop_tasks();
    core.drop_callbacks();
    if let Err(error) = core.run_down() {
        tracing::warn!(%error, "a core could not close its sockets in order");
    }
    core.drop_messages();
}

/// Makes the calling thread's core, pinned first so that its memory is near.
pub(super) fn make_core(config: CoreConfig) -> io::Result<Rc<Core>> {
    if let Some(cpu) = config.pin {
        pin_current_thread(cpu)?;
    }
    let eventfd = core::wake_descriptor()?;
    let shared = CoreShared::register(eventfd.try_clone()?).ok_or_else(|| {
        io::Error::other(format!("more than {} cores in one process", limits::LIVE_CORES_MAX))
    })?;
    let pools = Pools::new(limits::MESSAGE_BUFFERS, limits::BULK_BUFFERS)?;
    let driver: Box<dyn Driver> = match config.backend {
        Backend::Epoll => Box::new(Epoll::new(&pools, eventfd)?),
        Backend::Uring => Box::new(Uring::new(&pools, eventfd).map_err(|e| refused(&e))?),
        Backend::Auto => match Uring::new(&pools, eventfd.try_clone()?) {
            Ok(uring) => Box::new(uring),
            Err(error) => {
                tracing::warn!("{}; falling back to epoll", refused(&error));
                Box::new(Epoll::new(&pools, eventfd)?)
            }
        },
    };
    Ok(Core::new(shared, driver, pools, config.spin))
}

pub(super) fn make_simulated_core(config: SimConfig) -> io::Result<Rc<Core>> {
    let shared = CoreShared::register(core::wake_descriptor()?)
        .ok_or_else(|| io::Error::other("too many cores in one process"))?;
    let pools = Pools::new(limits::MESSAGE_BUFFERS, limits::BULK_BUFFERS)?;
    let driver = Box::new(Sim::new(config, &pools));
    Ok(Core::new(shared, driver, pools, Duration::ZERO))
}

/// Why io_uring cannot be used here, and what would change that.
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
