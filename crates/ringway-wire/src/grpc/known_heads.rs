//! Heads of requests that were encoded before: most calls differ from an earlier one in nothing but
//! their message.

use std::time::Duration;

use crate::http2::ShortBlock;
use crate::native::Open;

/// Heads that a connection remembers, in half a KiB: one per method when a few are called
/// alternately.
const HEADS: usize = 4;

/// The fields by which the heads of a connection's calls differ, if they carry no metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadKey {
    method: u32,
    codec: u8,
    timeout: Option<Duration>,
}

impl HeadKey {
    /// The key of a call's head; `None` if the head has fields of its own.
    #[inline]
    pub(super) fn of(call: &Open<'_>) -> Option<Self> {
        let is_plain = call.method != 0 && call.meta.is_empty() && call.attempt == 0;
        is_plain.then_some(Self { method: call.method, codec: call.codec, timeout: call.timeout })
    }
}

/// An encoded head.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownHead {
    pub(super) block: ShortBlock,
    /// Size of its list of fields in bytes, as the server counts it.
    pub(super) size: usize,
}

/// The encoded heads of a connection, each in the place that its method has.
#[derive(Debug, Default)]
pub(super) struct KnownHeads([Option<(HeadKey, KnownHead)>; HEADS]);

impl KnownHeads {
    #[inline]
    pub(super) fn find(&self, key: HeadKey) -> Option<&KnownHead> {
        let (known, head) = self.0[key.method as usize % HEADS].as_ref()?;
        (*known == key).then_some(head)
    }

    pub(super) fn keep(&mut self, key: HeadKey, head: KnownHead) {
        self.0[key.method as usize % HEADS] = Some((key, head));
    }
}
