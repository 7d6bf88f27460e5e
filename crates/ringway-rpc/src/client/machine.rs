//! The interface between a client's connection and its protocol machine.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{self, Body, ClientEvent, Gone, Open, OpenError, Outgoing, StreamId};
use ringway_wire::websocket::CloseCode;
use ringway_wire::{grpc, http2};

use super::jsonrpc::{JsonClient, JsonServerViolation};

/// Writes the methods that all machines share with the native one, where they are documented, through
/// `declare`, `delegate` or `choose`.
macro_rules! common {
    ($write:ident) => {
        $write! {
            looks {
                fn capacity(&self) -> usize;
                fn lease_cuts(&self) -> u32;
                fn was_accepted(&self, stream: StreamId, accepted: u32) -> bool;
                fn has_room(&self, stream: StreamId) -> bool;
                fn has_events(&self) -> bool;
                fn has_output(&self) -> bool;
                fn poll_timeout(&self) -> Option<Duration>;
            }
            acts {
                fn send(&mut self, stream: StreamId, message: Body<'_>, end: bool) -> Result<bool, Gone>;
                fn finish(&mut self, stream: StreamId);
                fn cancel(&mut self, stream: StreamId, code: u8, reason: &str);
                fn taken(&mut self, stream: StreamId, messages: usize);
                fn take_discarded(&mut self) -> Vec<Bytes>;
                fn discard_output(&mut self);
                fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>));
            }
        }
    };
}

macro_rules! declare {
    (
        looks { $(fn $look:ident($($look_args:tt)*) -> $seen:ty;)* }
        acts { $(fn $act:ident($($act_args:tt)*) $(-> $done:ty)?;)* }
    ) => {
        $(fn $look($($look_args)*) -> $seen;)*
        $(fn $act($($act_args)*) $(-> $done)?;)*
    };
}

macro_rules! delegate {
    (
        looks { $(fn $look:ident(&$a:ident $(, $looked:ident: $kind:ty)*) -> $seen:ty;)* }
        acts { $(fn $act:ident(&mut $b:ident $(, $given:ident: $of:ty)*) $(-> $done:ty)?;)* }
    ) => {
        $(#[inline] fn $look(&$a $(, $looked: $kind)*) -> $seen { Self::$look($a $(, $looked)*) })*
        $(#[inline] fn $act(&mut $b $(, $given: $of)*) $(-> $done)? { Self::$act($b $(, $given)*) })*
    };
}

macro_rules! choose {
    (
        looks { $(fn $look:ident(&$a:ident $(, $looked:ident: $kind:ty)*) -> $seen:ty;)* }
        acts { $(fn $act:ident(&mut $b:ident $(, $given:ident: $of:ty)*) $(-> $done:ty)?;)* }
    ) => {
        $(
            #[inline]
            fn $look(&$a $(, $looked: $kind)*) -> $seen {
                match $a {
                    Self::Native(machine) => machine.$look($($looked),*),
                    Self::Grpc(machine) => machine.$look($($looked),*),
                    Self::Json(machine) => machine.$look($($looked),*),
                }
            }
        )*
        $(
            #[inline]
            fn $act(&mut $b $(, $given: $of)*) $(-> $done)? {
                match $b {
                    Self::Native(machine) => machine.$act($($given),*),
                    Self::Grpc(machine) => machine.$act($($given),*),
                    Self::Json(machine) => machine.$act($($given),*),
                }
            }
        )*
    };
}

/// The protocol machine of a connection. All machines use the native protocol's types: its stream ids and
/// its encoding of metadata.
pub(super) trait ClientMachine {
    common!(declare);
}

/// The machine of one protocol. Receiving is generic over it, because one call processes many events.
pub(super) trait ReceivingMachine: ClientMachine {
    /// The reason why a connection fails.
    type Violation: Into<Violation>;

    /// Decodes the next event of any kind.
    ///
    /// # Errors
    /// When the peer has broken the protocol.
    fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ClientEvent<'i>>, Self::Violation>;

    /// Fast path: decodes the next message of a stream if it is a simple one.
    fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])>;
}

/// A machine of any protocol. A client may have servers with different protocols, so its pools, queues
/// and pending calls use one type of connection.
#[expect(clippy::large_enum_variant, reason = "the native one is reached without a further step")]
pub(super) enum AnyMachine {
    Native(native::Client),
    Grpc(Box<grpc::GrpcClient>),
    Json(Box<JsonClient>),
}

/// The reason why a connection of any protocol fails.
#[derive(Debug)]
pub(super) enum Violation {
    Native(native::Violation),
    Http2(http2::Violation),
    Json(JsonServerViolation),
}

impl AnyMachine {
    pub(super) fn native(config: native::Config, now: Duration) -> Self {
        Self::Native(native::Client::new(config, now))
    }

    pub(super) fn grpc(config: grpc::ClientConfig, now: Duration) -> Self {
        /// The meaning of header fields, which is the same for all connections.
        static NAMES: LazyLock<Arc<http2::Vocabulary>> =
            LazyLock::new(|| Arc::new(http2::Vocabulary::new(grpc::ResponseNames)));
        Self::Grpc(Box::new(grpc::GrpcClient::with(config, Arc::clone(&NAMES), now)))
    }

    pub(super) fn json(machine: JsonClient) -> Self {
        Self::Json(Box::new(machine))
    }

    /// Opens a call. Also returns how often the lease had been cut by then.
    ///
    /// # Errors
    /// Fails when this connection has no room.
    #[inline(always)]
    pub(super) fn open(&mut self, call: Open<'_>) -> Result<(StreamId, u32), OpenError> {
        match self {
            Self::Native(machine) => Ok((machine.open(call)?, machine.lease_cuts())),
            Self::Grpc(machine) => open_grpc(machine, call),
            Self::Json(machine) => open_json(machine, call),
        }
    }

    /// Tells the peer once that no more calls come. Returns whether it does so now.
    pub(super) fn announce_leave(&mut self) -> bool {
        match self {
            Self::Native(_) => false,
            Self::Grpc(machine) => machine.announce_leave(),
            Self::Json(machine) => machine.close_socket(CloseCode::NORMAL),
        }
    }

    /// Whether the server has told that it takes fewer calls than it could.
    pub(super) fn is_leased(&self) -> bool {
        matches!(self, Self::Native(machine) if machine.is_leased())
    }

    /// Whether the peer was told in the protocol's words why the connection ends.
    pub(super) fn has_said_why(&self) -> bool {
        matches!(self, Self::Json(machine) if machine.has_closed_socket())
    }

    /// Does what is due at this time.
    ///
    /// # Errors
    /// Fails when the peer does not answer.
    pub(super) fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        match self {
            Self::Native(machine) => machine.handle_timeout(now).map_err(Violation::Native),
            Self::Grpc(machine) => machine.handle_timeout(now).map_err(Violation::Http2),
            Self::Json(machine) => machine.handle_timeout(now).map_err(Violation::Json),
        }
    }
}

/// A function of its own, so that the native path stays small.
#[inline(never)]
fn open_grpc(machine: &mut grpc::GrpcClient, call: Open<'_>) -> Result<(StreamId, u32), OpenError> {
    machine.open(call).map(|stream| (stream, machine.lease_cuts()))
}

/// As [`open_grpc`]. A server of JSON-RPC grants no lease that it could cut.
#[inline(never)]
fn open_json(machine: &mut JsonClient, call: Open<'_>) -> Result<(StreamId, u32), OpenError> {
    machine.open(call).map(|stream| (stream, 0))
}

impl ClientMachine for AnyMachine {
    common!(choose);
}

impl ClientMachine for native::Client {
    common!(delegate);
}

impl ReceivingMachine for native::Client {
    type Violation = native::Violation;

    #[inline]
    fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ClientEvent<'i>>, native::Violation> {
        Self::receive(self, input, now)
    }

    #[inline]
    fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        Self::receive_message(self, input)
    }
}

impl ClientMachine for grpc::GrpcClient {
    common!(delegate);
}

impl ReceivingMachine for grpc::GrpcClient {
    type Violation = http2::Violation;

    #[inline]
    fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ClientEvent<'i>>, http2::Violation> {
        Self::receive(self, input, now)
    }

    #[inline]
    fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        Self::receive_message(self, input)
    }
}

impl Violation {
    /// Whether the peer has only announced that it closes the connection at once, or that it takes none.
    pub(super) fn is_leave(&self) -> bool {
        match self {
            Self::Native(violation) => matches!(violation, native::Violation::PeerLeft { .. }),
            Self::Json(violation) => violation.is_leave(),
            Self::Http2(_) => false,
        }
    }
}

impl From<native::Violation> for Violation {
    fn from(violation: native::Violation) -> Self {
        Self::Native(violation)
    }
}

impl From<http2::Violation> for Violation {
    fn from(violation: http2::Violation) -> Self {
        Self::Http2(violation)
    }
}

impl From<JsonServerViolation> for Violation {
    fn from(violation: JsonServerViolation) -> Self {
        Self::Json(violation)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(violation) => violation.fmt(f),
            Self::Http2(violation) => violation.fmt(f),
            Self::Json(violation) => violation.fmt(f),
        }
    }
}
