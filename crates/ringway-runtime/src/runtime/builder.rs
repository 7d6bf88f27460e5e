//! What a runtime is started with.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use super::start::{CoreConfig, Cores};
use super::{Runtime, start};
use crate::affinity::{self, CoreSet, Pinned};
use crate::core;
use crate::driver::sim::SimConfig;
use crate::limits;
use crate::spawn::prepare_pool;
use crate::watchdog::Watchdog;

/// The kernel's interface that the cores use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// io_uring; epoll, with a logged reason, where that is refused. All cores of a runtime have the
    /// same.
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
    held_bytes_max: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Placement {
    /// One thread for each, pinned to it.
    Pinned(CoreSet),
    /// So many threads, wherever the kernel puts them.
    Floating(usize),
}

impl Placement {
    /// For `cpus` CPUs' worth of time on the cores that are open, where these are known.
    pub(super) fn of(open: Option<CoreSet>, cpus: usize) -> Self {
        match open {
            Some(cores) if cores.len() <= cpus => Self::Pinned(cores),
            _ => Self::Floating(cpus),
        }
    }
}

impl Default for Builder {
    /// One pinned thread for each core that this process may use, automatic backend, default spin.
    /// Where a CPU quota (of a container, say) pays for fewer of them, there are as many threads as it
    /// pays for, and the kernel places them: its other tenants would choose the same cores.
    fn default() -> Self {
        Self {
            placement: Placement::of(CoreSet::available().ok(), affinity::parallelism()),
            backend: Backend::Auto,
            spin: limits::SPIN_DEFAULT,
            stall_threshold: limits::STALL_THRESHOLD,
            held_bytes_max: limits::HELD_BYTES_MAX,
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

    /// Sets the kernel's interface that the cores use.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Sets the time for which a busy core looks for the next event before it sleeps; zero
    /// never spins. It is off while the process runs more cores of ours than it has CPUs (those that
    /// it may use, or fewer by its CPU quota).
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

    /// Memory that received and untaken bytes, and bytes that are queued for sending, may keep in use on
    /// each core; 1 GiB unless this is called. Above it, a stream whose send queue is at its
    /// high-water mark is ended as a slow reader when more is queued for it, and what is not taken
    /// is not received any further. [`held_bytes`](crate::CoreCounters::held_bytes) tells how much
    /// it is.
    #[must_use]
    pub fn held_bytes_max(mut self, bytes: usize) -> Self {
        self.held_bytes_max = bytes;
        self
    }

    /// The number of cores that will be started.
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
        note_the_process();
        let pins = self.pins()?;
        let start = |backend| Cores::start(&pins, CoreConfig { backend, ..self.config() });
        let mut cores = start(self.backend)?;
        if self.backend == Backend::Auto && !cores.are_alike() {
            tracing::warn!("not every core could have io_uring; falling back to epoll for all");
            drop(cores);
            cores = start(Backend::Epoll)?;
        }
        Ok(cores.into_runtime(self.stall_threshold))
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
        core::ensure_vacant()?;
        note_the_process();
        let pins = self.pins()?;
        // A borrowed thread goes back to where it was allowed to run, however this ends.
        let _pinned = match *pins {
            [Some(core)] => Some(Pinned::to(core)?),
            _ => None,
        };
        let core = start::make_core(self.config())?;
        let watched = vec![core.shared.clone()];
        let _watchdog = Watchdog::start(watched, self.stall_threshold);
        start::block_on(core, main)
    }

    /// Runs like [`block_on`](Self::block_on) over the simulated network and clock: the same seed gives
    /// the same run.
    ///
    /// # Errors
    /// When the simulation is stuck: nothing can happen any more and `main` has not ended.
    pub fn simulate<F: Future + 'static>(config: SimConfig, main: F) -> io::Result<F::Output>
    where
        F::Output: 'static,
    {
        core::ensure_vacant()?;
        start::block_on(start::make_simulated_core(config)?, main)
    }

    fn config(&self) -> CoreConfig {
        CoreConfig {
            pin: None,
            backend: self.backend,
            spin: self.spin,
            held_bytes_max: self.held_bytes_max,
        }
    }

    fn pins(&self) -> io::Result<Vec<Option<affinity::CoreId>>> {
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
}

/// Looks at what the process may use, before one of its threads is pinned.
fn note_the_process() {
    affinity::process_cpus();
    prepare_pool();
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
