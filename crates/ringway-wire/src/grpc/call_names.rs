//! What the fields of a call mean: the resolvers of both ends, and the heads that come of them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::names::{Accepted, Compression, ContentType};
use super::status::{parse_status, status_of_http};
use super::timeout::parse_nanos;
use crate::http2::{Head, Key, Known, Method, Resolver};

const CONTENT_TYPE: Key = Key::own(0);
const TIMEOUT: Key = Key::own(1);
const ENCODING: Key = Key::own(2);
const ACCEPT_ENCODING: Key = Key::own(3);
const STATUS: Key = Key::own(4);
const ATTEMPTS: Key = Key::own(5);
const PUSHBACK: Key = Key::own(6);
/// Each client says who it is, and nobody asks.
const USER_AGENT: Key = Key::own(7);

/// A path that is no method, and a timeout that is none.
const NONE: u64 = u64::MAX;

/// The resolver of a server: knows its methods by their paths.
#[derive(Debug, Default)]
pub struct RequestNames {
    methods: BTreeMap<Box<[u8]>, u32>,
}

impl RequestNames {
    /// Methods by their paths, like `/package.Service/Method`, with the number that a
    /// [`CallHead`] has for them.
    #[must_use]
    pub fn new<'p>(methods: impl IntoIterator<Item = (&'p str, u32)>) -> Self {
        let own = |(path, number): (&str, u32)| (path.as_bytes().into(), number);
        Self { methods: methods.into_iter().map(own).collect() }
    }
}

impl Resolver for RequestNames {
    fn key(&self, name: &[u8]) -> Option<Key> {
        key(name)
    }

    fn value(&self, key: Key, value: &[u8]) -> Known {
        if key == Key::PATH {
            let number = self.methods.get(value).copied();
            // A path that is no method is wanted for the answer that says so.
            return Known { value: number.map_or(NONE, u64::from), keep: number.is_none() };
        }
        Known { value: meaning(key, value), keep: false }
    }
}

/// The resolver of a client.
#[derive(Debug, Default)]
pub struct ResponseNames;

impl Resolver for ResponseNames {
    fn key(&self, name: &[u8]) -> Option<Key> {
        key(name)
    }

    fn value(&self, key: Key, value: &[u8]) -> Known {
        Known { value: meaning(key, value), keep: false }
    }
}

/// Fields that either end cares for. Messages and details of a status are kept as they are.
fn key(name: &[u8]) -> Option<Key> {
    Some(match name {
        b"content-type" => CONTENT_TYPE,
        b"grpc-timeout" => TIMEOUT,
        b"grpc-encoding" => ENCODING,
        b"grpc-accept-encoding" => ACCEPT_ENCODING,
        b"grpc-status" => STATUS,
        b"grpc-previous-rpc-attempts" => ATTEMPTS,
        b"grpc-retry-pushback-ms" => PUSHBACK,
        b"user-agent" => USER_AGENT,
        _ => return None,
    })
}

fn meaning(key: Key, value: &[u8]) -> u64 {
    match key {
        TIMEOUT => parse_nanos(value).map_or(NONE, |nanos| nanos.min(NONE - 1)),
        CONTENT_TYPE => ContentType::parse(value) as u64,
        ENCODING => Compression::parse(value) as u64,
        ACCEPT_ENCODING => Accepted::parse(value).0.into(),
        STATUS => parse_status(value).into(),
        ATTEMPTS => number(value).unwrap_or_default() as u64,
        PUSHBACK => number(value).unwrap_or(-1) as u64,
        _ => 0,
    }
}

fn number(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// What a request says, once it is one of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHead {
    /// The number of its method; `None`: UNIMPLEMENTED. The path is among the fields then.
    pub method: Option<u32>,
    /// How its messages are encoded.
    pub content_type: ContentType,
    /// The time that it has.
    pub timeout: Option<Duration>,
    /// How its messages are compressed where they are.
    pub compression: Compression,
    /// How replies may be compressed.
    pub accepted: Accepted,
    /// Attempts before this one.
    pub attempts: u32,
}

/// Why a request is no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCall {
    /// Another method than POST. HTTP 405.
    WrongMethod,
    /// Another content type, or none. HTTP 415.
    WrongContentType,
    /// A `grpc-timeout` that is none. INTERNAL, as others answer it.
    WrongTimeout,
}

impl CallHead {
    /// Reads the head of a request. `te: trailers` may be missing.
    ///
    /// # Errors
    ///
    /// When it is not a call.
    #[inline]
    pub fn read(head: &Head) -> Result<Self, NoCall> {
        if head.value(Key::METHOD) != Some(Method::Post as u64) {
            return Err(NoCall::WrongMethod);
        }
        let content_type = ContentType::from_number(head.value(CONTENT_TYPE).unwrap_or(NONE));
        if content_type == ContentType::NotGrpc {
            return Err(NoCall::WrongContentType);
        }
        let timeout = match head.value(TIMEOUT) {
            Some(NONE) => return Err(NoCall::WrongTimeout),
            timeout => timeout.map(Duration::from_nanos),
        };
        let compression =
            head.value(ENCODING).map_or(Compression::Identity, Compression::from_number);
        Ok(Self {
            method: head.value(Key::PATH).and_then(|number| u32::try_from(number).ok()),
            content_type,
            timeout,
            compression,
            accepted: Accepted(head.value(ACCEPT_ENCODING).unwrap_or_default() as u8),
            attempts: u32::try_from(head.value(ATTEMPTS).unwrap_or_default()).unwrap_or(u32::MAX),
        })
    }
}

/// What the head of a response, or its trailers, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead {
    /// The status, if it is there: always in trailers, and in a head that is all of the response.
    pub status: Option<u8>,
    /// How messages are compressed where they are.
    pub compression: Compression,
    /// Milliseconds after which the call may be tried again; below 0: not at all.
    pub pushback_ms: Option<i64>,
    /// The status that the response has because it is none of gRPC: its HTTP status or its content
    /// type says so, and it has no status of its own.
    pub foreign: Option<u8>,
}

impl ReplyHead {
    /// What nothing says.
    pub(super) const NONE: Self =
        Self { status: None, compression: Compression::Identity, pushback_ms: None, foreign: None };

    /// Reads a head.
    #[inline]
    #[must_use]
    pub fn read(head: &Head) -> Self {
        let mut reply = Self::read_trailers(head);
        let http = head.value(Key::STATUS).unwrap_or_default();
        let content_type = ContentType::from_number(head.value(CONTENT_TYPE).unwrap_or(NONE));
        if reply.status.is_none() && (http != 200 || content_type == ContentType::NotGrpc) {
            reply.foreign = Some(status_of_http(http));
        }
        reply
    }

    /// Reads trailers.
    #[inline]
    #[must_use]
    pub fn read_trailers(head: &Head) -> Self {
        Self {
            status: head.value(STATUS).map(|status| status as u8),
            compression: head
                .value(ENCODING)
                .map_or(Compression::Identity, Compression::from_number),
            pushback_ms: head.value(PUSHBACK).map(|ms| ms as i64),
            foreign: None,
        }
    }
}
