//! The rows of a bench, and the order in which their runs alternate.

use serde_json::{Map, Value, json};

use crate::args::{
    BenchConfig, Pace, Protocol, RpcLoad, RpcMode, SendMode, StreamLoad, Suite, Target, Transport,
    Uri,
};

/// One workload at one setting, measured for each of its contenders.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) workload: Workload,
    pub(super) transport: Transport,
    pub(super) connections: u32,
    pub(super) size: u32,
    /// Run after each other, over and over; at least one.
    pub(super) contenders: Vec<Contender>,
    /// The method that is called, where it is not the tool's own.
    pub(super) method: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    PingPong,
    Receive(SendMode),
    Rpc(RpcLoad),
    Stream(StreamLoad),
    /// A method that is not the tool's own.
    Call(Pace),
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
    /// Ours, which makes calls over the native protocol.
    Ringway,
    /// Ours, over gRPC.
    RingwayGrpc,
    /// The peers' plain epoll client.
    Epoll,
    /// The client of a rival's RPC.
    Peer(&'static str),
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
                let contenders = contenders(config, suite, workload);
                let method = match suite {
                    Suite::Call { job, .. } => Some(job.method.clone()),
                    _ => None,
                };
                settings.push(Setting {
                    workload,
                    transport,
                    connections,
                    size,
                    contenders,
                    method,
                });
            }
        }
    }
    settings
}

fn combinations(suite: &Suite) -> Vec<(Workload, u32, u32)> {
    // How long a user's request is turns out when it is read.
    let unknown = vec![0];
    let (connections, sizes, workloads) = match suite {
        Suite::Call { connections, paces, .. } => {
            (connections, &unknown, paces.iter().map(|&pace| Workload::Call(pace)).collect())
        }
        Suite::PingPong { connections, sizes } => (connections, sizes, vec![Workload::PingPong]),
        Suite::Receive { connections, sizes, modes } => {
            (connections, sizes, modes.iter().map(|&mode| Workload::Receive(mode)).collect())
        }
        Suite::Rpc { connections, sizes, loads, .. } => {
            (connections, sizes, loads.iter().map(|&load| Workload::Rpc(load)).collect())
        }
        Suite::Stream { connections, sizes, loads, .. } => {
            (connections, sizes, loads.iter().map(|&load| Workload::Stream(load)).collect())
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

/// The receive suite has no peers: none of them frames and checks what it receives. A rival's RPC is
/// measured by its own client.
fn contenders(config: &BenchConfig, suite: &Suite, workload: Workload) -> Vec<Contender> {
    let server = match &config.target {
        Target::Own(_) => Program::Ringway,
        Target::Running(uri) => Program::Running(uri.clone()),
    };
    let own = |client| Contender { server: server.clone(), client };
    let mut contenders: Vec<Contender> = match suite {
        Suite::Rpc { protocols, .. } | Suite::Stream { protocols, .. } => {
            protocols.iter().map(|&protocol| own(Client::of(protocol))).collect()
        }
        Suite::PingPong { .. } | Suite::Receive { .. } | Suite::Call { .. } => {
            vec![own(Client::Ringway)]
        }
    };
    if !config.peers {
        return contenders;
    }
    let with_ours = |server| Contender { server, client: Client::Ringway };
    let rival = |name| Contender { server: Program::Peer(name), client: Client::Peer(name) };
    match workload {
        Workload::PingPong => {
            contenders.extend(PEERS.map(|kind| with_ours(Program::Peer(kind))));
            contenders.push(Contender { server: Program::Peer("epoll"), client: Client::Epoll });
        }
        Workload::Receive(_) | Workload::Call(_) => {}
        Workload::Rpc(RpcLoad { mode, pace: Pace::Closed { .. } }) => {
            contenders.push(rival("tonic"));
            if mode == RpcMode::Unary {
                contenders.push(rival("tarpc"));
            }
        }
        // The rivals' clients have no open loop.
        Workload::Rpc(_) => {}
        Workload::Stream(_) => contenders.push(rival("tonic")),
    }
    contenders
}

impl Setting {
    pub(super) fn suite(&self) -> &'static str {
        match self.workload {
            Workload::PingPong => "pingpong",
            Workload::Receive(_) => "receive",
            Workload::Rpc(_) => "rpc",
            Workload::Stream(_) => "stream",
            Workload::Call(_) => "call",
        }
    }

    /// The unit of an operation.
    pub(super) fn unit(&self) -> &'static str {
        match self.workload {
            Workload::PingPong => "messages/s",
            Workload::Receive(_) => "packets/s",
            Workload::Rpc(RpcLoad { mode: RpcMode::Unary, .. }) | Workload::Call(_) => "calls/s",
            Workload::Rpc(_) => "streams/s",
            Workload::Stream(StreamLoad::Echo { .. }) => "frames/s",
            Workload::Stream(StreamLoad::OneWay) => "messages/s",
        }
    }

    /// The parameters of the row of `contender`, in the order of the columns.
    pub(super) fn parameters(&self, contender: &Contender) -> Map<String, Value> {
        let mut parameters = Map::new();
        let mut put = |name: &str, value: Value| parameters.insert(name.to_owned(), value);
        put("server", json!(contender.server.name()));
        put("client", json!(contender.client.name()));
        // The address of a method's server says it.
        if self.method.is_none() {
            put("transport", json!(self.transport.as_str()));
        }
        if let Workload::Rpc(_) | Workload::Stream(_) = self.workload {
            put("protocol", json!(contender.client.protocol()));
        }
        match self.workload {
            Workload::Receive(mode) => put("mode", json!(mode.to_string())),
            Workload::Rpc(load) => put("mode", json!(load.mode.as_str())),
            Workload::Stream(StreamLoad::OneWay) => put("mode", json!("one-way")),
            Workload::Stream(_) => put("mode", json!("echo")),
            Workload::Call(_) => put("method", json!(self.method)),
            Workload::PingPong => None,
        };
        put("connections", json!(self.connections));
        match self.workload {
            Workload::Rpc(RpcLoad { pace: Pace::Closed { depth }, .. })
            | Workload::Call(Pace::Closed { depth }) => put("depth", json!(depth)),
            Workload::Call(Pace::Open { rate, .. }) => put("due", json!(rate)),
            Workload::Rpc(RpcLoad { pace: Pace::Open { rate, slow_percent }, .. }) => {
                put("due", json!(rate));
                put("slow", json!(slow_percent))
            }
            Workload::Stream(StreamLoad::Echo { frames, window }) => {
                put("frames", json!(frames));
                put("window", json!(window))
            }
            Workload::PingPong | Workload::Receive(_) | Workload::Stream(_) => None,
        };
        put("size", json!(self.size));
        parameters
    }

    /// Operations in flight at any moment, where that is fixed and each has a latency of its own.
    pub(super) fn in_flight(&self) -> Option<u32> {
        match self.workload {
            Workload::PingPong => Some(self.connections),
            Workload::Rpc(RpcLoad { pace: Pace::Closed { depth }, .. })
            | Workload::Call(Pace::Closed { depth }) => Some(self.connections * depth),
            Workload::Receive(_) | Workload::Rpc(_) | Workload::Stream(_) | Workload::Call(_) => {
                None
            }
        }
    }

    /// Operations per second that are to be begun, whatever becomes of them.
    pub(super) fn due(&self) -> Option<f64> {
        match self.workload {
            Workload::Rpc(RpcLoad { pace: Pace::Open { rate, .. }, .. })
            | Workload::Call(Pace::Open { rate, .. }) => Some(rate as f64),
            _ => None,
        }
    }

    /// The name of a run in the progress bar.
    pub(super) fn describe(&self, contender: &Contender, run: u32) -> String {
        let mode = match self.workload {
            Workload::PingPong => String::new(),
            Workload::Receive(mode) => format!(" {mode}"),
            Workload::Rpc(load) => format!(" {}", load.mode.as_str()),
            Workload::Stream(StreamLoad::OneWay) => " one-way".to_owned(),
            Workload::Stream(StreamLoad::Echo { window, .. }) => format!(" window {window}"),
            Workload::Call(_) => format!(" {}", self.method.as_deref().unwrap_or_default()),
        };
        let transport = match self.method {
            Some(_) => String::new(),
            None => format!(" {}", self.transport.as_str()),
        };
        let protocol = match self.workload {
            Workload::Rpc(_) | Workload::Stream(_) => format!(" {}", contender.client.protocol()),
            _ => String::new(),
        };
        format!(
            "{}{mode} {}{transport}{protocol}, {} connection{}, {} B, run {run}",
            self.suite(),
            contender.server.name(),
            self.connections,
            if self.connections == 1 { "" } else { "s" },
            self.size
        )
    }
}

impl Program {
    /// The name in the `server` parameter of a row.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Ringway => "ringway",
            Self::Peer(kind) => kind,
            Self::Running(uri) => uri.as_str(),
        }
    }
}

impl Client {
    /// Ours that speaks `protocol`.
    fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Native => Self::Ringway,
            Protocol::Grpc => Self::RingwayGrpc,
        }
    }

    /// The name in the `client` parameter of a row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ringway | Self::RingwayGrpc => "ringway",
            Self::Epoll => "epoll",
            Self::Peer(name) => name,
        }
    }

    /// What its calls are carried by; the name in the `protocol` parameter of a row of calls or streams.
    pub(super) fn protocol(self) -> &'static str {
        match self {
            Self::Ringway | Self::Epoll => Protocol::Native.as_str(),
            Self::RingwayGrpc | Self::Peer("tonic") => Protocol::Grpc.as_str(),
            Self::Peer(name) => name,
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
        assert_eq!(settings.len(), 17);
        assert!(settings.iter().all(|setting| setting.contenders.len() == 1));
        let run = config.length.warmup + config.length.measured;
        let planned = run * config.length.repeat * settings.len() as u32;
        assert!(planned <= Duration::from_secs(70), "{planned:?}");
    }

    #[test]
    fn peers_alternate_with_our_own() {
        let config = config("ringway bench pingpong -c 1 --transport tcp,unix --peers");
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
    }

    #[test]
    fn rivals_are_measured_by_their_own_clients() {
        let names = |words: &str| -> Vec<String> {
            let config = config(words);
            let pairs = settings(&config)[0].contenders.clone().into_iter();
            pairs.map(|one| format!("{}/{}", one.server.name(), one.client.name())).collect()
        };
        let (ours, tonic, tarpc) = ("ringway/ringway", "tonic/tonic", "tarpc/tarpc");
        assert_eq!(names("ringway bench rpc --peers"), [ours, tonic, tarpc]);
        assert_eq!(names("ringway bench rpc -m bidi --peers"), [ours, tonic]);
        assert_eq!(names("ringway bench rpc --rate 10 --peers"), [ours]);
        assert_eq!(names("ringway bench stream --peers"), [ours, tonic]);
        assert_eq!(names("ringway bench receive --peers"), [ours]);
    }

    #[test]
    fn protocols_alternate() {
        let config = config("ringway bench rpc --protocol native,grpc -c 1,2");
        let settings = settings(&config);
        assert_eq!(settings.len(), 2);
        for setting in &settings {
            let spoken: Vec<_> = setting.contenders.iter().map(|it| it.client.protocol()).collect();
            assert_eq!(spoken, ["native", "grpc"]);
        }
        assert_eq!(
            settings[0].describe(&settings[0].contenders[1], 3),
            "rpc unary ringway tcp grpc, 1 connection, 256 B, run 3"
        );
    }

    #[test]
    fn parameters_name_what_tells_rows_apart() {
        let config = config("ringway bench receive --addr unix:///tmp/d -c 3 --batch 8");
        let setting = &settings(&config)[0];
        let expected = json!({"server": "unix:///tmp/d", "client": "ringway", "transport": "unix",
                              "mode": "batch 8", "connections": 3, "size": 32});
        assert_eq!(Value::Object(setting.parameters(&setting.contenders[0])), expected);
    }

    #[test]
    fn parameters_of_a_users_method() {
        let config = config("ringway bench call tls://a:1 m.M/Go --rate 9 -c 2");
        let setting = &settings(&config)[0];
        let expected = json!({"server": "tls://a:1", "client": "ringway", "method": "m.M/Go",
                              "connections": 2, "due": 9, "size": 0});
        assert_eq!(Value::Object(setting.parameters(&setting.contenders[0])), expected);
        assert_eq!(
            setting.describe(&setting.contenders[0], 1),
            "call m.M/Go tls://a:1, 2 connections, 0 B, run 1"
        );
    }

    #[test]
    fn parameters_of_calls_and_streams() {
        let parameters = |words: &str| {
            let setting = settings(&config(words)).remove(0);
            let mut parameters = setting.parameters(&setting.contenders[0]);
            parameters
                .retain(|name, _| !["server", "client", "transport"].contains(&name.as_str()));
            Value::Object(parameters)
        };
        let calls =
            json!({"protocol": "native", "mode": "bidi", "connections": 2, "depth": 4, "size": 47});
        assert_eq!(parameters("ringway bench rpc -c 2 -l 4 -s 47 -m bidi"), calls);
        let open = json!({"protocol": "native", "mode": "unary", "connections": 100, "due": 9,
                          "slow": 1, "size": 256});
        assert_eq!(parameters("ringway bench rpc --rate 9 --slow 1"), open);
        let frames = json!({"protocol": "grpc", "mode": "echo", "connections": 100, "frames": 16,
                            "window": 8, "size": 128});
        assert_eq!(parameters("ringway bench stream -w 8 --protocol grpc"), frames);
    }
}
