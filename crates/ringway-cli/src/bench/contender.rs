//! Who is measured: a server with a client.

use crate::args::{Protocol, Uri};
use crate::process::GO_RPC;

/// A server with a client.
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
    /// None: what the disk does by itself.
    Disk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// Our client, over the native protocol.
    Ringway,
    /// Our client, over gRPC.
    RingwayGrpc,
    /// Our client, over JSON-RPC.
    RingwayJson,
    /// The peers' plain epoll client.
    Epoll,
    /// The client of another RPC framework.
    Peer(&'static str),
    /// nghttp2's h2load, which belongs to neither side.
    H2load,
    /// A loop that appends to a file and syncs it, without a server.
    Fsync,
}

impl Program {
    /// Returns the `server` parameter of a row.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Ringway => "ringway",
            Self::Peer(kind) => kind,
            Self::Running(uri) => uri.as_str(),
            Self::Disk => "disk",
        }
    }
}

impl Client {
    /// Returns our own server and client with `protocol`.
    pub(super) fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Native => Self::Ringway,
            Protocol::Grpc => Self::RingwayGrpc,
            Protocol::Jsonrpc => Self::RingwayJson,
        }
    }

    /// Returns the `client` parameter of a row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ringway | Self::RingwayGrpc | Self::RingwayJson => "ringway",
            Self::Epoll => "epoll",
            Self::Peer(name) => name,
            Self::H2load => "h2load",
            Self::Fsync => "fsync",
        }
    }

    /// Returns the protocol of its calls, which is the `protocol` parameter of a row of calls or streams.
    pub(super) fn protocol(self) -> &'static str {
        match self {
            Self::Ringway | Self::Epoll => Protocol::Native.as_str(),
            Self::RingwayJson | Self::Peer("jsonrpsee-http" | "jsonrpsee-ws") => {
                Protocol::Jsonrpc.as_str()
            }
            Self::Peer(GO_RPC) => "jsonrpc-1.0",
            Self::RingwayGrpc | Self::Peer("tonic") | Self::H2load | Self::Fsync => {
                Protocol::Grpc.as_str()
            }
            Self::Peer(name) => name,
        }
    }
}
