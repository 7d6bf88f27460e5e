//! The meanings of a call's header fields: the resolvers of both ends, and the heads read with
//! them.

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
/// A key without a reader: it keeps the field out of the metadata.
const USER_AGENT: Key = Key::own(7);

/// The value of a path that is no method, and of a malformed timeout.
const NONE: u64 = u64::MAX;

/// The resolver of a server, which maps paths to methods.
#[derive(Debug, Default)]
pub struct RequestNames {
    methods: BTreeMap<Box<[u8]>, u32>,
}

impl RequestNames {
    /// Creates a resolver from the paths of methods, like `/package.Service/Method`, and the
    /// numbers that a [`CallHead`] shows for them.
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
            // The answer to an unknown path quotes it.
            return Known { value: number.map_or(NONE, u64::from), keep: number.is_none() };
        }
        Known { value: meaning(key, value), keep: false }
    }

    fn calls(&self) -> Option<(Key, u64)> {
        Some((CONTENT_TYPE, ContentType::NotGrpc as u64))
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

/// The keys of fields that either end interprets. Status message and details are kept as text.
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

/// The head of a gRPC request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHead {
    /// The number of its method; `None` if the path is unknown, which the fields then contain.
    pub method: Option<u32>,
    /// The encoding of its messages.
    pub content_type: ContentType,
    /// The time limit of the call.
    pub timeout: Option<Duration>,
    /// The compression of its compressed messages.
    pub compression: Compression,
    /// The compressions accepted in replies.
    pub accepted: Accepted,
    /// The number of attempts before this one.
    pub attempts: u32,
}

/// The reason why a request is not a gRPC call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCall {
    /// The method is not POST; answered with HTTP status 405.
    WrongMethod,
    /// The content type is missing or not one of gRPC; answered with HTTP status 415.
    WrongContentType,
    /// The `grpc-timeout` is malformed; answered with INTERNAL, as other implementations do.
    WrongTimeout,
}

impl CallHead {
    /// Reads the head of a request. `te: trailers` is not required.
    ///
    /// # Errors
    ///
    /// Returns the reason when the request is not a call.
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

/// The head of a response, or its trailers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead {
    /// The status, present in trailers and in a head that is the whole response.
    pub status: Option<u8>,
    /// The compression of its compressed messages.
    pub compression: Compression,
    /// Milliseconds to wait before a retry; a negative number forbids a retry.
    pub pushback_ms: Option<i64>,
    /// The status of a response that is not from gRPC, judged by its HTTP status or content type,
    /// and that has no `grpc-status`.
    pub foreign: Option<u8>,
}

impl ReplyHead {
    /// The head of a response without any of the fields.
    pub(super) const NONE: Self =
        Self { status: None, compression: Compression::Identity, pushback_ms: None, foreign: None };

    /// Reads the head of a response.
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

    /// Reads the trailers of a response.
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
