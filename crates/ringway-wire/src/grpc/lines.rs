//! The header fields that calls send.

use super::names::ContentType;
use super::status::status_text;
use super::timeout::TimeoutText;
use crate::http2::Line;

/// Ids of the fixed fields of a connection; those of methods follow.
mod id {
    pub(super) const CONTENT_TYPE: u16 = 0; // and the next two
    pub(super) const OK: u16 = 3;
    pub(super) const STATUS: u16 = 4;
    pub(super) const MESSAGE: u16 = 5;
    pub(super) const TE: u16 = 6;
    pub(super) const TIMEOUT: u16 = 7;
    pub(super) const ENCODING: u16 = 8;
    pub(super) const ACCEPT_ENCODING: u16 = 9;
    pub(super) const AUTHORITY: u16 = 10;
    pub(super) const USER_AGENT: u16 = 11;
    pub(super) const USUAL_TIMEOUTS: u16 = 12; // and the next three
    pub(super) const METHODS: u16 = 16;
}

/// `:method POST`.
pub const POST: Line<'static> = Line::Static(3);
/// `:scheme http`.
pub const HTTP: Line<'static> = Line::Static(6);
/// `:scheme https`.
pub const HTTPS: Line<'static> = Line::Static(7);
/// `:status 200`.
pub const HTTP_OK: Line<'static> = Line::Static(8);
/// `te: trailers`.
pub const TE: Line<'static> = Line::Fixed { id: id::TE, name: b"te", value: b"trailers" };
/// `grpc-status: 0`.
pub const OK: Line<'static> = Line::Fixed { id: id::OK, name: b"grpc-status", value: b"0" };

/// `content-type`.
#[inline]
#[must_use]
pub fn content_type(content_type: ContentType) -> Line<'static> {
    let (offset, value) = match content_type {
        ContentType::Proto => (1, ContentType::Proto.text()),
        ContentType::Json => (2, ContentType::Json.text()),
        _ => (0, ContentType::Plain.text()),
    };
    Line::Fixed { id: id::CONTENT_TYPE + offset, name: b"content-type", value }
}

/// `grpc-status`.
#[inline]
#[must_use]
pub fn status(status: u8) -> Line<'static> {
    match status {
        0 => OK,
        _ => Line::Named { id: id::STATUS, name: b"grpc-status", value: status_text(status) },
    }
}

/// `grpc-message`, percent-encoded already.
#[must_use]
pub fn message(encoded: &[u8]) -> Line<'_> {
    Line::Named { id: id::MESSAGE, name: b"grpc-message", value: encoded }
}

/// `:path` of a method, `/package.Service/Method`, with its number, which is dense and below 2^15.
#[inline]
#[must_use]
pub fn path(number: u16, path: &[u8]) -> Line<'_> {
    Line::Fixed { id: id::METHODS.saturating_add(number), name: b":path", value: path }
}

/// `:authority`, always the same on a connection.
#[must_use]
pub fn authority(value: &[u8]) -> Line<'_> {
    Line::Fixed { id: id::AUTHORITY, name: b":authority", value }
}

/// `user-agent`, always the same on a connection.
#[must_use]
pub fn user_agent(value: &[u8]) -> Line<'_> {
    Line::Fixed { id: id::USER_AGENT, name: b"user-agent", value }
}

/// `grpc-timeout`.
#[inline]
#[must_use]
pub fn timeout(text: &TimeoutText) -> Line<'_> {
    Line::Named { id: id::TIMEOUT, name: b"grpc-timeout", value: text.as_bytes() }
}

/// Number of timeouts that may be [usual](usual_timeout).
pub(super) const USUAL_TIMEOUTS: usize = 4;

/// `grpc-timeout` of many calls, always the same on a connection for one `number`, below
/// [`USUAL_TIMEOUTS`].
#[inline]
#[must_use]
pub(super) fn usual_timeout(number: usize, text: &TimeoutText) -> Line<'_> {
    let id = id::USUAL_TIMEOUTS + number as u16;
    Line::Fixed { id, name: b"grpc-timeout", value: text.as_bytes() }
}

/// `grpc-encoding`.
#[must_use]
pub fn encoding(name: &[u8]) -> Line<'_> {
    Line::Named { id: id::ENCODING, name: b"grpc-encoding", value: name }
}

/// `grpc-accept-encoding`, always the same on a connection.
#[must_use]
pub fn accept_encoding(names: &[u8]) -> Line<'_> {
    Line::Fixed { id: id::ACCEPT_ENCODING, name: b"grpc-accept-encoding", value: names }
}
