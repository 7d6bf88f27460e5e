//! What a request says of its call beside the method: the member `ringway`, an extension of ours that other
//! servers skip.

use std::borrow::Cow;
use std::time::Duration;

use super::scanner::Scanner;
use super::text::unescape;

/// The member `ringway` of a request: `{"timeout_ms": 250, "traceparent": "00-…"}`, each of them optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallContext<'a> {
    /// The time that is left for the call, in whole milliseconds on the wire.
    pub timeout: Option<Duration>,
    /// The trace that the call belongs to, as W3C writes it.
    pub traceparent: Option<Cow<'a, str>>,
}

impl<'a> CallContext<'a> {
    /// Reads an object that was checked; members that it does not know are skipped, and null is as none.
    pub(super) fn parse(json: &'a str) -> Option<Self> {
        let (mut timeout, mut traceparent) = (None, None);
        let read =
            Scanner::new(json).object(["timeout_ms", "traceparent"], |name, value| match name {
                0 => timeout = Some(value),
                _ => traceparent = Some(value),
            });
        read.ok()?;
        let is_given = |value: &&str| *value != "null";
        let text = |value: &'a str| value.strip_prefix('"')?.strip_suffix('"').map(unescape);
        let (timeout, traceparent) = (timeout.filter(is_given), traceparent.filter(is_given));
        let context = Self {
            timeout: timeout.and_then(|value| value.parse().ok()).map(Duration::from_millis),
            traceparent: traceparent.and_then(text),
        };
        let is_read = context.timeout.is_some() == timeout.is_some()
            && context.traceparent.is_some() == traceparent.is_some();
        is_read.then_some(context)
    }
}
