//! CPU time of a process, from the kernel's accounting.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Returns the user and system time that the present threads of process `pid` have used since they started. Threads
/// that have ended are left out, so take differences while the relevant threads are alive.
///
/// On kernels that count nanoseconds, the value lags by at most one scheduler tick (1–10 ms) for a thread
/// that is running now; elsewhere it is rounded to a hundredth of a second.
///
/// # Errors
/// The system's error, for example if there is no such process.
pub(crate) fn cpu_time(pid: u32) -> io::Result<Duration> {
    let root = Path::new("/proc").join(pid.to_string());
    match thread_times(&root.join("task"))? {
        Some(time) => Ok(time),
        None => process_time(&root.join("stat")),
    }
}

/// `None` on a kernel without scheduler statistics.
fn thread_times(tasks: &Path) -> io::Result<Option<Duration>> {
    let mut total = None;
    for task in fs::read_dir(tasks)? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        if let Some(time) = run_time(&text) {
            *total.get_or_insert(Duration::ZERO) += time;
        }
    }
    // The scheduler reports zeroes without its statistics.
    Ok(total.filter(|time| !time.is_zero()))
}

/// Parses the first of three fields: nanoseconds on a core.
fn run_time(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn process_time(stat: &Path) -> io::Result<Duration> {
    let ticks = ticks_used(&fs::read_to_string(stat)?)
        .ok_or_else(|| io::Error::other("the kernel's process status has an unknown form"))?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64))
}

/// Parses fields 14 and 15, counted after the name, which may hold spaces and parentheses.
fn ticks_used(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time() {
        let pid = std::process::id();
        let before = cpu_time(pid).expect("this process runs");
        let target = before + Duration::from_millis(2);
        // This loop is what is measured; it ends only if time is accounted for.
        while cpu_time(pid).expect("this process runs") < target {}
    }

    #[test]
    fn kernel_formats() {
        assert_eq!(run_time("1500 20 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(run_time(""), None);
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(ticks_used(stat), Some(300));
        assert_eq!(ticks_used("7 (a) R 1 2"), None);
    }

    #[test]
    fn a_process_that_is_none_has_no_time() {
        cpu_time(0).expect_err("no process has the number 0");
    }
}
