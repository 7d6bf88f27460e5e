//! Batches as they are sent (section 6 of the specification).

use super::target::Target;

/// Puts what separates messages around those of a text: brackets and commas if they are a batch.
///
/// A batch that nothing is put into becomes no text at all: one of notifications only is not answered.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::{Replies, put_notification};
///
/// let (mut out, mut batch) = (Vec::new(), Replies::new(true));
/// for method in ["a", "b"] {
///     batch.begin(&mut out);
///     put_notification(method, None, &mut out);
/// }
/// assert!(batch.end(&mut out));
/// assert_eq!(out, br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#);
///
/// assert!(!Replies::new(true).end(&mut out));
/// ```
#[derive(Debug, Clone)]
pub struct Replies {
    is_batch: bool,
    has_any: bool,
}

impl Replies {
    /// Messages of a batch, or a single one.
    #[must_use]
    pub fn new(is_batch: bool) -> Self {
        Self { is_batch, has_any: false }
    }

    /// To be called before each message.
    #[inline]
    pub fn begin(&mut self, out: &mut impl Target) {
        if self.is_batch {
            out.put(if self.has_any { b"," } else { b"[" });
        }
        self.has_any = true;
    }

    /// To be called behind the last message. Whether there was any, so that there is a text to send.
    #[inline]
    pub fn end(self, out: &mut impl Target) -> bool {
        if self.is_batch && self.has_any {
            out.put(b"]");
        }
        self.has_any
    }
}
