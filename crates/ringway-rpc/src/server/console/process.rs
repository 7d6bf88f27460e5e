//! What the kernel tells of the process and its machine: proc(5).
//!
//! Neither arguments nor the environment are read: they may hold secrets.

use std::fs;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringway_runtime::spawn_blocking;
use serde_json::{Value, json};

use super::data::{ask_cores, cpu_time, with_counters};
use crate::limits;
use crate::server::core::ServerCore;
use crate::server::shown_connection::millis;

/// Gathers what there is to see of the process, its machine, and the time of the server's cores.
pub(super) async fn of(core: &Rc<ServerCore>) -> Value {
    let shared = core.shared();
    let profile = &shared.side_doors().profile;
    profile.watch(shared.cores());
    let told = spawn_blocking(read).ok();
    let own = |_: &Rc<ServerCore>| json!({ "cpu_ms": cpu_time().map(millis) });
    let cores = ask_cores(shared, own).await.into_iter().map(|(handle, own)| {
        let mut shown = with_counters(&handle, &own);
        shown["profile"] = profile.of(handle.id());
        shown
    });
    let cores: Vec<_> = cores.collect();
    // Nobody can read the files while the pool is full.
    let told = match told {
        Some(told) => told.await.ok(),
        None => None,
    };
    json!({
        "uptime_ms": millis(shared.uptime()),
        "draining": core.draining().is_some(),
        "told": told,
        "cores": cores,
    })
}

/// Reads the kernel's files, which takes a millisecond or so: work for the blocking pool.
fn read() -> Value {
    json!({ "process": of_process(), "system": of_system() })
}

fn of_process() -> Value {
    let (status, stat) = (text("/proc/self/status"), text("/proc/self/stat"));
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_name()?.to_str());
    let since_boot = uptime_ms(&text("/proc/uptime"));
    let began = number_in_stat(&stat, STARTED).map(ticks_ms);
    let age_ms = since_boot.zip(began).map(|(now, began)| (now - began).max(0.0));
    let (threads, thread_count) = of_threads();
    json!({
        "pid": std::process::id(),
        "program": program,
        "ringway": env!("CARGO_PKG_VERSION"),
        "age_ms": age_ms,
        "started_at_ms": age_ms.map(|age| wall_ms() - age),
        "user_ms": number_in_stat(&stat, USER_TIME).map(ticks_ms),
        "system_ms": number_in_stat(&stat, SYSTEM_TIME).map(ticks_ms),
        "resident": kib_of(&status, "VmRSS"),
        "resident_max": kib_of(&status, "VmHWM"),
        "descriptors": descriptors(),
        "descriptors_max": descriptors_max(&text("/proc/self/limits")),
        "thread_count": thread_count,
        "threads": threads,
    })
}

fn of_system() -> Value {
    let memory = text("/proc/meminfo");
    json!({
        "kernel": text("/proc/sys/kernel/osrelease").trim(),
        "up_ms": uptime_ms(&text("/proc/uptime")),
        "load": load(&text("/proc/loadavg")),
        "cpus": text("/proc/stat").lines().filter(|line| is_cpu(line)).count(),
        "cpus_allowed": std::thread::available_parallelism().ok(),
        "memory": kib_of(&memory, "MemTotal"),
        "memory_available": kib_of(&memory, "MemAvailable"),
    })
}

/// The threads, in the order of their ids, as many as are shown; and the number of all.
fn of_threads() -> (Vec<Value>, usize) {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut ids: Vec<u32> = ids.collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.truncate(limits::CONSOLE_THREADS_MAX);
    (ids.into_iter().filter_map(of_thread).collect(), all)
}

/// A thread; `None` if it has ended.
fn of_thread(id: u32) -> Option<Value> {
    let of = |file: &str| fs::read_to_string(format!("/proc/self/task/{id}/{file}")).ok();
    let (status, times) = (of("status")?, of("schedstat"));
    let ran = times.as_deref().and_then(first_number);
    Some(json!({
        "id": id,
        "name": field(&status, "Name"),
        "state": field(&status, "State"),
        "cpu_ms": ran.map(|ns| ns / 1e6),
        "voluntary": number(&status, "voluntary_ctxt_switches"),
        "involuntary": number(&status, "nonvoluntary_ctxt_switches"),
    }))
}

/// The number of open descriptors. Kernels before 6.2 do not tell it as the size of the directory.
fn descriptors() -> Option<u64> {
    match fs::metadata(DESCRIPTORS).ok()?.len() {
        0 => Some(fs::read_dir(DESCRIPTORS).ok()?.count() as u64 - 1), // that of the listing
        count => Some(count),
    }
}

const DESCRIPTORS: &str = "/proc/self/fd";

/// The number that the process may have; `None` if it is not limited.
fn descriptors_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// What a file says; nothing if it cannot be read.
fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of a line `name: value`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn number(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.parse().ok()
}

/// A size in bytes; the kernel tells it in KiB.
fn kib_of(text: &str, name: &str) -> Option<u64> {
    Some(field(text, name)?.split(' ').next()?.parse::<u64>().ok()? * 1024)
}

/// The places of numbers in `/proc/self/stat`, as proc(5) counts them.
const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;
const STARTED: usize = 22;

/// A number of `/proc/self/stat`. The name of the program, the second value, may contain blanks and brackets.
fn number_in_stat(stat: &str, place: usize) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(place - 3)?.parse().ok()
}

/// The kernel tells programs times in hundredths of a second, on all machines that Ringway runs on.
fn ticks_ms(ticks: u64) -> f64 {
    ticks as f64 * 10.0
}

fn first_number(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn uptime_ms(uptime: &str) -> Option<f64> {
    first_number(uptime).map(|seconds| seconds * 1e3)
}

/// The load of one, five and fifteen minutes.
fn load(loadavg: &str) -> Vec<f64> {
    loadavg.split(' ').take(3).map_while(|load| load.parse().ok()).collect()
}

/// Whether a line of `/proc/stat` is of one CPU, and not of all.
fn is_cpu(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
}

fn wall_ms() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4 9 0 0 0 250 31 0 0 20 0 3 0 1234 9 5";
        assert_eq!(number_in_stat(stat, USER_TIME).map(ticks_ms), Some(2_500.0));
        assert_eq!(number_in_stat(stat, SYSTEM_TIME), Some(31));
        assert_eq!(number_in_stat(stat, STARTED), Some(1_234));
        assert_eq!((number_in_stat("", STARTED), number_in_stat("7 (a) R", STARTED)), (None, None));

        let status = "Name:\ta: b\nVmRSS:\t  2048 kB\nvoluntary_ctxt_switches:\t5\n";
        assert_eq!((field(status, "Name"), kib_of(status, "VmRSS")), (Some("a: b"), Some(2 << 20)));
        assert_eq!(number(status, "voluntary_ctxt_switches"), Some(5));
        assert_eq!((number(status, "Vm"), kib_of(status, "Name")), (None, None));

        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   524288   files\n";
        assert_eq!(descriptors_max(limits), Some(1024));
        assert_eq!(descriptors_max("Max open files  unlimited  unlimited  files"), None);
        assert_eq!(load("0.25 1.50 2.00 1/99 7"), [0.25, 1.5, 2.0]);
        assert_eq!(uptime_ms("12.50 40.00\n"), Some(12_500.0));
        assert!(is_cpu("cpu1 5 6") && !is_cpu("cpu  5 6") && !is_cpu("ctxt 7"));
    }

    #[test]
    fn this_process_is_known() {
        let told = read();
        let (process, system) = (&told["process"], &told["system"]);
        assert_eq!(process["pid"], std::process::id());
        for name in ["age_ms", "user_ms", "resident", "descriptors"] {
            assert!(process[name].as_f64().is_some_and(|it| it >= 0.0), "{name}: {process}");
        }
        assert!(process["threads"].as_array().is_some_and(|threads| !threads.is_empty()));
        assert!(system["cpus"].as_u64() > Some(0) && system["memory"].as_u64() > Some(0));
        assert_eq!(system["load"].as_array().map(Vec::len), Some(3));
    }
}
