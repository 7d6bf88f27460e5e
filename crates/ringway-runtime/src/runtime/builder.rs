//! Configuration of a runtime.

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

/// The kernel interface of the cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// Uses io_uring, or epoll with a logged reason if io_uring is refused. All cores of a runtime
    /// use the same.
    #[default]
    Auto,
    /// Uses io_uring, or fails.
    Uring,
    /// Uses epoll.
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
                format!("unknown backend `{other}`: use auto, uring or epoll"),
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

/// Configures a runtime: the number of cores, their placement, and how they wait.
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
    /// One thread for each core, pinned to it.
    Pinned(CoreSet),
    /// That many threads, placed by the kernel.
    Floating(usize),
}

impl Placement {
    /// The placement for `cpus` CPUs' worth of time on the available cores, if these are known.
    pub(super) fn of(open: Option<CoreSet>, cpus: usize) -> Self {
        match open {
            Some(cores) if cores.len() <= cpus => Self::Pinned(cores),
            _ => Self::Floating(cpus),
        }
    }
}

impl Default for Builder {
    /// One pinned thread for each core that this process may use, automatic backend, default spin.
    /// If a CPU quota (of a container, for example) allows fewer, there are as many threads as it
    /// allows, placed by the kernel, since the machine's other tenants would choose the same cores.
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
    /// Uses one thread for each of these cores, pinned to it.
    #[must_use]
    pub fn cores(mut self, cores: CoreSet) -> Self {
        self.placement = Placement::Pinned(cores);
        self
    }

    /// Uses that many threads, not pinned.
    #[must_use]
    pub fn threads(mut self, count: usize) -> Self {
        self.placement = Placement::Floating(count);
        self
    }

    /// Sets the kernel interface of the cores.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Sets for how long a busy core looks for the next event before it sleeps; zero never spins.
    /// Spinning is off while the process runs more cores than it has CPUs (those that it may use,
    /// or fewer by its CPU quota).
    #[must_use]
    pub fn spin(mut self, budget: Duration) -> Self {
        self.spin = budget.min(limits::SPIN_MAX);
        self
    }

    /// Sets the length from which a poll is reported, with its task's name, as a stall.
    #[must_use]
    pub fn stall_threshold(mut self, threshold: Duration) -> Self {
        self.stall_threshold = threshold.max(limits::STALL_THRESHOLD_MIN);
        self
    }

    /// Sets the limit for the memory of each core that received untaken bytes and queued unsent
    /// bytes hold; 1 GiB by default. Above it, a stream with a send queue at its high-water mark is
    /// ended as a slow reader when more is queued, and streams with untaken bytes receive no more.
    /// [`held_bytes`](crate::CoreCounters::held_bytes) is the current value.
    #[must_use]
    pub fn held_bytes_max(mut self, bytes: usize) -> Self {
        self.held_bytes_max = bytes;
        self
    }

    /// Number of cores that will be started.
    pub fn core_count(&self) -> usize {
        match &self.placement {
            Placement::Pinned(cores) => cores.len(),
            Placement::Floating(count) => *count,
        }
    }

    /// Starts the cores; they are running when this returns.
    ///
    /// # Errors
    /// Fails if no core was asked for, a core is not available to this process, io_uring is refused
    /// under [`Backend::Uring`], or descriptors, threads or memory run out.
    pub fn start(self) -> io::Result<Runtime> {
        note_the_process();
        let pins = self.pins()?;
        let start = |backend| Cores::start(&pins, CoreConfig { backend, ..self.config() });
        let mut cores = start(self.backend)?;
        if self.backend == Backend::Auto && !cores.are_alike() {
            tracing::warn!(
                "io_uring is not available on every core; falling back to epoll for all"
            );
            drop(cores);
            cores = start(Backend::Epoll)?;
        }
        Ok(cores.into_runtime(self.stall_threshold))
    }

    /// Runs `main` on the calling thread, which becomes a core until `main` has ended, and returns
    /// its result. The builder's further cores are not started.
    ///
    /// # Errors
    /// Fails as [`start`](Self::start) does, and on a thread that is a core already.
    ///
    /// # Panics
    /// Panics when `main` panics.
    pub fn block_on<F: Future + 'static>(self, main: F) -> io::Result<F::Output>
    where
        F::Output: 'static,
    {
        core::ensure_vacant()?;
        note_the_process();
        let pins = self.pins()?;
        // A borrowed thread gets its former affinity back, however this ends.
        let _pinned = match *pins {
            [Some(core)] => Some(Pinned::to(core)?),
            _ => None,
        };
        let core = start::make_core(self.config())?;
        let watched = vec![core.shared.clone()];
        let _watchdog = Watchdog::start(watched, self.stall_threshold);
        start::block_on(core, main)
    }

    /// Runs `main` like [`block_on`](Self::block_on), on the simulated network and clock: the same
    /// seed gives the same run.
    ///
    /// # Errors
    /// Fails when the simulation is stuck: nothing can happen any more and `main` has not ended. Also when it does
    /// not get on: tasks run again and again and none waits, so that the clock stands still. The error names the
    /// seed and the tasks. A task that never yields is not noticed.
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

/// Reads what the process may use, before one of its threads is pinned.
fn note_the_process() {
    affinity::process_cpus();
    prepare_pool();
}

/// Runs a future on the calling thread, as the only core of a default runtime.
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
/// Fails as [`Builder::start`] does, and on a thread that is a core already.
///
/// # Panics
/// Panics when `main` panics.
pub fn block_on<F: Future + 'static>(main: F) -> io::Result<F::Output>
where
    F::Output: 'static,
{
    Builder::default().threads(1).block_on(main)
}
