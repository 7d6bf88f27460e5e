//! The messages, and operations on them.

use std::fmt;
use std::hint::black_box;

use super::timing::{Timed, measure};
use crate::args::RunLength;

/// The method and parameters of the call that JSON-RPC libraries like to measure: two integers.
pub(super) const METHOD: &str = "Arith.Add";
pub(super) const PARAMS: &str = r#"{"A":10,"B":20}"#;
pub(super) const RESULT: &str = r#"{"C":30}"#;
pub(super) const CODE: i64 = -32601;
pub(super) const REASON: &str = "Method not found";
pub(super) const EVENT: &str = "update";
pub(super) const EVENT_PARAMS: &str = "[1,2,3,4,5]";
pub(super) const ID: u64 = 70;

/// Requests of a batch.
pub(super) const BATCH: usize = 10;

/// A message by its name, as text.
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

/// One message decoded or encoded by one codec.
pub(super) struct Operation {
    pub(super) message: &'static str,
    /// `decode` or `encode`.
    pub(super) verb: &'static str,
    pub(super) codec: &'static str,
    /// The message, as it is decoded or as it has to come out.
    pub(super) text: String,
    /// Whether a text is read, or written, as this one.
    pub(super) check: Box<dyn Fn(&str) -> bool>,
    timed: Box<dyn FnMut(RunLength) -> Timed>,
}

impl Operation {
    /// Decodes with `decode`; `again` decodes and encodes what came out.
    pub(super) fn decode<T: 'static>(
        codec: &'static str,
        message: &'static str,
        mut decode: impl FnMut(&'static [u8]) -> T + 'static,
        again: impl Fn(&[u8], &mut Vec<u8>) + 'static,
    ) -> Self {
        let text = text(message);
        // The decoded message borrows it; there are ten, for as long as the tool runs.
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

    /// Encodes with `encode` into a buffer that is used again.
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

    /// Measures one run; the result is compared before it.
    pub(super) fn run(&mut self, length: RunLength) -> Timed {
        let is_right = (self.check)(&self.text);
        Timed { is_right, ..(self.timed)(length) }
    }

    /// The place among others: one operation of all codecs stands together.
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
