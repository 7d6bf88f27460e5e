//! Which rows a bench has, and in what order their runs alternate.

use serde_json::{Map, Value, json};

use crate::args::{BenchConfig, SendMode, Suite, Target, Transport, Uri};

/// One workload at one setting, measured for each of its contenders.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) workload: Workload,
    pub(super) transport: Transport,
    pub(super) connections: u32,
    pub(super) size: u32,
    /// Run after each other, over and over; at least one.
    pub(super) contenders: Vec<Contender>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    PingPong,
    Receive(SendMode),
}

/// A server and a client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Contender {
    pub(super) server: Program,
    pub(super) client: Client,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Program {
    Ringway,
    Peer(&'static str),
    Running(Uri),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Ringway,
    /// The peers' plain epoll client.
    Epoll,
}

/// All settings of `config`, suite by suite.
pub(super) fn settings(config: &BenchConfig) -> Vec<Setting> {
    let transports = match &config.target {
        Target::Own(transports) => transports.clone(),
        Target::Running(uri) => vec![Transport::of(uri)],
    };
    let mut settings = Vec::new();
    for suite in &config.suites {
        for &transport in &transports {
            for (workload, connections, size) in combinations(suite) {
                let contenders = contenders(config, workload);
                settings.push(Setting { workload, transport, connections, size, contenders });
            }
        }
    }
    settings
}

fn combinations(suite: &Suite) -> Vec<(Workload, u32, u32)> {
    let (connections, sizes, workloads) = match suite {
        Suite::PingPong { connections, sizes } => (connections, sizes, vec![Workload::PingPong]),
        Suite::Receive { connections, sizes, modes } => {
            (connections, sizes, modes.iter().map(|&mode| Workload::Receive(mode)).collect())
        }
    };
    let mut combinations = Vec::new();
    for workload in workloads {
        for &size in sizes {
            combinations.extend(connections.iter().map(|&count| (workload, count, size)));
        }
    }
    combinations
}

/// Only the ping-pong has peers: none of them frames and checks what it receives.
fn contenders(config: &BenchConfig, workload: Workload) -> Vec<Contender> {
    let with_ours = |server| Contender { server, client: Client::Ringway };
    let mut contenders = vec![with_ours(match &config.target {
        Target::Own(_) => Program::Ringway,
        Target::Running(uri) => Program::Running(uri.clone()),
    })];
    if config.peers && workload == Workload::PingPong {
        contenders.extend(PEERS.map(|kind| with_ours(Program::Peer(kind))));
        contenders.push(Contender { server: Program::Peer("epoll"), client: Client::Epoll });
    }
    contenders
}

impl Setting {
    pub(super) fn suite(&self) -> &'static str {
        match self.workload {
            Workload::PingPong => "pingpong",
            Workload::Receive(_) => "receive",
        }
    }

    /// What an operation is.
    pub(super) fn unit(&self) -> &'static str {
        match self.workload {
            Workload::PingPong => "messages/s",
            Workload::Receive(_) => "packets/s",
        }
    }

    /// The parameters of the row of `contender`, in the order of the columns.
    pub(super) fn parameters(&self, contender: &Contender) -> Map<String, Value> {
        let mut parameters = Map::new();
        let mut put = |name: &str, value: Value| parameters.insert(name.to_owned(), value);
        put("server", json!(contender.server.name()));
        put("client", json!(contender.client.name()));
        put("transport", json!(self.transport.as_str()));
        if let Workload::Receive(mode) = self.workload {
            put("mode", json!(mode.to_string()));
        }
        put("connections", json!(self.connections));
        put("size", json!(self.size));
        parameters
    }

    /// What the progress bar calls a run.
    pub(super) fn describe(&self, contender: &Contender, run: u32) -> String {
        let mode = match self.workload {
            Workload::PingPong => String::new(),
            Workload::Receive(mode) => format!(" {mode}"),
        };
        format!(
            "{}{mode} {} {}, {} connections, {} B, run {run}",
            self.suite(),
            contender.server.name(),
            self.transport.as_str(),
            self.connections,
            self.size
        )
    }
}

impl Program {
    /// As the `server` parameter of a row.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Ringway => "ringway",
            Self::Peer(kind) => kind,
            Self::Running(uri) => uri.as_str(),
        }
    }
}

impl Client {
    /// As the `client` parameter of a row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ringway => "ringway",
            Self::Epoll => "epoll",
        }
    }
}

const PEERS: [&str; 4] = ["epoll", "uring", "tokio", "monoio"];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::{Config, parse};

    fn config(words: &str) -> BenchConfig {
        let args = words.split_whitespace().map(str::to_owned).collect();
        match parse(args, &"0-1".parse().expect("a range")) {
            Ok(Config::Bench(config)) => config,
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn a_bare_bench_stays_well_under_90_seconds() {
        let config = config("ringway bench");
        let settings = settings(&config);
        assert_eq!(settings.len(), 12);
        assert!(settings.iter().all(|setting| setting.contenders.len() == 1));
        let run = config.length.warmup + config.length.measured;
        let planned = run * config.length.repeat * settings.len() as u32;
        assert!(planned <= Duration::from_secs(70), "{planned:?}");
    }

    #[test]
    fn peers_alternate_with_our_own_in_the_ping_pong_only() {
        let config = config("ringway bench -c 1 --transport tcp,unix --peers");
        let settings = settings(&config);
        let names = |setting: &Setting| {
            let pairs = setting.contenders.iter();
            pairs.map(|one| format!("{}/{}", one.server.name(), one.client.name())).collect()
        };
        let all: Vec<Vec<String>> = settings.iter().map(names).collect();
        let expected = [
            "ringway/ringway",
            "epoll/ringway",
            "uring/ringway",
            "tokio/ringway",
            "monoio/ringway",
            "epoll/epoll",
        ];
        assert_eq!(all[0], expected);
        assert_eq!(all[1], expected);
        assert!(all[2..].iter().all(|names| names == &["ringway/ringway"]));
    }

    #[test]
    fn parameters_name_what_tells_rows_apart() {
        let config = config("ringway bench receive --addr unix:///tmp/d -c 3 --batch 8");
        let setting = &settings(&config)[0];
        let expected = json!({"server": "unix:///tmp/d", "client": "ringway", "transport": "unix",
                              "mode": "batch 8", "connections": 3, "size": 32});
        assert_eq!(Value::Object(setting.parameters(&setting.contenders[0])), expected);
    }
}
