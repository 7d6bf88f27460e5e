//! CPU affinity of threads.

use std::error::Error;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::OnceLock;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::limits::CPU_NUMBERS_MAX;

/// The number of a logical CPU, as the kernel and `taskset` count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(u16);

/// A set of cores; written as `0-1,3`.
///
/// ```
/// use ringway_runtime::affinity::CoreSet;
///
/// let cores = CoreSet::parse("3,0-1")?;
/// assert_eq!(cores.to_string(), "0-1,3");
/// assert!(CoreSet::parse("1-0").is_err());
/// # Ok::<(), ringway_runtime::affinity::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoreSet {
    /// Ascending, each once, below `CPU_NUMBERS_MAX`.
    cores: Vec<CoreId>,
}

impl CoreId {
    /// Names a core; `None` above the highest number that the kernel interface can name (1,023).
    pub fn new(number: u16) -> Option<CoreId> {
        (number < CPU_NUMBERS_MAX).then_some(CoreId(number))
    }

    /// The number of the core.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl CoreSet {
    /// Parses a list of numbers and ranges, such as `0-1,3`. Spaces around them and repetitions are
    /// allowed.
    ///
    /// # Errors
    ///
    /// Returns [`ParseError`] if a part is not a number or range, a range runs backwards, or a
    /// number is above 1,023.
    pub fn parse(text: &str) -> Result<CoreSet, ParseError> {
        let mut cores = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (parse_core(first, part)?, parse_core(last, part)?);
            if first > last {
                return Err(ParseError::new(part, Fault::Backwards));
            }
            cores.extend((first.0..=last.0).map(CoreId));
        }
        Ok(CoreSet::from_iter(cores))
    }

    /// The cores that the calling thread may run on: those of the process (`taskset`, the CPU set
    /// of its container) unless the thread is pinned. A CPU quota does not reduce this set, but the
    /// default number of a runtime's cores honours it.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error; `EINVAL` on a machine with more than 1,024 CPUs.
    pub fn available() -> io::Result<CoreSet> {
        let set = sched_getaffinity(None)?;
        let cores = 0..CPU_NUMBERS_MAX;
        Ok(CoreSet { cores: cores.filter(|n| set.is_set(usize::from(*n))).map(CoreId).collect() })
    }

    /// Checks that every core of this set is in `allowed`.
    ///
    /// # Errors
    ///
    /// Returns [`CoreUnavailable`] for the first one that is not.
    pub fn ensure_within(&self, allowed: &CoreSet) -> Result<(), CoreUnavailable> {
        match self.iter().find(|core| !allowed.contains(*core)) {
            Some(core) => Err(CoreUnavailable { core, allowed: allowed.clone() }),
            None => Ok(()),
        }
    }

    /// Restricts the calling thread to the cores of this set. Threads that it starts inherit that.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error; `EINVAL` if the process may use none of the cores.
    pub fn confine_current_thread(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.iter().for_each(|core| set.set(usize::from(core.0)));
        Ok(sched_setaffinity(None, &set)?)
    }

    /// Whether `core` is in the set.
    pub fn contains(&self, core: CoreId) -> bool {
        self.cores.binary_search(&core).is_ok()
    }

    /// The cores in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CoreId> + '_ {
        self.cores.iter().copied()
    }

    /// The number of cores in the set.
    pub fn len(&self) -> usize {
        self.cores.len()
    }

    /// Whether the set has no core.
    pub fn is_empty(&self) -> bool {
        self.cores.is_empty()
    }
}

/// Pins the calling thread to one core. Threads that it starts inherit that.
///
/// # Errors
///
/// Returns an error of kind `InvalidInput` that wraps [`CoreUnavailable`] if the process may not
/// use the core; otherwise the kernel's error.
pub fn pin_current_thread(core: CoreId) -> io::Result<()> {
    let error = match (CoreSet { cores: vec![core] }).confine_current_thread() {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    if error.raw_os_error() != Some(rustix::io::Errno::INVAL.raw_os_error()) {
        return Err(error);
    }
    let unavailable = CoreUnavailable { core, allowed: CoreSet::available()? };
    Err(io::Error::new(io::ErrorKind::InvalidInput, unavailable))
}

/// Pins the calling thread to one core until this is dropped.
pub(crate) struct Pinned {
    before: CoreSet,
}

impl Pinned {
    /// # Errors
    /// Fails as [`pin_current_thread`] does.
    pub(crate) fn to(core: CoreId) -> io::Result<Self> {
        let before = CoreSet::available()?;
        pin_current_thread(core)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Err(error) = self.before.confine_current_thread() {
            tracing::warn!(%error, "a thread could not be unpinned and stays on one CPU");
        }
    }
}

/// Number of CPUs available to the calling thread: those it may run on, limited by the CPU quota of
/// its control group.
pub(crate) fn parallelism() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Number of CPUs available to the process. It is measured at the first call, which must come
/// before a thread becomes a core and is pinned.
pub(crate) fn process_cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(parallelism)
}

fn parse_core(number: &str, part: &str) -> Result<CoreId, ParseError> {
    let number = number.trim();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::new(part, Fault::NotANumber));
    }
    let core = number.parse().ok().and_then(CoreId::new);
    core.ok_or_else(|| ParseError::new(part, Fault::TooHigh))
}

impl FromIterator<CoreId> for CoreSet {
    fn from_iter<I: IntoIterator<Item = CoreId>>(cores: I) -> CoreSet {
        let mut cores = Vec::from_iter(cores);
        cores.sort_unstable();
        cores.dedup();
        CoreSet { cores }
    }
}

impl FromStr for CoreSet {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<CoreSet, ParseError> {
        CoreSet::parse(text)
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.cores.chunk_by(|a, b| a.0 + 1 == b.0);
        for (number, run) in runs.enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                _ => write!(f, "{comma}{}", run[0])?,
            }
        }
        Ok(())
    }
}

/// The error of a text that is not a list of cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    part: String,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NotANumber,
    Backwards,
    TooHigh,
}

impl ParseError {
    fn new(part: &str, fault: Fault) -> ParseError {
        ParseError { part: part.to_owned(), fault }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = &self.part;
        match self.fault {
            Fault::NotANumber => {
                write!(f, "`{part}` is not a core number; write a list such as 0-1,3")
            }
            Fault::Backwards => write!(f, "`{part}` runs backwards; write the lower core first"),
            Fault::TooHigh => write!(f, "`{part}` names a core above {}", CPU_NUMBERS_MAX - 1),
        }
    }
}

impl Error for ParseError {}

/// The error of a core that the process may not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreUnavailable {
    core: CoreId,
    allowed: CoreSet,
}

impl fmt::Display for CoreUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CoreUnavailable { core, allowed } = self;
        write!(
            f,
            "core {core} is not available to this process: allowed are {allowed}; \
             choose among them, or widen the container's or taskset's limit"
        )
    }
}

impl Error for CoreUnavailable {}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(text: &str) -> CoreSet {
        CoreSet::parse(text).expect("a valid list")
    }

    #[test]
    fn lists_round_trip_in_their_shortest_form() {
        let pairs = [("0", "0"), ("0-1,3", "0-1,3"), (" 3 , 0 - 1,1", "0-1,3"), ("1023", "1023")];
        for (text, shown) in pairs {
            assert_eq!(cores(text).to_string(), shown);
        }
        assert_eq!(cores("0-2").len(), 3);
    }

    #[test]
    fn bad_lists_are_refused_with_the_part_at_fault() {
        let pairs = [
            ("", "`` is not a core number; write a list such as 0-1,3"),
            ("0,x", "`x` is not a core number; write a list such as 0-1,3"),
            ("+1", "`+1` is not a core number; write a list such as 0-1,3"),
            ("1-", "`1-` is not a core number; write a list such as 0-1,3"),
            ("0-1-2", "`0-1-2` is not a core number; write a list such as 0-1,3"),
            ("3-1", "`3-1` runs backwards; write the lower core first"),
            ("0-4000000000", "`0-4000000000` names a core above 1023"),
            ("1024", "`1024` names a core above 1023"),
        ];
        for (text, message) in pairs {
            assert_eq!(CoreSet::parse(text).expect_err(text).to_string(), message);
        }
    }

    #[test]
    fn a_thread_is_pinned_to_a_core_it_may_use() {
        let allowed = CoreSet::available().expect("the kernel answers");
        for core in allowed.iter() {
            let pinned = std::thread::spawn(move || {
                pin_current_thread(core).expect("it is allowed");
                CoreSet::available().expect("the kernel answers")
            });
            assert_eq!(pinned.join().expect("no panic"), CoreSet::from_iter([core]));
        }
        assert_eq!(CoreSet::available().expect("the kernel answers"), allowed);
    }

    #[test]
    fn an_absent_core_is_named_with_those_that_exist() {
        let allowed = CoreSet::available().expect("the kernel answers");
        let absent = CoreId(CPU_NUMBERS_MAX - 1);
        assert!(!allowed.contains(absent), "this test needs a machine with fewer CPUs");
        let error = pin_current_thread(absent).expect_err("it does not exist").to_string();
        let start = format!("core 1023 is not available to this process: allowed are {allowed};");
        assert!(error.starts_with(&start), "{error}");
    }

    #[test]
    fn a_set_within_another_passes() {
        assert_eq!(cores("0,2").ensure_within(&cores("0-2")), Ok(()));
        let refusal = cores("0,7").ensure_within(&cores("0-1")).expect_err("7 is missing");
        let start = "core 7 is not available to this process: allowed are 0-1; choose among them";
        assert!(refusal.to_string().starts_with(start));
    }
}
