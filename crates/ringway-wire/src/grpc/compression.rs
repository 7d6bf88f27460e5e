//! Which messages of a server's calls are compressed.

use super::call_names::CallHead;
use super::compress::KNOWN;
use super::names::Compression;

/// Which calls of a server may be compressed, and which of their replies are.
///
/// Without the feature `compression` none are, whatever this says.
#[derive(Debug, Clone)]
pub struct ServerCompression {
    /// By the numbers of methods; `None`: all of them.
    methods: Option<Vec<bool>>,
    /// Bytes of the shortest reply that is compressed.
    reply_min: usize,
}

impl ServerCompression {
    /// For these methods, by the numbers that [`RequestNames`](super::RequestNames) has, or for all. Replies
    /// of `reply_min` bytes and more are compressed if their clients take it.
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

    /// What holds for a call.
    #[inline]
    pub(super) fn of(&self, head: &CallHead) -> CallCompression {
        let is_chosen = match &self.methods {
            None => true,
            Some(methods) => {
                head.method.is_some_and(|it| methods.get(it as usize).is_some_and(|is| *is))
            }
        };
        let replies = KNOWN.iter().find(|known| is_chosen && head.accepted.contains(**known));
        CallCompression {
            requests: head.compression,
            takes: is_chosen && KNOWN.contains(&head.compression),
            replies: replies.copied().unwrap_or(Compression::Identity),
            reply_min: self.reply_min,
        }
    }
}

/// How the messages of a call may be compressed.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallCompression {
    /// How its requests are, where they are.
    pub(super) requests: Compression,
    /// Whether such are read.
    pub(super) takes: bool,
    /// How replies are that are not shorter than the least.
    pub(super) replies: Compression,
    pub(super) reply_min: usize,
}

impl CallCompression {
    /// Of a server that knows nothing of it.
    #[inline]
    pub(super) fn none(head: &CallHead) -> Self {
        let (takes, replies) = (false, Compression::Identity);
        Self { requests: head.compression, takes, replies, reply_min: 0 }
    }

    /// Of a call of which nothing is known.
    pub(super) const NO_CALL: Self = Self {
        requests: Compression::Identity,
        takes: false,
        replies: Compression::Identity,
        reply_min: 0,
    };
}

/// The value of `grpc-accept-encoding` of an end that takes what is known here, or nothing.
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
