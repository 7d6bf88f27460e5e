//! The measured messages and the operations on them.

use std::fmt;
use std::hint::black_box;

use super::timing::{Timed, measure};
use crate::args::RunLength;

/// Method and parameters of the call that JSON-RPC libraries usually measure: two integers.
pub(super) const METHOD: &str = "Arith.Add";
pub(super) const PARAMS: &str = r#"{"A":10,"B":20}"#;
pub(super) const RESULT: &str = r#"{"C":30}"#;
pub(super) const CODE: i64 = -32601;
pub(super) const REASON: &str = "Method not found";
pub(super) const EVENT: &str = "update";
pub(super) const EVENT_PARAMS: &str = "[1,2,3,4,5]";
pub(super) const ID: u64 = 70;

/// Number of requests in a batch.
pub(super) const BATCH: usize = 10;

/// Returns the text of the message with this name.
pub(super) fn text(message: &str) -> String {
    let request = format!(r#"{{"jsonrpc":"2.0","method":"{METHOD}","params":{PARAMS},"id":{ID}}}"#);
    match message {
        "request" => request,
        "response" => format!(r#"{{"jsonrpc":"2.0","result":{RESULT},"id":{ID}}}"#),
        "error" => format!(
            r#"{{"jsonrpc":"2.0","error":{{"code":{CODE},"message":"{REASON}"}},"id":{ID}}}"#
        ),
        "notification" => {
            format!(r#"{{"jsonrpc":"2.0","method":"{EVENT}","params":{EVENT_PARAMS}}}"#)
        }
        _ => format!("[{}]", vec![request; BATCH].join(",")),
    }
}

/// Decodes or encodes one message with one codec.
pub(super) struct Operation {
    pub(super) message: &'static str,
    /// `decode`, `encode`, or `encode-new`, which encodes into a new buffer each time.
    pub(super) verb: &'static str,
    pub(super) codec: &'static str,
    /// The text to decode, or the expected text.
    pub(super) text: String,
    /// Whether the codec reads, or writes, this text correctly.
    pub(super) check: Box<dyn Fn(&str) -> bool>,
    timed: Box<dyn FnMut(RunLength) -> Timed>,
}

impl Operation {
    /// Makes an operation that decodes with `decode`; `again` decodes and encodes the result for comparison.
    pub(super) fn decode<T: 'static>(
        codec: &'static str,
        message: &'static str,
        mut decode: impl FnMut(&'static [u8]) -> T + 'static,
        again: impl Fn(&[u8], &mut Vec<u8>) + 'static,
    ) -> Self {
        let text = text(message);
        // The decoded message borrows the text. There are ten texts, which live as long as the tool runs.
        let bytes: &'static [u8] = text.clone().leak().as_bytes();
        let own = text.clone();
        Self {
            message,
            verb: "decode",
            codec,
            text,
            check: Box::new(move |other| {
                let mut out = Vec::new();
                again(other.as_bytes(), &mut out);
                out == own.as_bytes()
            }),
            timed: Box::new(move |length| {
                measure(length, || {
                    black_box(decode(black_box(bytes)));
                })
            }),
        }
    }

    /// Makes an operation that encodes with `encode` into a reused buffer.
    pub(super) fn encode(
        codec: &'static str,
        message: &'static str,
        encode: impl Fn(&mut Vec<u8>) + Clone + 'static,
    ) -> Self {
        let once = encode.clone();
        Self {
            message,
            verb: "encode",
            codec,
            text: text(message),
            check: Box::new(move |other| {
                let mut out = Vec::new();
                once(&mut out);
                out == other.as_bytes()
            }),
            timed: Box::new(move |length| {
                let mut out = Vec::with_capacity(4096);
                measure(length, || {
                    out.clear();
                    encode(&mut out);
                    black_box(&out);
                })
            }),
        }
    }

    /// Makes an operation that encodes with `encode` into a new buffer each time, as who has no pool of buffers.
    pub(super) fn encode_new(
        codec: &'static str,
        message: &'static str,
        encode: impl Fn(&mut Vec<u8>) + Clone + 'static,
    ) -> Self {
        let again = encode.clone();
        Self {
            verb: "encode-new",
            timed: Box::new(move |length| {
                measure(length, || {
                    let mut out = Vec::new();
                    again(&mut out);
                    black_box(&out);
                })
            }),
            ..Self::encode(codec, message, encode)
        }
    }

    /// Compares the result, then measures one run.
    pub(super) fn run(&mut self, length: RunLength) -> Timed {
        let is_right = (self.check)(&self.text);
        Timed { is_right, ..(self.timed)(length) }
    }

    /// The sort key by which the same operation of all codecs stands together.
    pub(super) fn rank(&self) -> (&'static str, usize) {
        let messages = ["request", "response", "error", "notification", "batch"];
        (self.verb, messages.iter().position(|it| *it == self.message).unwrap_or(messages.len()))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} by {}", self.verb, self.message, self.codec)
    }
}
