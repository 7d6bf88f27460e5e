//! The rows of a bench, and the order of their alternating runs.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::contender::{Client, Contender, Program};
use crate::args::{
    BenchConfig, MongoLoad, MongoSend, Pace, Protocol, RegistryLoad, RegistryMode, RpcLoad,
    RpcMode, SendMode, StreamLoad, Suite, Target, Transport,
};
use crate::process::GO_RPC;

/// One workload at one setting, measured for each contender.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) workload: Workload,
    pub(super) transport: Transport,
    pub(super) connections: u32,
    pub(super) size: u32,
    /// The contenders, at least one; their runs alternate.
    pub(super) contenders: Vec<Contender>,
    /// The method to call, if it is not the tool's own.
    pub(super) method: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    PingPong,
    Idle,
    Receive(SendMode),
    Ttcp,
    /// With a pause after each answer.
    Roundtrip {
        pause: Duration,
    },
    Rpc(RpcLoad),
    Stream(StreamLoad),
    Registry(RegistryLoad),
    Mongo(MongoLoad),
    /// A method of the user's.
    Call(Pace),
}

/// Returns all settings of `config`, suite by suite, as if every program were installed.
pub(super) fn settings(config: &BenchConfig) -> Vec<Setting> {
    let transports = match &config.target {
        Target::Own(transports) => transports.clone(),
        Target::Running(uri) => vec![Transport::of(uri)],
    };
    let mut settings = Vec::new();
    for suite in &config.suites {
        for &transport in &transports {
            for (workload, connections, size) in combinations(suite) {
                let mut contenders = own_contenders(config, suite);
                if config.peers {
                    contenders.extend(rivals(suite, workload, transport));
                    contenders.extend(official_driver(&contenders[0].server, workload));
                    contenders.extend(under_h2load(suite, workload, size));
                }
                if matches!(config.target, Target::Own(_)) && workload.is_put() {
                    contenders.push(Contender { server: Program::Disk, client: Client::Fsync });
                }
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
    // The length of a user's request is known once it is parsed.
    let unknown = vec![0];
    let (connections, sizes, workloads) = match suite {
        // They have no client.
        Suite::Codec | Suite::Event(_) | Suite::Local { .. } => return Vec::new(),
        Suite::Registry { rows, sizes } => {
            // Only the values of puts have a size.
            let row = |&(count, load): &(u32, RegistryLoad)| {
                let workload = Workload::Registry(load);
                let sizes = if workload.is_put() { &sizes[..] } else { &[0] };
                sizes.iter().map(move |&size| (workload, count, size)).collect::<Vec<_>>()
            };
            return rows.iter().flat_map(row).collect();
        }
        Suite::Mongo { connections, loads, .. } => {
            (connections, &unknown, loads.iter().map(|&load| Workload::Mongo(load)).collect())
        }
        Suite::Call { connections, paces, .. } => {
            (connections, &unknown, paces.iter().map(|&pace| Workload::Call(pace)).collect())
        }
        Suite::PingPong { connections, sizes } => (connections, sizes, vec![Workload::PingPong]),
        Suite::Idle { connections, sizes } => (connections, sizes, vec![Workload::Idle]),
        Suite::Ttcp { connections, sizes } => (connections, sizes, vec![Workload::Ttcp]),
        Suite::Roundtrip { connections, pause } => {
            (connections, &unknown, vec![Workload::Roundtrip { pause: *pause }])
        }
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

fn own_contenders(config: &BenchConfig, suite: &Suite) -> Vec<Contender> {
    let server = match &config.target {
        Target::Own(_) => Program::Ringway,
        Target::Running(uri) => Program::Running(uri.clone()),
    };
    let own = |client| Contender { server: server.clone(), client };
    match suite.protocols() {
        [] => vec![own(Client::Ringway)],
        protocols => protocols.iter().map(|&protocol| own(Client::of(protocol))).collect(),
    }
}

/// Returns the peers of a setting. The receive suite has none, because no peer frames and checks packets. An RPC
/// peer is measured with its own client; over gRPC either side may be exchanged.
fn rivals(suite: &Suite, workload: Workload, transport: Transport) -> Vec<Contender> {
    let pair = |server, client| Contender { server, client };
    let tonic = || pair(Program::Peer("tonic"), Client::Peer("tonic"));
    let our_client = || pair(Program::Peer("tonic"), Client::RingwayGrpc);
    let our_server = || pair(Program::Ringway, Client::Peer("tonic"));
    let is_grpc = suite.protocols().contains(&Protocol::Grpc);
    let is_native = suite.protocols().contains(&Protocol::Native);
    match workload {
        Workload::PingPong => {
            let ours = PEERS.map(|kind| pair(Program::Peer(kind), Client::Ringway));
            ours.into_iter().chain([pair(Program::Peer("epoll"), Client::Epoll)]).collect()
        }
        Workload::Idle => PEERS.map(|kind| pair(Program::Peer(kind), Client::Ringway)).into(),
        Workload::Receive(_)
        | Workload::Ttcp
        | Workload::Roundtrip { .. }
        | Workload::Call(_)
        | Workload::Mongo(_) => Vec::new(),
        Workload::Registry(_) => vec![pair(Program::Peer("etcd"), Client::RingwayGrpc)],
        Workload::Rpc(RpcLoad { mode, pace: Pace::Closed { .. } }) => {
            if let Some(client) = jsonrpsee(transport).filter(|_| mode == RpcMode::Unary) {
                let server = || Program::Peer("jsonrpsee");
                let crossed = [pair(server(), Client::RingwayJson), pair(Program::Ringway, client)];
                return crossed.into_iter().chain([pair(server(), client)]).collect();
            }
            let crossed = is_grpc.then(|| [our_client(), our_server()]);
            let tarpc = (is_native && mode == RpcMode::Unary)
                .then(|| pair(Program::Peer("tarpc"), Client::Peer("tarpc")));
            let tonic = (is_grpc || is_native).then(tonic);
            let is_json = suite.protocols().contains(&Protocol::Jsonrpc);
            // What it speaks is JSON-RPC 1.0, so neither side can be exchanged.
            let go = (is_json && mode == RpcMode::Unary)
                .then(|| pair(Program::Peer(GO_RPC), Client::Peer(GO_RPC)));
            crossed.into_iter().flatten().chain(tonic).chain(tarpc).chain(go).collect()
        }
        // The peers' clients have no open loop, and their servers no slow handlers.
        Workload::Rpc(RpcLoad { pace: Pace::Open { slow_percent: 0, .. }, .. }) if is_grpc => {
            vec![our_client()]
        }
        Workload::Rpc(_) => Vec::new(),
        Workload::Stream(StreamLoad::Echo { .. }) if is_grpc => {
            vec![our_client(), our_server(), tonic()]
        }
        // Each project requests a flood in its own form.
        Workload::Stream(_) => vec![tonic()],
    }
}

/// Returns MongoDB's own driver with the `server` that our client has.
fn official_driver(server: &Program, workload: Workload) -> Option<Contender> {
    let client = Client::Peer("mongodb");
    let server = server.clone();
    matches!(workload, Workload::Mongo(_)).then_some(Contender { server, client })
}

/// Returns jsonrpsee's client for a transport, if it has one.
fn jsonrpsee(transport: Transport) -> Option<Client> {
    match transport {
        Transport::Http => Some(Client::Peer("jsonrpsee-http")),
        Transport::Ws => Some(Client::Peer("jsonrpsee-ws")),
        Transport::Tcp | Transport::Udp | Transport::Unix => None,
    }
}

/// Returns three gRPC servers under h2load: ours, tonic's, and the floor of HTTP/2.
fn under_h2load(suite: &Suite, workload: Workload, size: u32) -> Vec<Contender> {
    let is_grpc = suite.protocols().contains(&Protocol::Grpc);
    let is_unary = matches!(
        workload,
        Workload::Rpc(RpcLoad { mode: RpcMode::Unary, pace: Pace::Closed { .. } })
    );
    if !(is_grpc && is_unary) {
        return Vec::new();
    }
    let floor = (size <= FLOOR_BYTES_MAX).then_some(Program::Peer("http2-floor"));
    let servers = [Program::Ringway, Program::Peer("tonic")].into_iter().chain(floor);
    servers.map(|server| Contender { server, client: Client::H2load }).collect()
}

impl Workload {
    fn is_put(self) -> bool {
        matches!(self, Self::Registry(RegistryLoad { mode: RegistryMode::Put, .. }))
    }
}

impl Setting {
    pub(super) fn suite(&self) -> &'static str {
        match self.workload {
            Workload::PingPong => "pingpong",
            Workload::Idle => "idle",
            Workload::Receive(_) => "receive",
            Workload::Ttcp => "ttcp",
            Workload::Roundtrip { .. } => "roundtrip",
            Workload::Rpc(_) => "rpc",
            Workload::Stream(_) => "stream",
            Workload::Registry(_) => "registry",
            Workload::Mongo(_) => "mongo",
            Workload::Call(_) => "call",
        }
    }

    /// Returns the unit of an operation.
    pub(super) fn unit(&self) -> &'static str {
        match self.workload {
            Workload::PingPong | Workload::Ttcp => "messages/s",
            Workload::Idle => "connections/s",
            Workload::Receive(_) => "packets/s",
            Workload::Roundtrip { .. } => "exchanges/s",
            Workload::Rpc(RpcLoad { mode: RpcMode::Unary, .. }) | Workload::Call(_) => "calls/s",
            Workload::Rpc(_) => "streams/s",
            Workload::Stream(StreamLoad::Echo { .. }) => "frames/s",
            Workload::Stream(StreamLoad::OneWay) => "messages/s",
            Workload::Registry(RegistryLoad { mode: RegistryMode::Watch, .. }) => "notices/s",
            Workload::Registry(_) => "requests/s",
            Workload::Mongo(_) => "operations/s",
        }
    }

    /// Returns the parameters of the row of `contender` in the order of the columns.
    pub(super) fn parameters(&self, contender: &Contender) -> Map<String, Value> {
        let mut parameters = Map::new();
        let mut put = |name: &str, value: Value| parameters.insert(name.to_owned(), value);
        put("server", json!(contender.server.name()));
        put("client", json!(contender.client.name()));
        // The server's address already names the method's server.
        if self.method.is_none() {
            put("transport", json!(self.transport.as_str()));
        }
        if let Workload::Rpc(_) | Workload::Stream(_) = self.workload {
            put("protocol", json!(contender.client.protocol()));
        }
        match self.workload {
            Workload::Receive(mode) => put("mode", json!(mode.to_string())),
            Workload::Rpc(load) => put("mode", json!(load.mode.as_str())),
            Workload::Registry(load) => put("mode", json!(load.mode.as_str())),
            Workload::Mongo(load) => {
                if load.send == MongoSend::Threads {
                    put("mode", json!("sync"));
                }
                put("op", json!(load.op.as_str()))
            }
            Workload::Stream(StreamLoad::OneWay) => put("mode", json!("one-way")),
            Workload::Stream(_) => put("mode", json!("echo")),
            Workload::Call(_) => put("method", json!(self.method)),
            Workload::PingPong | Workload::Idle | Workload::Ttcp | Workload::Roundtrip { .. } => {
                None
            }
        };
        put("connections", json!(self.connections));
        match self.workload {
            Workload::Rpc(RpcLoad { pace: Pace::Closed { depth }, .. })
            | Workload::Registry(RegistryLoad { depth, .. })
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
            Workload::Mongo(MongoLoad { send: MongoSend::Pipelines(batch), .. }) => {
                put("batch", json!(batch))
            }
            Workload::Mongo(MongoLoad { send: MongoSend::Fans(fan), .. }) => {
                put("fanout", json!(fan))
            }
            Workload::PingPong
            | Workload::Idle
            | Workload::Receive(_)
            | Workload::Ttcp
            | Workload::Roundtrip { pause: Duration::ZERO }
            | Workload::Stream(_)
            | Workload::Mongo(_) => None,
            Workload::Roundtrip { pause } => put("pause_ms", json!(pause.as_secs_f64() * 1e3)),
        };
        if self.has_payload() {
            put("size", json!(self.size));
        }
        parameters
    }

    /// Whether operations carry payloads of the row's size.
    pub(super) fn has_payload(&self) -> bool {
        !matches!(
            self.workload,
            Workload::Registry(_)
                | Workload::Mongo(_)
                | Workload::Roundtrip { .. }
                | Workload::Idle
        ) || self.workload.is_put()
    }

    /// Returns the number of sockets that a side may need: each operation of a fan has one.
    pub(super) fn sockets(&self) -> u32 {
        match self.workload {
            Workload::Mongo(MongoLoad { send: MongoSend::Fans(count), .. }) => {
                self.connections.saturating_mul(count)
            }
            _ => self.connections,
        }
    }

    /// Returns the number of operations in flight, if it is fixed and each has its own latency.
    pub(super) fn in_flight(&self) -> Option<u32> {
        match self.workload {
            // Those of a fan that are answered wait for the others.
            Workload::Mongo(MongoLoad { send: MongoSend::Fans(2..), .. }) => None,
            // A planned failure is no sample of the latencies, but too rare to be noticed.
            Workload::Mongo(load) => Some(self.connections * load.depth()),
            Workload::PingPong | Workload::Ttcp | Workload::Roundtrip { pause: Duration::ZERO } => {
                Some(self.connections)
            }
            Workload::Rpc(RpcLoad { pace: Pace::Closed { depth }, .. })
            | Workload::Call(Pace::Closed { depth }) => Some(self.connections * depth),
            // A change waits for the slowest watch.
            Workload::Registry(RegistryLoad { mode: RegistryMode::Watch, .. }) => None,
            Workload::Registry(load) => Some(self.connections * load.depth),
            Workload::Idle
            | Workload::Receive(_)
            | Workload::Roundtrip { .. }
            | Workload::Rpc(_)
            | Workload::Stream(_)
            | Workload::Call(_) => None,
        }
    }

    /// Returns the operations per second that should begin in an open loop.
    pub(super) fn due(&self) -> Option<f64> {
        match self.workload {
            Workload::Rpc(RpcLoad { pace: Pace::Open { rate, .. }, .. })
            | Workload::Call(Pace::Open { rate, .. }) => Some(rate as f64),
            _ => None,
        }
    }

    /// Returns the ladder of which this is a rung: equal for all its rates.
    pub(super) fn ladder(&self) -> Option<Self> {
        let flat = |pace| match pace {
            Pace::Open { slow_percent, .. } => Some(Pace::Open { rate: 0, slow_percent }),
            Pace::Closed { .. } => None,
        };
        let workload = match self.workload {
            Workload::Rpc(load) => Workload::Rpc(RpcLoad { pace: flat(load.pace)?, ..load }),
            Workload::Call(pace) => Workload::Call(flat(pace)?),
            Workload::PingPong
            | Workload::Idle
            | Workload::Receive(_)
            | Workload::Ttcp
            | Workload::Roundtrip { .. }
            | Workload::Stream(_)
            | Workload::Registry(_)
            | Workload::Mongo(_) => return None,
        };
        Some(Self { workload, ..self.clone() })
    }

    /// Returns the name of a run for the progress bar.
    pub(super) fn describe(&self, contender: &Contender, run: u32) -> String {
        let mode = match self.workload {
            Workload::PingPong | Workload::Idle | Workload::Ttcp | Workload::Roundtrip { .. } => {
                String::new()
            }
            Workload::Receive(mode) => format!(" {mode}"),
            Workload::Rpc(load) => format!(" {}", load.mode.as_str()),
            Workload::Registry(load) => format!(" {}", load.mode.as_str()),
            Workload::Mongo(load) => format!(" {}", load.op.as_str()),
            Workload::Stream(StreamLoad::OneWay) => " one-way".to_owned(),
            Workload::Stream(StreamLoad::Echo { window, .. }) => format!(" window {window}"),
            Workload::Call(_) => format!(" {}", self.method.as_deref().unwrap_or_default()),
        };
        let transport = match self.method {
            Some(_) => String::new(),
            None => format!(" {}", self.transport.as_str()),
        };
        let protocol = match self.workload {
            Workload::Rpc(_) | Workload::Stream(_) => {
                format!(" {} by {}", contender.client.protocol(), contender.client.name())
            }
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

/// Most payload bytes of a message that fits in one HTTP/2 frame with its prefix; the floor answers no longer ones.
const FLOOR_BYTES_MAX: u32 = (16 << 10) - 5;

const PEERS: [&str; 4] = ["epoll", "uring", "tokio", "monoio"];

#[cfg(test)]
mod tests {
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
    fn the_driver_of_mongodb_has_the_server_of_our_client() {
        let pairs = |words: &str| {
            let settings = settings(&config(words));
            let [setting] = &settings[..] else { panic!("one setting: {settings:?}") };
            let pair = |it: &Contender| (it.server.name().to_owned(), it.client.name());
            setting.contenders.iter().map(pair).collect::<Vec<_>>()
        };
        let words = "ringway bench mongo --op ping -c 1 --peers";
        let both = |server: &str| vec![(server.into(), "ringway"), (server.into(), "mongodb")];
        assert_eq!(pairs(words), both("ringway"));
        let words = "ringway bench mongo --op ping -c 1 --peers --uri mongodb://a:1";
        assert_eq!(pairs(words), both("tcp://a:1"));
        assert_eq!(pairs("ringway bench mongo --op ping -c 1").len(), 1);
    }

    #[test]
    fn as_many_are_in_flight_as_are_replaced_at_once() {
        for (words, in_flight, sockets) in [
            ("", Some(3), 3),
            ("--mode pipeline --batch-size 8", Some(24), 3),
            ("--fanout 1", Some(3), 3),
            ("--fanout 8", None, 24),
        ] {
            let config = config(&format!("ringway bench mongo --op find_one -c 3 {words}"));
            let setting = &settings(&config)[0];
            assert_eq!((setting.in_flight(), setting.sockets()), (in_flight, sockets), "{words}");
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
        let go = "go-rpc/go-rpc";
        assert_eq!(names("ringway bench jsonrpc --peers"), [ours, go]);
        assert_eq!(names("ringway bench jsonrpc --transport unix --peers"), [ours, go]);
        assert_eq!(names("ringway bench jsonrpc --rate 10 --peers"), [ours]);
        assert_eq!(
            names("ringway bench rpc --protocol native,jsonrpc --peers"),
            [ours, ours, tonic, tarpc, go]
        );
        for (transport, client) in [("http", "jsonrpsee-http"), ("ws", "jsonrpsee-ws")] {
            let [crossed, own] = ["ringway", "jsonrpsee"].map(|it| format!("{it}/{client}"));
            let words = format!("ringway bench jsonrpc --transport {transport} --peers");
            assert_eq!(names(&words), [ours, "jsonrpsee/ringway", &crossed, &own]);
        }
        assert_eq!(names("ringway bench rpc --rate 10 --peers"), [ours]);
        assert_eq!(names("ringway bench stream --peers"), [ours, tonic]);
        assert_eq!(names("ringway bench receive --peers"), [ours]);
        let servers = ["epoll", "uring", "tokio", "monoio"].map(|it| format!("{it}/ringway"));
        assert_eq!(
            names("ringway bench idle --peers"),
            [&[ours.to_owned()][..], &servers].concat()
        );
        let (our_client, our_server) = ("tonic/ringway", "ringway/tonic");
        let crossed = [ours, our_client, our_server, tonic];
        let h2load = ["ringway/h2load", "tonic/h2load", "http2-floor/h2load"];
        assert_eq!(names("ringway bench grpc --peers"), [&crossed[..], &h2load].concat());
        assert_eq!(names("ringway bench grpc --peers -m bidi"), crossed);
        assert_eq!(
            names("ringway bench grpc --peers -s 65536"),
            [&crossed[..], &h2load[..2]].concat()
        );
        assert_eq!(names("ringway bench grpc --rate 10 --peers"), [ours, our_client]);
        assert_eq!(names("ringway bench grpc --rate 10 --slow 1 --peers"), [ours]);
        assert_eq!(names("ringway bench stream --protocol grpc --peers"), crossed);
        assert_eq!(names("ringway bench stream --protocol grpc --one-way --peers"), [ours, tonic]);
        let both = [ours, ours, our_client, our_server, tonic, tarpc];
        assert_eq!(
            names("ringway bench rpc --protocol native,grpc --peers"),
            [&both[..], &h2load].concat()
        );
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
            "rpc unary ringway tcp grpc by ringway, 1 connection, 256 B, run 3"
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
