//! What a runtime is started with.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use super::start::{CoreConfig, CoreThread};
use super::{CoreHandle, Runtime, start};
use crate::affinity::CoreSet;
use crate::driver::sim::SimConfig;
use crate::limits;
use crate::watchdog::Watchdog;

/// Which interface of the kernel the cores use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// io_uring; epoll, with a logged reason, where that is refused.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll.
    Epoll,
}

impl FromStr for Backend {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" | "io_uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("there is no backend `{other}`: say auto, uring or epoll"),
            )),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        })
    }
}

/// Sets up a runtime: how many cores, where they run, how they wait.
///
/// ```
/// use ringway_runtime::Runtime;
///
/// let runtime = Runtime::builder().threads(2).start()?;
/// let answer = runtime.cores()[1].spawn(async || 6 * 7)?;
/// assert_eq!(answer.wait()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    placement: Placement,
    backend: Backend,
    spin: Duration,
    stall_threshold: Duration,
}

#[derive(Clone, Debug)]
enum Placement {
    /// One thread for each, pinned to it.
    Pinned(CoreSet),
    /// So many threads, wherever the kernel puts them.
    Floating(usize),
}

impl Default for Builder {
    /// One pinned thread for each core that this process may use, automatic backend, default spin.
    fn default() -> Self {
        let placement = match CoreSet::available() {
            Ok(cores) => Placement::Pinned(cores),
            Err(_) => Placement::Floating(1),
        };
        Self {
            placement,
            backend: Backend::Auto,
            spin: limits::SPIN_DEFAULT,
            stall_threshold: limits::STALL_THRESHOLD,
        }
    }
}

impl Builder {
    /// One thread for each of these cores, pinned to it.
    #[must_use]
    pub fn cores(mut self, cores: CoreSet) -> Self {
        self.placement = Placement::Pinned(cores);
        self
    }

    /// So many threads, not pinned.
    #[must_use]
    pub fn threads(mut self, count: usize) -> Self {
        self.placement = Placement::Floating(count);
        self
    }

    /// Which interface of the kernel to use.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// How long a core that has just been busy looks for the next event before it sleeps; zero
    /// never spins. It is off where the process has more cores of ours than it may use CPUs.
    #[must_use]
    pub fn spin(mut self, budget: Duration) -> Self {
        self.spin = budget.min(limits::SPIN_MAX);
        self
    }

    /// A poll longer than this is reported with its task's name.
    #[must_use]
    pub fn stall_threshold(mut self, threshold: Duration) -> Self {
        self.stall_threshold = threshold.max(limits::STALL_THRESHOLD_MIN);
        self
    }

    /// How many cores will be started.
    pub fn core_count(&self) -> usize {
        match &self.placement {
            Placement::Pinned(cores) => cores.len(),
            Placement::Floating(count) => *count,
        }
    }

    /// Starts the cores; they are at work when this returns.
    ///
    /// # Errors
    /// No core asked for, a core that this process may not use, io_uring refused under
    /// [`Backend::Uring`], out of descriptors, threads or memory.
    pub fn start(self) -> io::Result<Runtime> {
        let spin = self.effective_spin();
        let mut threads = Vec::new();
        for pin in self.pins()? {
            let config = CoreConfig { pin, backend: self.backend, spin };
            threads.push(CoreThread::start(config, threads.len())?);
        }
        let mut handles = Vec::new();
        for thread in &threads {
            handles.push(thread.started()?);
        }
        let shared = handles.iter().map(CoreHandle::shared).collect();
        Ok(Runtime {
            cores: handles.into(),
            threads: threads.into_iter().map(CoreThread::into_inner).collect(),
            _watchdog: Watchdog::start(shared, self.stall_threshold),
        })
    }

    /// Makes the calling thread a core until `main` has ended, and tells its result. Further cores
    /// of this builder are not started.
    ///
    /// # Errors
    /// As [`start`](Self::start); also on a thread that is a core already.
    ///
    /// # Panics
    /// When `main` panics.
    pub fn block_on<F: Future + 'static>(self, main: F) -> io::Result<F::Output>
    where
        F::Output: 'static,
    {
        let pin = self.pins()?.into_iter().next().flatten();
        let spin = self.effective_spin();
        // A borrowed thread goes back to where it was allowed to run.
        let config = CoreConfig { pin: None, backend: self.backend, spin };
        let allowed = pin.and_then(|_| CoreSet::available().ok());
        if let (Some(core), true) = (pin, self.core_count() == 1) {
            crate::affinity::pin_current_thread(core)?;
        }
        let core = start::make_core(config)?;
        let watchdog = Watchdog::start(vec![Rc::clone(&core).shared.clone()], self.stall_threshold);
        let outcome = start::block_on(&core, main);
        drop(watchdog);
        if let Some(allowed) = allowed {
            allowed.confine_current_thread()?;
        }
        outcome
    }

    /// As [`block_on`](Self::block_on), over the simulated network and clock: the same seed gives
    /// the same run.
    ///
    /// # Errors
    /// When the simulation is stuck: nothing can happen any more and `main` has not ended.
    pub fn simulate<F: Future + 'static>(config: SimConfig, main: F) -> io::Result<F::Output>
    where
        F::Output: 'static,
    {
        start::block_on(&start::make_simulated_core(config)?, main)
    }

    fn pins(&self) -> io::Result<Vec<Option<crate::affinity::CoreId>>> {
        let pins: Vec<_> = match &self.placement {
            Placement::Floating(count) => vec![None; *count],
            Placement::Pinned(cores) => {
                cores.ensure_within(&CoreSet::available()?).map_err(io::Error::other)?;
                cores.iter().map(Some).collect()
            }
        };
        if pins.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a runtime needs a core: name at least one",
            ));
        }
        Ok(pins)
    }

    /// Threads that have to share a CPU must not hold it while they wait.
    fn effective_spin(&self) -> Duration {
        let cpus = CoreSet::available().map_or(1, |cores| cores.len());
        let cores = crate::core::live_cores() + self.core_count();
        if cores > cpus { Duration::ZERO } else { self.spin }
    }
}

/// Runs a future on the calling thread, as the one core of a default runtime.
///
/// ```
/// use std::time::Duration;
///
/// let answer = ringway_runtime::block_on(async {
///     ringway_runtime::sleep(Duration::from_millis(1)).await;
///     42
/// })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// As [`Builder::start`]; also on a thread that is a core already.
///
/// # Panics
/// When `main` panics.
pub fn block_on<F: Future + 'static>(main: F) -> io::Result<F::Output>
where
    F::Output: 'static,
{
    Builder::default().threads(1).block_on(main)
}
