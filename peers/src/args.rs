//! The command line.

use std::error::Error;
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;

use crate::address::Address;
use crate::limits::{CLIENT_CONNECTIONS_MAX, MESSAGE_BYTES_MAX};

/// What the user asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Serve(Serve),
    PingPong(PingPong),
}

/// `serve <kind>`.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) kind: Kind,
    pub(crate) listen: Address,
    pub(crate) core: Option<usize>,
}

/// The servers there are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Epoll,
    EpollDiscard,
    Uring,
    Tokio,
    Monoio,
}

/// `client pingpong`.
#[derive(Debug)]
pub(crate) struct PingPong {
    pub(crate) address: Address,
    pub(crate) connections: usize,
    pub(crate) message_bytes: usize,
    pub(crate) duration: Duration,
    pub(crate) warmup: Duration,
    pub(crate) core: Option<usize>,
}

pub(crate) const HELP: &str = "\
Plain servers and a plain client to measure Ringway against.

Usage:
  ringway-peers serve <kind> [--listen ADDRESS] [--core N]
  ringway-peers client pingpong --addr ADDRESS [-c N] [-s BYTES] [-d SECONDS]
                                [--warmup SECONDS] [--core N]

Kinds of server, each one thread:
  epoll          level-triggered epoll, one read and one write a message
  uring          io_uring, one-shot receive and send
  tokio          tokio, current-thread runtime, a task a connection
  monoio         monoio on io_uring, a task a connection
  epoll-discard  level-triggered epoll that reads and throws away

A server prints `listening on ADDRESS` when it is ready and ends with status 0 on SIGTERM or
SIGINT. The client keeps one message in flight on each connection, compares every reply, prints
one JSON object and ends with status 1 if there was an error or a mismatch.

Options:
  --listen ADDRESS    tcp://IP:PORT or unix://PATH; default tcp://127.0.0.1:0
  --addr ADDRESS      the server to measure
  -c, --connections N connections; default 1
  -s, --size BYTES    bytes of a message; default 16384
  -d, --duration S    measured seconds, fractions allowed; default 5
      --warmup S      seconds before the measurement; default 0.5
      --core N        run on this core only
  -h, --help          this text

Examples:
  ringway-peers serve epoll --listen tcp://127.0.0.1:7001 --core 0
  ringway-peers client pingpong --addr tcp://127.0.0.1:7001 -c 100 -s 64 -d 2 --core 1
  ringway-peers serve uring --listen unix:///tmp/echo.sock
";

/// Reads the arguments of this process.
pub(crate) fn parse() -> Result<Command, Box<dyn Error>> {
    parse_from(lexopt::Parser::from_env())
}

fn parse_from(mut parser: lexopt::Parser) -> Result<Command, Box<dyn Error>> {
    match parser.next()? {
        None | Some(Short('h') | Long("help")) => Ok(Command::Help),
        Some(Value(word)) if word == "serve" => parse_serve(parser),
        Some(Value(word)) if word == "client" => parse_client(parser),
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
    let kind = kind.ok_or("serve needs a kind: epoll, uring, tokio, monoio or epoll-discard")?;
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
        _ => return Err(format!("unknown kind of server {word:?}").into()),
    })
}

fn parse_client(mut parser: lexopt::Parser) -> Result<Command, Box<dyn Error>> {
    let mut workload = None;
    let mut address = None;
    let mut connections = 1;
    let mut message_bytes = 16 * 1024;
    let mut duration = Duration::from_secs(5);
    let mut warmup = Duration::from_millis(500);
    let mut core = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("addr") => address = Some(Address::parse(&parser.value()?.string()?)?),
            Short('c') | Long("connections") => {
                connections = bounded(parser.value()?, "connections", CLIENT_CONNECTIONS_MAX)?;
            }
            Short('s') | Long("size") => {
                message_bytes = bounded(parser.value()?, "bytes of a message", MESSAGE_BYTES_MAX)?;
            }
            Short('d') | Long("duration") => duration = seconds(parser.value()?)?,
            Long("warmup") => warmup = seconds(parser.value()?)?,
            Long("core") => core = Some(parser.value()?.parse()?),
            Value(word) if workload.is_none() && word == "pingpong" => workload = Some(()),
            other => return Err(other.unexpected().into()),
        }
    }
    workload.ok_or("client needs a workload: pingpong")?;
    let address = address.ok_or("client needs --addr, as in --addr tcp://127.0.0.1:7001")?;
    let options = PingPong { address, connections, message_bytes, duration, warmup, core };
    Ok(Command::PingPong(options))
}

fn bounded(value: OsString, what: &str, max: usize) -> Result<usize, Box<dyn Error>> {
    let number = value.parse_with(usize::from_str)?;
    if number == 0 || number > max {
        return Err(format!("{what} must be 1 to {max}, not {number}").into());
    }
    Ok(number)
}

fn seconds(value: OsString) -> Result<Duration, Box<dyn Error>> {
    let number = value.parse_with(f64::from_str)?;
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|duration| *duration <= Duration::from_secs(3600))
        .ok_or_else(|| format!("a time must be 0 to 3600 seconds, not {number}").into())
}

#[cfg(test)]
mod tests {
    use super::{Command, parse_from};

    fn parse(line: &str) -> Result<Command, String> {
        let words = std::iter::once("ringway-peers").chain(line.split_whitespace());
        parse_from(lexopt::Parser::from_iter(words)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_client_line_is_read() {
        let line = "client pingpong --addr tcp://127.0.0.1:1 -c 7 -s 64 -d 0.25 --core 1";
        let Ok(Command::PingPong(options)) = parse(line) else { panic!("{:?}", parse(line)) };
        assert_eq!((options.connections, options.message_bytes), (7, 64));
        assert_eq!((options.duration.as_millis(), options.core), (250, Some(1)));
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
            "dance",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
