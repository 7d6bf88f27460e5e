//! The command line.

mod client;

use std::error::Error;
use std::ffi::OsString;

use lexopt::prelude::*;

use crate::address::Address;
pub(crate) use client::{
    Calls, FloodOptions, Load, Method, MongoOp, MongoOptions, Peer, Streams, Workload,
};

/// The command to run.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Serve(Serve),
    Client(Workload),
}

/// `serve <kind>`.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) kind: Kind,
    pub(crate) listen: Address,
    pub(crate) core: Option<usize>,
}

/// The servers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Epoll,
    EpollDiscard,
    Uring,
    Tokio,
    Monoio,
    Tonic,
    Tarpc,
    Jsonrpsee,
    Http2Floor,
}

pub(crate) const HELP: &str = "\
Plain servers and a plain client to measure Ringway against.

Usage:
  ringway-peers serve <kind> [--listen ADDRESS] [--core N]
  ringway-peers client pingpong --addr ADDRESS [options]
  ringway-peers client rpc    --peer PEER --addr ADDRESS [-l DEPTH] [-m METHOD] [options]
  ringway-peers client stream --peer tonic --addr ADDRESS [-f FRAMES] [-w WINDOW] [options]
  ringway-peers client flood  --peer tonic --addr ADDRESS [options]
  ringway-peers client mongo  --addr ADDRESS [--op OP] [--fill] [--sync] [options]

Kinds of server, each one thread:
  epoll          level-triggered epoll, one read and one write a message
  uring          io_uring, one-shot receive and send
  tokio          tokio, current-thread runtime, a task a connection
  monoio         monoio on io_uring, a task a connection
  epoll-discard  level-triggered epoll that reads and throws away
  tonic          gRPC by tonic, all four kinds of call
  tarpc          tarpc with bincode, unary calls
  jsonrpsee      JSON-RPC by jsonrpsee over HTTP and WebSocket, unary calls over TCP
  http2-floor    level-triggered epoll that answers unary calls of gRPC and decodes nothing

A server prints `listening on ADDRESS` when it is ready and ends with status 0 on SIGTERM or
SIGINT. A client compares every reply, prints one JSON object and ends with status 1 if there was
an error or a mismatch.

Clients:
  pingpong  one message in flight on each connection
  rpc       DEPTH calls in flight on each connection; a call that streams is a whole stream with
            one message each way
  stream    one stream of FRAMES messages after another on each connection, at most WINDOW of
            them unanswered; the rate is of messages, the percentiles are of whole streams
  flood     one stream from the server, as fast as it comes
  mongo     one operation of the crate mongodb after the other in each of as many tasks as connections

Options:
  --listen ADDRESS    tcp://IP:PORT or unix://PATH; default tcp://127.0.0.1:0
  --addr ADDRESS      the server to measure
  --peer PEER         what it speaks: tonic, tarpc, jsonrpsee-http or jsonrpsee-ws
  -c, --connections N connections; default 1 (not flood)
  -s, --size BYTES    bytes of a message; default 16384
  -d, --duration S    measured seconds, fractions allowed; default 5
      --warmup S      seconds before the measurement; default 0.5
  -l, --depth N       calls in flight on each connection; default 1
  -m, --method NAME   unary, client_stream, server_stream or bidi; default unary
  -f, --frames N      messages of a stream each way; default 16
  -w, --window N      messages of a stream unanswered at most; default 1
      --op OP         ping, find_one, insert_one, find_raw, find_struct, find_owned, bulk or mixed;
                      default ping (mongo)
      --fill          empty the database `ringway_bench` and write what is read (mongo)
      --sync          each connection has a thread that blocks (mongo)
      --core N        run on this core only
      --phases        print `measuring` and `measured` as the measured interval begins and ends
  -h, --help          this text

Environment:
  RINGWAY_PEERS_MONGODB_URI  the connection string for `client mongo`, instead of --addr's address

Examples:
  ringway-peers serve epoll --listen tcp://127.0.0.1:7001 --core 0
  ringway-peers client pingpong --addr tcp://127.0.0.1:7001 -c 100 -s 64 -d 2 --core 1
  ringway-peers serve uring --listen unix:///tmp/echo.sock
  ringway-peers serve tonic --listen tcp://127.0.0.1:7002 --core 0
  ringway-peers client rpc --peer tonic --addr tcp://127.0.0.1:7002 -c 2 -l 400 -s 47 --core 1
";

/// Reads the arguments of this process.
pub(crate) fn parse() -> Result<Command, Box<dyn Error>> {
    parse_from(lexopt::Parser::from_env())
}

fn parse_from(mut parser: lexopt::Parser) -> Result<Command, Box<dyn Error>> {
    match parser.next()? {
        None | Some(Short('h') | Long("help")) => Ok(Command::Help),
        Some(Value(word)) if word == "serve" => parse_serve(parser),
        Some(Value(word)) if word == "client" => client::parse(parser),
        Some(other) => Err(other.unexpected().into()),
    }
}

fn parse_serve(mut parser: lexopt::Parser) -> Result<Command, Box<dyn Error>> {
    let mut kind = None;
    let mut listen = None;
    let mut core = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("listen") => listen = Some(Address::parse(&parser.value()?.string()?)?),
            Long("core") => core = Some(parser.value()?.parse()?),
            Value(word) if kind.is_none() => kind = Some(parse_kind(&word)?),
            other => return Err(other.unexpected().into()),
        }
    }
    let kind = kind.ok_or("serve needs a kind, as in serve epoll; --help lists them")?;
    let listen = listen.map_or_else(|| Address::parse("tcp://127.0.0.1:0"), Ok)?;
    Ok(Command::Serve(Serve { kind, listen, core }))
}

fn parse_kind(word: &OsString) -> Result<Kind, Box<dyn Error>> {
    Ok(match word.to_str() {
        Some("epoll") => Kind::Epoll,
        Some("epoll-discard") => Kind::EpollDiscard,
        Some("uring") => Kind::Uring,
        Some("tokio") => Kind::Tokio,
        Some("monoio") => Kind::Monoio,
        Some("tonic") => Kind::Tonic,
        Some("tarpc") => Kind::Tarpc,
        Some("jsonrpsee") => Kind::Jsonrpsee,
        Some("http2-floor") => Kind::Http2Floor,
        _ => return Err(format!("unknown kind of server {word:?}").into()),
    })
}

#[cfg(test)]
mod tests {
    use super::{Command, Method, Peer, Workload, parse_from};

    fn parse(line: &str) -> Result<Command, String> {
        let words = std::iter::once("ringway-peers").chain(line.split_whitespace());
        parse_from(lexopt::Parser::from_iter(words)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_client_line_is_read() {
        let line = "client pingpong --addr tcp://127.0.0.1:1 -c 7 -s 64 -d 0.25 --core 1";
        let Ok(Command::Client(Workload::PingPong(load))) = parse(line) else {
            panic!("{:?}", parse(line))
        };
        assert_eq!((load.connections, load.message_bytes), (7, 64));
        assert_eq!((load.duration.as_millis(), load.core), (250, Some(1)));
    }

    #[test]
    fn lines_of_rpc_clients_are_read() {
        let line = "client rpc --peer tonic --addr tcp://127.0.0.1:1 -c 2 -l 400 -m bidi";
        let Ok(Command::Client(Workload::Calls(calls))) = parse(line) else {
            panic!("{:?}", parse(line))
        };
        assert_eq!((calls.peer, calls.depth, calls.method), (Peer::Tonic, 400, Method::Bidi));
        assert_eq!(calls.load.connections, 2);
        let line = "client stream --peer tonic --addr tcp://127.0.0.1:1 -f 7 -w 3 -s 128";
        let Ok(Command::Client(Workload::Streams(streams))) = parse(line) else {
            panic!("{:?}", parse(line))
        };
        assert_eq!((streams.frames, streams.window, streams.load.message_bytes), (7, 3, 128));
        let line = "client flood --peer tonic --addr tcp://127.0.0.1:1 -s 128";
        assert!(
            matches!(parse(line), Ok(Command::Client(Workload::Flood(_)))),
            "{:?}",
            parse(line)
        );
    }

    #[test]
    fn wrong_lines_are_refused() {
        for line in [
            "serve",
            "serve nginx",
            "serve epoll --listen 1",
            "serve epoll uring",
            "client pingpong",
            "client --addr tcp://127.0.0.1:1",
            "client pingpong --addr tcp://127.0.0.1:1 -c 0",
            "client pingpong --addr tcp://127.0.0.1:1 -s 99999999",
            "client pingpong --addr tcp://127.0.0.1:1 -d -1",
            "client pingpong --addr tcp://127.0.0.1:1 -l 2",
            "client pingpong --peer tonic --addr tcp://127.0.0.1:1",
            "client rpc --addr tcp://127.0.0.1:1",
            "client rpc --peer nfs --addr tcp://127.0.0.1:1",
            "client rpc --peer tarpc --addr tcp://127.0.0.1:1 -m bidi",
            "client rpc --peer jsonrpsee-ws --addr tcp://127.0.0.1:1 -m bidi",
            "client rpc --peer jsonrpsee --addr tcp://127.0.0.1:1",
            "client rpc --peer tonic --addr tcp://127.0.0.1:1 -w 2",
            "client stream --peer tarpc --addr tcp://127.0.0.1:1",
            "client stream --peer tonic --addr tcp://127.0.0.1:1 -f 0",
            "client flood --peer tonic --addr tcp://127.0.0.1:1 -c 2",
            "client mongo --addr tcp://127.0.0.1:1 -s 64",
            "client mongo --addr tcp://127.0.0.1:1 --op drop",
            "client pingpong --addr tcp://127.0.0.1:1 --op ping",
            "client pingpong --addr tcp://127.0.0.1:1 --fill",
            "dance",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
