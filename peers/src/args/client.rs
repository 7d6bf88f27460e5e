//! `client <workload>` and its options.

use std::error::Error;
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;

use super::Command;
use crate::address::Address;
use crate::limits::{CLIENT_CONNECTIONS_MAX, DEPTH_MAX, FRAMES_MAX, MESSAGE_BYTES_MAX, WINDOW_MAX};

/// The workloads.
#[derive(Debug)]
pub(crate) enum Workload {
    PingPong(Load),
    Calls(Calls),
    Streams(Streams),
    Flood(FloodOptions),
    Mongo(MongoOptions),
}

/// The options of every workload.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) address: Address,
    pub(crate) connections: usize,
    pub(crate) message_bytes: usize,
    pub(crate) duration: Duration,
    pub(crate) warmup: Duration,
    pub(crate) core: Option<usize>,
    /// Whether to report when the measured interval begins and ends.
    pub(crate) tells_phases: bool,
}

/// `client rpc`.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) load: Load,
    pub(crate) peer: Peer,
    pub(crate) method: Method,
    pub(crate) depth: usize,
}

/// `client stream`, of tonic.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) load: Load,
    pub(crate) frames: usize,
    pub(crate) window: usize,
}

/// `client flood`, of tonic.
#[derive(Debug)]
pub(crate) struct FloodOptions {
    pub(crate) load: Load,
}

/// `client mongo`.
#[derive(Debug)]
pub(crate) struct MongoOptions {
    pub(crate) load: Load,
    pub(crate) op: MongoOp,
    /// Whether each connection has a thread that blocks.
    pub(crate) is_sync: bool,
    /// Whether the server keeps documents, and is given those that are read.
    pub(crate) fills: bool,
}

/// The operations of `client mongo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MongoOp {
    Ping,
    FindOne,
    InsertOne,
    FindRaw,
    FindStruct,
    FindOwned,
    Bulk,
    Mixed,
}

/// The protocol of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Tonic,
    Tarpc,
    JsonrpseeHttp,
    JsonrpseeWs,
}

/// The kinds of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Unary,
    ClientStream,
    ServerStream,
    Bidi,
}

impl Load {
    /// Reports that the measured interval begins, so that the calling program can read the server's
    /// usage at that moment.
    pub(crate) fn tell_begin(&self) {
        self.tell("measuring");
    }

    /// Reports that the measured interval ends.
    pub(crate) fn tell_end(&self) {
        self.tell("measured");
    }

    fn tell(&self, phase: &str) {
        if self.tells_phases {
            println!("{phase}");
        }
    }
}

impl Workload {
    /// Returns the options that this workload shares with the others.
    pub(crate) fn load(&self) -> &Load {
        match self {
            Self::PingPong(load) => load,
            Self::Calls(calls) => &calls.load,
            Self::Streams(streams) => &streams.load,
            Self::Flood(flood) => &flood.load,
            Self::Mongo(mongo) => &mongo.load,
        }
    }
}

pub(super) fn parse(mut parser: lexopt::Parser) -> Result<Command, Box<dyn Error>> {
    let Some(given) = Given::read(&mut parser)? else { return Ok(Command::Help) };
    let workload = given.workload.clone();
    let client = match workload.as_deref() {
        Some("pingpong") => Workload::PingPong(given.load(&[Is::Connections, Is::Size])?),
        Some("rpc") => Workload::Calls(given.calls()?),
        Some("stream") => Workload::Streams(given.streams()?),
        Some("flood") => {
            given.tonic()?;
            Workload::Flood(FloodOptions { load: given.load(&[Is::Peer, Is::Size])? })
        }
        Some("mongo") => Workload::Mongo(given.mongo()?),
        Some(other) => return Err(format!("unknown workload `{other}`").into()),
        None => return Err("client needs a workload: pingpong, rpc, stream, flood or mongo".into()),
    };
    Ok(Command::Client(client))
}

/// The options as they stand on the line.
#[derive(Default)]
struct Given {
    workload: Option<String>,
    address: Option<Address>,
    peer: Option<Peer>,
    connections: Option<usize>,
    message_bytes: Option<usize>,
    duration: Option<Duration>,
    warmup: Option<Duration>,
    depth: Option<usize>,
    method: Option<Method>,
    frames: Option<usize>,
    window: Option<usize>,
    op: Option<MongoOp>,
    is_sync: bool,
    fills: bool,
    core: Option<usize>,
    tells_phases: bool,
}

/// Sets an option that only some workloads have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Peer,
    Connections,
    Depth,
    Method,
    Frames,
    Window,
    Size,
    Op,
    Fill,
    Sync,
}

impl Given {
    /// Parses the whole line; `None` if it asks for help.
    fn read(parser: &mut lexopt::Parser) -> Result<Option<Self>, Box<dyn Error>> {
        let mut given = Self::default();
        while let Some(arg) = parser.next()? {
            match arg {
                Short('h') | Long("help") => return Ok(None),
                Long("addr") => given.address = Some(Address::parse(&parser.value()?.string()?)?),
                Long("peer") => given.peer = Some(peer(&parser.value()?)?),
                Short('c') | Long("connections") => {
                    let number = bounded(parser.value()?, "connections", CLIENT_CONNECTIONS_MAX)?;
                    given.connections = Some(number);
                }
                Short('s') | Long("size") => {
                    let number = bounded(parser.value()?, "bytes of a message", MESSAGE_BYTES_MAX)?;
                    given.message_bytes = Some(number);
                }
                Short('d') | Long("duration") => given.duration = Some(seconds(parser.value()?)?),
                Long("warmup") => given.warmup = Some(seconds(parser.value()?)?),
                Short('l') | Long("depth") => {
                    given.depth = Some(bounded(parser.value()?, "calls in flight", DEPTH_MAX)?);
                }
                Short('m') | Long("method") => given.method = Some(method(&parser.value()?)?),
                Short('f') | Long("frames") => {
                    let number = bounded(parser.value()?, "messages of a stream", FRAMES_MAX)?;
                    given.frames = Some(number);
                }
                Short('w') | Long("window") => {
                    given.window = Some(bounded(parser.value()?, "messages", WINDOW_MAX)?);
                }
                Long("op") => given.op = Some(op(&parser.value()?)?),
                Long("fill") => given.fills = true,
                Long("sync") => given.is_sync = true,
                Long("core") => given.core = Some(parser.value()?.parse()?),
                Long("phases") => given.tells_phases = true,
                Value(word) if given.workload.is_none() => given.workload = Some(word.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Some(given))
    }

    /// # Errors
    /// If there is no address, or an option beyond those that all workloads have and `allowed`.
    fn load(self, allowed: &[Is]) -> Result<Load, Box<dyn Error>> {
        let present = [
            (Is::Peer, "--peer", self.peer.is_some()),
            (Is::Connections, "-c", self.connections.is_some()),
            (Is::Depth, "-l", self.depth.is_some()),
            (Is::Method, "-m", self.method.is_some()),
            (Is::Frames, "-f", self.frames.is_some()),
            (Is::Window, "-w", self.window.is_some()),
            (Is::Size, "-s", self.message_bytes.is_some()),
            (Is::Op, "--op", self.op.is_some()),
            (Is::Fill, "--fill", self.fills),
            (Is::Sync, "--sync", self.is_sync),
        ];
        for (option, name, given) in present {
            if given && !allowed.contains(&option) {
                return Err(format!("this workload has no {name}").into());
            }
        }
        Ok(Load {
            address: self.address.ok_or("client needs --addr, as --addr tcp://127.0.0.1:7001")?,
            connections: self.connections.unwrap_or(1),
            message_bytes: self.message_bytes.unwrap_or(16 * 1024),
            duration: self.duration.unwrap_or(Duration::from_secs(5)),
            warmup: self.warmup.unwrap_or(Duration::from_millis(500)),
            core: self.core,
            tells_phases: self.tells_phases,
        })
    }

    fn calls(self) -> Result<Calls, Box<dyn Error>> {
        let peer = self.peer.ok_or("this workload needs --peer, as --peer tonic")?;
        let method = self.method.unwrap_or(Method::Unary);
        let depth = self.depth.unwrap_or(1);
        let load = self.load(&[Is::Peer, Is::Connections, Is::Size, Is::Depth, Is::Method])?;
        if peer != Peer::Tonic && method != Method::Unary {
            return Err("only tonic has calls that stream".into());
        }
        Ok(Calls { load, peer, method, depth })
    }

    fn streams(self) -> Result<Streams, Box<dyn Error>> {
        self.tonic()?;
        let (frames, window) = (self.frames.unwrap_or(16), self.window.unwrap_or(1));
        let load = self.load(&[Is::Peer, Is::Connections, Is::Size, Is::Frames, Is::Window])?;
        Ok(Streams { load, frames, window })
    }

    fn mongo(self) -> Result<MongoOptions, Box<dyn Error>> {
        let op = self.op.unwrap_or(MongoOp::Ping);
        let (is_sync, fills) = (self.is_sync, self.fills);
        let load = self.load(&[Is::Connections, Is::Op, Is::Fill, Is::Sync])?;
        // What the operations carry has sizes of its own, so nothing is told of bytes.
        Ok(MongoOptions { load: Load { message_bytes: 0, ..load }, op, is_sync, fills })
    }

    fn tonic(&self) -> Result<(), Box<dyn Error>> {
        match self.peer {
            Some(Peer::Tonic) => Ok(()),
            Some(_) => Err("only tonic has streams".into()),
            None => Err("this workload needs --peer tonic".into()),
        }
    }
}

fn peer(word: &OsString) -> Result<Peer, Box<dyn Error>> {
    Ok(match word.to_str() {
        Some("tonic") => Peer::Tonic,
        Some("tarpc") => Peer::Tarpc,
        Some("jsonrpsee-http") => Peer::JsonrpseeHttp,
        Some("jsonrpsee-ws") => Peer::JsonrpseeWs,
        _ => {
            return Err(format!(
                "unknown peer {word:?}: tonic, tarpc, jsonrpsee-http or jsonrpsee-ws"
            )
            .into());
        }
    })
}

fn method(word: &OsString) -> Result<Method, Box<dyn Error>> {
    Ok(match word.to_str() {
        Some("unary") => Method::Unary,
        Some("client_stream") => Method::ClientStream,
        Some("server_stream") => Method::ServerStream,
        Some("bidi") => Method::Bidi,
        _ => return Err(format!("unknown kind of call {word:?}").into()),
    })
}

fn op(word: &OsString) -> Result<MongoOp, Box<dyn Error>> {
    Ok(match word.to_str() {
        Some("ping") => MongoOp::Ping,
        Some("find_one") => MongoOp::FindOne,
        Some("insert_one") => MongoOp::InsertOne,
        Some("find_raw") => MongoOp::FindRaw,
        Some("find_struct") => MongoOp::FindStruct,
        Some("find_owned") => MongoOp::FindOwned,
        Some("bulk") => MongoOp::Bulk,
        Some("mixed") => MongoOp::Mixed,
        _ => return Err(format!("unknown operation {word:?}; --help lists them").into()),
    })
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
