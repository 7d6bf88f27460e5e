//! Flags with a fixed set of values.

use clap::ValueEnum;

use super::values::{Scheme, Uri};

/// The kernel interface for I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    Auto,
    Uring,
    Epoll,
}

/// Form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Markdown,
}

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum RpcMode {
    Unary,
    ClientStream,
    ServerStream,
    Bidi,
}

/// What a connection of the registry suite does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RegistryMode {
    Range,
    Put,
    KeepAlive,
    Watch,
}

/// An operation of the mongo suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
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

/// How the mongo suite sends its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum MongoMode {
    Normal,
    Pipeline,
}

/// The protocol of the suites of calls and streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    Native,
    Grpc,
    Jsonrpc,
}

/// The transport between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Unix,
    Http,
    Ws,
}

impl Backend {
    /// Returns the value of the `--backend` flag.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        }
    }
}

impl RpcMode {
    /// Returns the value of the `-m` flag, which is also a row's parameter.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::ClientStream => "client_stream",
            Self::ServerStream => "server_stream",
            Self::Bidi => "bidi",
        }
    }
}

impl RegistryMode {
    /// Returns the value of the `-m` flag, which is also a row's parameter.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Put => "put",
            Self::KeepAlive => "keep-alive",
            Self::Watch => "watch",
        }
    }
}

impl MongoOp {
    /// Returns the value of the `--op` flag, which is also a row's parameter.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::FindOne => "find_one",
            Self::InsertOne => "insert_one",
            Self::FindRaw => "find_raw",
            Self::FindStruct => "find_struct",
            Self::FindOwned => "find_owned",
            Self::Bulk => "bulk",
            Self::Mixed => "mixed",
        }
    }
}

impl Protocol {
    /// Returns the value of the `--protocol` flag, which is also a row's parameter.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Grpc => "grpc",
            Self::Jsonrpc => "jsonrpc",
        }
    }
}

impl Transport {
    /// Returns the transport of an address: `tcp://` unless it is `unix://`.
    pub(crate) fn of(uri: &Uri) -> Self {
        match uri.scheme() {
            Scheme::Unix | Scheme::GrpcUnix | Scheme::JsonUnix => Self::Unix,
            Scheme::Udp => Self::Udp,
            Scheme::Http => Self::Http,
            Scheme::Ws => Self::Ws,
            _ => Self::Tcp,
        }
    }

    /// Returns the value of the `--transport` flag, which is also an address's scheme and a row's parameter.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Unix => "unix",
            Self::Http => "http",
            Self::Ws => "ws",
        }
    }
}
