//! The servers that a bench measures: its own, or one that is already running.

use super::bench::{BenchFlags, Suite};
use super::choices::{Protocol, Transport};
use super::values::{Scheme, Uri, ValueError};

/// The servers that are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Our own servers, started over each of these transports; at least one.
    Own(Vec<Transport>),
    /// A running server at `tcp://` or `unix://`, for gRPC also `grpc://`, for calls also `tls://` and
    /// `grpcs://`; its costs are unknown.
    Running(Uri),
}

/// # Errors
/// Flags contradict each other, or a suite cannot measure the server.
pub(super) fn target(common: &BenchFlags, suites: &[Suite]) -> Result<Target, ValueError> {
    let BenchFlags { addr, transport, unix, peers, .. } = common;
    let mut transports = transport.clone();
    if *unix && !transports.contains(&Transport::Unix) {
        transports.push(Transport::Unix);
    }
    let is_unix = |uri: &Uri| uri.scheme() == Scheme::Unix;
    if suites.iter().any(|suite| suite.protocols().contains(&Protocol::Grpc))
        && (transports.contains(&Transport::Unix) || addr.as_ref().is_some_and(is_unix))
    {
        return Err(ValueError::new(
            "gRPC is measured over TCP: give it tcp, or measure unix with --protocol native",
        ));
    }
    let is_roundtrip = |suite: &Suite| matches!(suite, Suite::Roundtrip { .. });
    if transports.contains(&Transport::Udp) && !suites.iter().all(is_roundtrip) {
        return Err(ValueError::new("udp is a transport of `bench roundtrip`"));
    }
    let speaks_http = |one: &Transport| matches!(one, Transport::Http | Transport::Ws);
    let is_json = |suite: &Suite| is_alone(suite, Protocol::Jsonrpc);
    if transports.iter().any(speaks_http) && !suites.iter().all(is_json) {
        return Err(ValueError::new("http and ws are transports of `bench jsonrpc`"));
    }
    match addr {
        None if transports.is_empty() => Ok(Target::Own(vec![Transport::Tcp])),
        None => Ok(Target::Own(transports)),
        Some(_) if !transports.is_empty() => {
            Err(ValueError::new("--addr names the transport already; drop --transport or --unix"))
        }
        Some(_) if *peers && !suites.iter().all(|suite| matches!(suite, Suite::Mongo { .. })) => {
            Err(ValueError::new(
                "--addr measures one running server; drop it to run --peers beside our own",
            ))
        }
        Some(uri) => {
            suites.iter().try_for_each(|suite| check_address(uri, suite))?;
            Ok(Target::Running(uri.clone()))
        }
    }
}

/// Whether `suite` compares no other protocol.
fn is_alone(suite: &Suite, spoken: Protocol) -> bool {
    let protocols = suite.protocols();
    !protocols.is_empty() && protocols.iter().all(|&protocol| protocol == spoken)
}

/// # Errors
/// `suite` cannot measure the server.
fn check_address(uri: &Uri, suite: &Suite) -> Result<(), ValueError> {
    let is_alone = |spoken| is_alone(suite, spoken);
    match uri.scheme() {
        _ if matches!(suite, Suite::Call { .. }) => Ok(()),
        _ if matches!(suite, Suite::Idle { .. }) => Err(ValueError::new(
            "--addr: the memory of a server that the bench did not start is not known to it; drop it",
        )),
        Scheme::Tcp | Scheme::Unix => Ok(()),
        Scheme::Udp if matches!(suite, Suite::Roundtrip { .. }) => Ok(()),
        Scheme::Grpc if is_alone(Protocol::Grpc) => Ok(()),
        Scheme::JsonTcp | Scheme::JsonUnix if is_alone(Protocol::Jsonrpc) => Ok(()),
        Scheme::Grpc => Err(ValueError::new(format!(
            "{uri} is measured by `bench grpc`, `bench stream --protocol grpc` and `bench call`"
        ))),
        Scheme::Http | Scheme::Ws if is_alone(Protocol::Jsonrpc) => Ok(()),
        Scheme::JsonTcp
        | Scheme::JsonUnix
        | Scheme::Http
        | Scheme::Https
        | Scheme::Ws
        | Scheme::Wss => Err(ValueError::new(format!(
            "{uri} is not measured by this bench; `bench jsonrpc` speaks jsonrpc+tcp://, jsonrpc+unix://, http:// and ws://"
        ))),
        Scheme::Source if is_alone(Protocol::Native) => Ok(()),
        Scheme::Source => Err(ValueError::new(format!(
            "{uri}: only `bench rpc`, `bench stream` and `bench call` take sources of servers, and the first two \
             without --protocol"
        ))),
        Scheme::Udp | Scheme::Tls | Scheme::Grpcs | Scheme::GrpcUnix | Scheme::JsonTls => {
            Err(ValueError::new(format!(
                "{uri}: this bench speaks tcp://, unix:// and grpc://; `bench call` measures over TLS"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, tests::parse_words};
    use super::*;

    fn target_of(words: &str) -> Target {
        match parse_words(words).expect(words) {
            Config::Bench(config) => config.target,
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn targets() {
        let both = vec![Transport::Tcp, Transport::Unix];
        assert_eq!(target_of("bench --transport tcp,unix"), Target::Own(both));
        let web = vec![Transport::Http, Transport::Ws];
        assert_eq!(target_of("bench jsonrpc --transport http,ws"), Target::Own(web));
        assert_eq!(target_of("bench --unix"), Target::Own(vec![Transport::Unix]));
        let uri: Uri = "unix:///tmp/e".parse().expect("an address");
        assert_eq!(target_of("bench --addr unix:///tmp/e"), Target::Running(uri));
        for words in ["rpc", "stream"] {
            let uri: Uri = "etcd://a:1/echo".parse().expect("an address");
            let words = format!("bench {words} --addr etcd://a:1/echo");
            assert_eq!(target_of(&words), Target::Running(uri));
        }
        for words in ["grpc", "pingpong", "registry", "rpc --protocol native,grpc"] {
            let words = format!("bench {words} --addr file:///tmp/list");
            let error = parse_words(&words).expect_err(&words);
            assert!(error.contains("take sources of servers"), "{error}");
        }
        let all = vec![Transport::Tcp, Transport::Udp, Transport::Unix];
        assert_eq!(target_of("bench roundtrip --transport tcp,udp,unix"), Target::Own(all));
        let uri: Uri = "udp://a:1".parse().expect("an address");
        assert_eq!(target_of("bench roundtrip --addr udp://a:1"), Target::Running(uri));
        for words in
            ["pingpong --transport udp", "ttcp --transport tcp,udp", "rpc --addr udp://a:1"]
        {
            parse_words(&format!("bench {words}")).expect_err(words);
        }
        let uri: Uri = "grpc://a:1".parse().expect("an address");
        assert_eq!(target_of("bench grpc --addr grpc://a:1"), Target::Running(uri));
    }
}
