//! The interface between a server's connection and its protocol machine.

use std::fmt::{Debug, Display};
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{
    self, Body, Credit, GoAwayCode, Gone, Outgoing, PlainRequest, Reply, RequestHead, ServerEvent,
    Side, StreamId, Unserved,
};
use ringway_wire::{grpc, http2};

use crate::call::codec;
use crate::call::status::Status;

/// Writes the methods that all machines share with the native one, where they are documented, through
/// `declare` or `delegate`.
macro_rules! common {
    ($write:ident) => {
        $write! {
            looks {
                fn in_flight(&self) -> usize;
                fn has_events(&self) -> bool;
                fn has_output(&self) -> bool;
                fn output_len(&self) -> usize;
                fn kept_len(&self, side: Side) -> usize;
                fn spare_len(&self) -> usize;
                fn unserved(&self) -> Unserved;
                fn failure(&self, stream: StreamId) -> Option<u8>;
                fn has_room(&self, stream: StreamId) -> bool;
                fn poll_timeout(&self) -> Option<Duration>;
            }
            acts {
                fn respond(&mut self, stream: StreamId, reply: Reply<'_>) -> Option<u8>;
                fn send(&mut self, stream: StreamId, meta: &[u8], message: Body<'_>) -> Result<bool, Gone>;
                fn send_initial(&mut self, stream: StreamId, meta: &[u8]) -> Result<(), Gone>;
                fn await_rest(&mut self, stream: StreamId, head: RequestHead, meta: &[u8], message: Option<&[u8]>);
                fn taken(&mut self, stream: StreamId, messages: usize);
                fn ignore(&mut self, stream: StreamId);
                fn largest_len(&mut self, side: Side) -> usize;
                fn end_largest(&mut self, side: Side) -> bool;
                fn drop_spare(&mut self);
                fn discard_output(&mut self);
                fn take_discarded(&mut self) -> Vec<Bytes>;
                fn note_reading(&mut self, is_reading: bool, now: Duration);
                fn set_memory_pressure(&mut self, is_under_pressure: bool);
                fn lease(&mut self, permits: u32);
                fn go_away(&mut self, code: GoAwayCode, drain: Duration, reason: &str);
                fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>));
                fn handle_timeout(&mut self, now: Duration) -> Result<(), Self::Violation>;
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

/// Makes of a message, as its client has sent it, what its method takes.
pub(crate) struct Translation(Box<Translate>);

type Translate = dyn FnOnce(Bytes) -> Result<Bytes, Status>;

impl Translation {
    pub(super) fn new(translate: impl FnOnce(Bytes) -> Result<Bytes, Status> + 'static) -> Self {
        Self(Box::new(translate))
    }

    /// # Errors
    /// When the message is none of the method.
    pub(super) fn apply(self, given: Bytes) -> Result<Bytes, Status> {
        (self.0)(given)
    }
}

impl Debug for Translation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Translation")
    }
}

/// The protocol machine of an accepted connection. All machines use the native protocol's types: its
/// stream ids, request heads and encoding of metadata.
pub(crate) trait Machine: 'static {
    /// The reason why a connection fails.
    type Violation: Debug + Display + Unpin;

    /// The name of the protocol, for people.
    const NAME: &'static str;

    /// Whether method numbers are the method's index in the core's table plus one, so that clients need
    /// not send names.
    const NUMBERS_ARE_INDICES: bool;

    /// Whether handlers read and write their messages as JSON, whatever the messages' own form is.
    const SPEAKS_JSON: bool = false;

    /// Whether replies may wait for windows that further input opens, so that reading goes on meanwhile.
    const HAS_WINDOWS: bool = false;

    /// Whether messages may need a [`Translation`].
    const TRANSLATES: bool = false;

    /// Whether a method that takes `codec` can read the messages of this request.
    fn takes(head: &RequestHead, codec: u8) -> bool;

    /// Whether the peer has only announced that it closes the connection at once.
    fn is_leave(violation: &Self::Violation) -> bool;

    /// Whether a draining connection has no calls left and will not get any.
    fn is_drained(&self) -> bool;

    /// Fast path: decodes the next request if it is a simple one.
    fn receive_plain<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Option<PlainRequest<'i>>;

    /// Decodes the next event of any kind.
    ///
    /// # Errors
    /// When the peer has broken the protocol.
    fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ServerEvent<'i>>, Self::Violation>;

    /// Fast path: decodes the next message of a stream if it is a simple one.
    fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])>;

    /// How the one message of a call becomes what its method takes, if it is not that already. The call has been
    /// admitted.
    fn take_translation(&mut self, _stream: StreamId) -> Option<Translation> {
        None
    }

    /// Takes what came last as whole where it can be, since nothing follows.
    fn end_input(&mut self) {}

    /// Requests that came in part, or that wait to become calls.
    #[inline]
    fn unbegun(&self) -> usize {
        0
    }

    /// Bytes of replies that wait for windows or for their turn, where [there are such](Self::HAS_WINDOWS).
    #[inline]
    fn queued_len(&self) -> usize {
        0
    }

    /// Bytes of a call's messages that the machine counts as unread, although they were handed out.
    fn unread_len(&self, _stream: StreamId) -> usize {
        0
    }

    /// Takes the number of bytes into which messages were decompressed since the last time.
    #[inline]
    fn take_inflated(&mut self) -> usize {
        0
    }

    /// Counts a message that has become longer than what was received of it, until its call ends.
    fn note_translated(&mut self, _stream: StreamId, _len: usize) {}

    /// The credit of a stream, if the protocol has one for it.
    fn credit(&self, _stream: StreamId) -> Option<Credit> {
        None
    }

    /// The credit that all streams of the connection share, if the protocol has such.
    fn shared_credit(&self) -> Option<Credit> {
        None
    }

    common!(declare);
}

impl Machine for native::Server {
    type Violation = native::Violation;

    const NAME: &'static str = "native";
    const NUMBERS_ARE_INDICES: bool = false;

    #[inline]
    fn takes(head: &RequestHead, codec: u8) -> bool {
        head.codec == codec
    }

    fn is_leave(violation: &native::Violation) -> bool {
        matches!(violation, native::Violation::PeerLeft { .. })
    }

    fn is_drained(&self) -> bool {
        Self::is_drained(self)
    }

    #[inline(always)]
    fn receive_plain<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Option<PlainRequest<'i>> {
        Self::receive_plain(self, input, now)
    }

    #[inline]
    fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ServerEvent<'i>>, native::Violation> {
        Self::receive(self, input, now)
    }

    #[inline]
    fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        Self::receive_message(self, input)
    }

    #[inline]
    fn unbegun(&self) -> usize {
        Self::unbegun(self)
    }

    fn credit(&self, stream: StreamId) -> Option<Credit> {
        Self::credit(self, stream)
    }

    common!(delegate);
}

impl Machine for grpc::GrpcServer {
    type Violation = http2::Violation;

    const NAME: &'static str = "gRPC";
    const NUMBERS_ARE_INDICES: bool = true;
    const HAS_WINDOWS: bool = true;

    /// Most gRPC clients label their messages as protobuf whatever they send, so these match any codec
    /// except JSON. Messages with an unknown label match methods that take raw bytes.
    #[inline]
    fn takes(head: &RequestHead, codec: u8) -> bool {
        match head.codec {
            codec::JSON => codec == codec::JSON,
            codec::PROTOBUF => codec != codec::JSON,
            _ => codec == codec::RAW || codec >= codec::BY_AGREEMENT,
        }
    }

    fn is_leave(_violation: &http2::Violation) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        Self::is_drained(self)
    }

    #[inline(always)]
    fn receive_plain<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Option<PlainRequest<'i>> {
        Self::receive_plain(self, input, now)
    }

    #[inline]
    fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ServerEvent<'i>>, http2::Violation> {
        Self::receive(self, input, now)
    }

    #[inline]
    fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        Self::receive_message(self, input)
    }

    #[inline]
    fn unbegun(&self) -> usize {
        Self::unbegun(self)
    }

    #[inline]
    fn queued_len(&self) -> usize {
        Self::queued_len(self)
    }

    fn unread_len(&self, stream: StreamId) -> usize {
        Self::unread_len(self, stream)
    }

    #[inline]
    fn take_inflated(&mut self) -> usize {
        Self::take_inflated(self)
    }

    fn credit(&self, stream: StreamId) -> Option<Credit> {
        Self::credit(self, stream)
    }

    fn shared_credit(&self) -> Option<Credit> {
        Some(Self::shared_credit(self))
    }

    common!(delegate);
}
