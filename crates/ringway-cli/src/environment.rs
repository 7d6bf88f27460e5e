//! The environment of a measurement: machine, kernel, compiler, commit and command.

use std::fs;

use rustix::thread::CpuSet;
use serde::Serialize;
use serde_json::Value;

use crate::args::Cores;
use crate::{command_line, limits};

/// The environment of a report. What is unknown is `None`, never guessed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Environment {
    /// Name, release and machine, as `uname` prints them.
    pub(crate) kernel: String,
    pub(crate) cpu: Option<String>,
    /// Cores this process may use.
    pub(crate) cores_allowed: Vec<usize>,
    /// Whether two threads share a core.
    pub(crate) smt: Option<bool>,
    /// Frequency governor of the first allowed core.
    pub(crate) governor: Option<String>,
    pub(crate) virtualised: Option<bool>,
    pub(crate) server: Side,
    pub(crate) client: Side,
    /// There are no sides: the one thread runs on the client's core.
    #[serde(skip)]
    pub(crate) is_one_thread: bool,
    pub(crate) compiler: &'static str,
    /// Whether the build is optimised; figures of a debug build mean nothing.
    pub(crate) optimised: bool,
    pub(crate) version: &'static str,
    pub(crate) commit: &'static str,
    pub(crate) command: String,
}

/// The driver and cores of one side of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Side {
    /// The cores of its threads, one each; empty if we did not start it.
    pub(crate) cores: Vec<usize>,
    /// `uring` or `epoll`, as the side itself reports it.
    pub(crate) driver: Option<String>,
    /// Set-up flags that the kernel accepted.
    pub(crate) ring_flags: Vec<String>,
    /// Options set on its sockets.
    pub(crate) socket_options: Vec<String>,
}

impl Environment {
    /// Reads the environment of this process, with its client on the cores `client` and the server on the
    /// cores `server`, if we start it.
    pub(crate) fn read(allowed: &Cores, client: &Cores, server: Option<&Cores>) -> Self {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let first = allowed.as_slice()[0];
        Self {
            kernel: [uname.sysname(), uname.release(), uname.machine()].map(text).join(" "),
            cpu: cpu_model(&cpuinfo),
            cores_allowed: allowed.as_slice().to_vec(),
            smt: first_line("/sys/devices/system/cpu/smt/active").map(|text| text == "1"),
            governor: first_line(&format!(
                "/sys/devices/system/cpu/cpu{first}/cpufreq/scaling_governor"
            )),
            virtualised: has_hypervisor(&cpuinfo),
            server: server.map(Side::on).unwrap_or_default(),
            client: Side::on(client),
            is_one_thread: false,
            compiler: env!("RINGWAY_RUSTC"),
            optimised: !cfg!(debug_assertions),
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("RINGWAY_COMMIT"),
            command: command_line::shown(),
        }
    }

    /// Reads the environment of this process, whose one thread is measured on `core`.
    pub(crate) fn of_one_thread(allowed: &Cores, core: &Cores) -> Self {
        Self { is_one_thread: true, ..Self::read(allowed, core, None) }
    }

    /// Formats the environment for people, in a few lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let or_unknown =
            |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let smt = word(self.smt, "SMT on", "SMT off", "SMT unknown");
        let virtualised =
            word(self.virtualised, "virtual machine", "bare metal", "virtualisation unknown");
        let build = if self.optimised { "" } else { ", DEBUG BUILD: its figures mean nothing" };
        let sides = match Cores::new(self.client.cores.clone()) {
            Some(core) if self.is_one_thread && self.client.driver.is_none() => {
                vec![format!("thread: pinned to {core}")]
            }
            _ if self.is_one_thread => vec![format!("thread: {}", self.client.line())],
            _ => vec![
                format!("server: {}", self.server.line()),
                format!("client: {}", self.client.line()),
            ],
        };
        let mut lines = vec![format!(
            "machine: {}, {} cores allowed, {smt}, governor {}, {virtualised}, {}",
            or_unknown(&self.cpu),
            self.cores_allowed.len(),
            or_unknown(&self.governor),
            self.kernel,
        )];
        lines.extend(sides);
        lines.extend([
            format!(
                "build: ringway {}, commit {}, {}{build}",
                self.version, self.commit, self.compiler
            ),
            format!("command: {}", self.command),
        ]);
        lines
    }
}

impl Side {
    fn on(cores: &Cores) -> Self {
        Self { cores: cores.as_slice().to_vec(), ..Self::default() }
    }

    /// Takes `driver`, `ring_flags` and `socket_options` from a side's own counters, where they have them.
    pub(crate) fn learn(&mut self, counters: &Value) {
        if let Some(driver) = counters.get("driver").and_then(Value::as_str) {
            self.driver = Some(driver.to_owned());
        }
        for (name, list) in
            [("ring_flags", &mut self.ring_flags), ("socket_options", &mut self.socket_options)]
        {
            if let Some(values) = counters.get(name).and_then(Value::as_array) {
                *list = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            }
        }
    }

    fn line(&self) -> String {
        let cores = match Cores::new(self.cores.clone()) {
            Some(cores) => format!("pinned to {cores}"),
            None if self.driver.is_none() => {
                return "not started here, so its cores and its driver are not known".to_owned();
            }
            None => "not pinned".to_owned(),
        };
        let driver = self.driver.as_deref().unwrap_or("driver unknown");
        let mut parts = vec![cores, driver.to_owned()];
        parts.extend(self.ring_flags.iter().chain(&self.socket_options).cloned());
        parts.join(", ")
    }
}

/// Returns the cores that this thread, and any process it starts, may use.
///
/// # Errors
/// The kernel refuses, which ordinary processes do not meet.
pub(crate) fn cores_allowed() -> std::io::Result<Cores> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let cores = (0..limits::CORES_MAX.min(CpuSet::MAX_CPU)).filter(|&core| set.is_set(core));
    Cores::new(cores.collect()).ok_or_else(|| std::io::Error::other("no core allowed"))
}

fn first_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().next().map(|line| line.trim().to_owned())
}

/// x86 names it `model name`; some Arm machines name it `Hardware` or `Model`.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Hardware", "Model"].iter().find_map(|name| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut values = fields.filter(|(field, _)| field.trim() == *name);
        values.next().map(|(_, value)| value.trim().to_owned())
    })
}

/// Reads the flag that x86 hypervisors set; unknown on machines without a `flags` line.
fn has_hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, flags) = flags.into_iter().find(|(field, _)| field.trim() == "flags")?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn word(value: Option<bool>, yes: &str, no: &str, unknown: &str) -> String {
    match value {
        Some(true) => yes,
        Some(false) => no,
        None => unknown,
    }
    .to_owned()
}

#[cfg(test)]
impl Environment {
    /// A fixed environment, for snapshots.
    pub(crate) fn example() -> Self {
        let side = |core: usize| Side {
            cores: vec![core],
            driver: Some("uring".to_owned()),
            ring_flags: vec!["SINGLE_ISSUER".to_owned(), "DEFER_TASKRUN".to_owned()],
            socket_options: vec!["TCP_NODELAY".to_owned()],
        };
        Self {
            kernel: "Linux 6.18.0 x86_64".to_owned(),
            cpu: Some("Example CPU".to_owned()),
            cores_allowed: vec![0, 1],
            smt: Some(false),
            governor: None,
            virtualised: Some(true),
            server: side(0),
            client: side(1),
            is_one_thread: false,
            compiler: "rustc 1.95.0",
            optimised: true,
            version: "0.1.0",
            commit: "0123456789ab",
            command: "ringway bench".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read() {
        let allowed = cores_allowed().expect("some core runs this test");
        let one = allowed.take(1);
        let environment = Environment::read(&allowed, &one, Some(&one));
        assert!(environment.kernel.starts_with("Linux "), "{}", environment.kernel);
        assert_eq!(environment.cores_allowed, allowed.as_slice());
        assert!(environment.compiler.starts_with("rustc "), "{}", environment.compiler);
        assert_eq!(environment.server.cores.len(), 1);
    }

    #[test]
    fn nothing_is_said_of_a_server_that_others_have_started() {
        let allowed = cores_allowed().expect("some core runs this test");
        let environment = Environment::read(&allowed, &allowed, None);
        assert_eq!(environment.server, Side::default());
        let lines = environment.lines();
        assert!(lines.iter().any(|line| line.starts_with("server: not started here")), "{lines:?}");
    }

    #[test]
    fn cpuinfo_of_different_machines() {
        let x86 = "processor\t: 0\nmodel name\t: Fast One\nflags\t\t: fpu hypervisor\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("Fast One"));
        assert_eq!(has_hypervisor(x86), Some(true));
        assert_eq!(has_hypervisor("flags\t: fpu vme\n"), Some(false));
        let arm = "processor\t: 0\nFeatures\t: fp asimd\n";
        assert_eq!((cpu_model(arm), has_hypervisor(arm)), (None, None));
    }

    #[test]
    fn a_side_reports_its_driver() {
        let mut side = Side::default();
        side.learn(
            &serde_json::json!({"driver": "uring", "ring_flags": ["COOP_TASKRUN"], "turns": 3}),
        );
        side.learn(&serde_json::json!({"turns": 4}));
        assert_eq!(side.line(), "not pinned, uring, COOP_TASKRUN");
    }
}
