//! Configuration of which calls of a server are compressed.

use super::call_names::CallHead;
use super::compress::{KNOWN, compress};
use super::message::{PREFIX_LEN, prefix};
use super::names::{Accepted, Compression};
use crate::native::Body;

/// The calls of a server whose messages may be compressed, and the replies that are.
///
/// It has no effect without the feature `compression`.
#[derive(Debug, Clone)]
pub struct ServerCompression {
    /// The chosen methods, by number; `None` means all.
    methods: Option<Vec<bool>>,
    /// Length of the shortest reply that is compressed.
    reply_min: usize,
}

impl ServerCompression {
    /// Chooses methods by their numbers in [`RequestNames`](super::RequestNames), or all. Replies
    /// of `reply_min` bytes and more are compressed if the client accepts that.
    #[must_use]
    pub fn new(methods: Option<&[u32]>, reply_min: usize) -> Self {
        let table = |numbers: &[u32]| {
            let len = numbers.iter().max().map_or(0, |most| *most as usize + 1);
            let mut table = vec![false; len];
            numbers.iter().for_each(|number| table[*number as usize] = true);
            table
        };
        Self { methods: methods.map(table), reply_min }
    }

    /// Whether compressed requests of this method are accepted.
    #[must_use]
    pub fn takes(&self, method: u32, by: Compression) -> bool {
        self.is_chosen(Some(method)) && KNOWN.contains(&by)
    }

    /// The compression of a reply of this method for a client that accepts these.
    #[must_use]
    pub fn of_reply(&self, method: u32, accepted: Accepted) -> Compression {
        let is_chosen = self.is_chosen(Some(method));
        let best = KNOWN.iter().find(|known| is_chosen && accepted.contains(**known));
        best.copied().unwrap_or(Compression::Identity)
    }

    /// Length of the shortest reply that is compressed.
    #[must_use]
    pub fn reply_min(&self) -> usize {
        self.reply_min
    }

    #[inline]
    fn is_chosen(&self, method: Option<u32>) -> bool {
        match &self.methods {
            None => true,
            Some(methods) => {
                method.is_some_and(|it| methods.get(it as usize).is_some_and(|is| *is))
            }
        }
    }

    /// The compression settings of a call.
    #[inline]
    pub(super) fn of(&self, head: &CallHead) -> CallCompression {
        let is_chosen = self.is_chosen(head.method);
        let replies = KNOWN.iter().find(|known| is_chosen && head.accepted.contains(**known));
        CallCompression {
            requests: head.compression,
            takes: is_chosen && KNOWN.contains(&head.compression),
            replies: replies.copied().unwrap_or(Compression::Identity),
            reply_min: self.reply_min,
        }
    }
}

/// The compression settings of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallCompression {
    /// The compression of its compressed requests.
    pub(super) requests: Compression,
    /// Whether compressed requests are accepted.
    pub(super) takes: bool,
    /// The compression of replies of `reply_min` bytes and more.
    pub(super) replies: Compression,
    pub(super) reply_min: usize,
}

impl CallCompression {
    /// The settings on a server without compression.
    #[inline]
    pub(super) fn none(head: &CallHead) -> Self {
        let (takes, replies) = (false, Compression::Identity);
        Self { requests: head.compression, takes, replies, reply_min: 0 }
    }

    /// Whether the call names a compression that is not accepted.
    pub(super) fn is_refused(&self) -> bool {
        self.requests != Compression::Identity && !self.takes
    }

    /// The settings of a slot without a call.
    pub(super) const NO_CALL: Self = Self {
        requests: Compression::Identity,
        takes: false,
        replies: Compression::Identity,
        reply_min: 0,
    };
}

/// Compression of a client's calls. Replies may be compressed in any known way.
///
/// Without the feature `compression` no message is compressed, whatever this says.
#[derive(Debug, Clone, Copy)]
pub struct ClientCompression {
    /// The compression of requests.
    pub requests: Compression,
    /// Shortest request message that is compressed, in bytes.
    pub request_min: usize,
}

impl ClientCompression {
    /// Whether replies may be compressed so.
    pub(super) fn takes(compression: Compression) -> bool {
        KNOWN.contains(&compression)
    }

    /// The compression of requests, if there is one.
    pub(super) fn of_requests(self) -> Option<Compression> {
        KNOWN.contains(&self.requests).then_some(self.requests)
    }
}

/// Prepares a message of `least` bytes or more for sending: compresses it if it becomes shorter.
#[inline]
pub(super) fn pack(
    by: Compression,
    least: usize,
    message: Body<'_>,
) -> ([u8; PREFIX_LEN], Body<'_>) {
    if by != Compression::Identity
        && message.len() >= least
        && let Some(shorter) = compress(by, bytes_of(&message))
    {
        return (prefix(shorter.len() as u32, true), Body::Shared(shorter.into()));
    }
    (prefix(message.len() as u32, false), message)
}

fn bytes_of<'b>(message: &'b Body<'_>) -> &'b [u8] {
    match message {
        Body::Copy(bytes) => bytes,
        Body::Shared(bytes) => bytes,
    }
}

/// The value of `grpc-accept-encoding`, with all available compressions if `is_on` is set.
#[must_use]
pub fn accepted_names(is_on: bool) -> Vec<u8> {
    let known: &[Compression] = if is_on { KNOWN } else { &[] };
    let mut names = Compression::Identity.name().to_vec();
    for compression in known {
        names.push(b',');
        names.extend_from_slice(compression.name());
    }
    names
}
