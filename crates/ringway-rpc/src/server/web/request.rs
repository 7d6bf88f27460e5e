//! What a request says beside its messages.

use std::time::Duration;

use ringway_http::http::header::HeaderMap;
use ringway_wire::grpc::parse_timeout;
use ringway_wire::native::{MetaWriter, RequestHead};

use super::fields::write_metadata;
use crate::call::status::Status;

/// The head of a call whose messages have not been read.
#[derive(Debug)]
pub(super) struct CallStart {
    head: RequestHead,
    meta: Vec<u8>,
    timeout: Option<Duration>,
}

impl CallStart {
    /// Reads the headers of a call of the method at `method_index`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when one of them is malformed.
    pub(super) fn read(headers: &HeaderMap, method_index: usize) -> Result<Self, Status> {
        check_version(headers)?;
        let mut meta = Vec::new();
        write_metadata(headers, &mut meta)?;
        let head = RequestHead { method: method_index as u32 + 1, ..RequestHead::default() };
        Ok(Self { head, meta, timeout: timeout(headers)? })
    }

    /// How long the call may take, from the arrival of its head.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The call as it begins, with messages of this codec, after its request has taken some time.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED when no time is left.
    pub(super) fn begin(
        self,
        codec: u8,
        taken: Duration,
    ) -> Result<(RequestHead, Vec<u8>), Status> {
        let Self { mut head, mut meta, timeout } = self;
        head.codec = codec;
        if let Some(timeout) = timeout {
            let left = timeout.checked_sub(taken).filter(|left| !left.is_zero());
            let micros = left.ok_or_else(too_late)?.as_nanos().div_ceil(1_000);
            match u32::try_from(micros) {
                Ok(timeout_us) => head.timeout_us = timeout_us,
                Err(_) => {
                    let timeout_us = u64::try_from(micros).unwrap_or(u64::MAX);
                    MetaWriter::new(&mut meta).timeout_us(timeout_us);
                }
            }
        }
        Ok((head, meta))
    }
}

/// The end of a call whose request was not whole in time.
pub(super) fn too_late() -> Status {
    Status::deadline_exceeded("the deadline passed before the request was whole")
}

fn check_version(headers: &HeaderMap) -> Result<(), Status> {
    match headers.get("connect-protocol-version") {
        Some(version) if version != "1" => {
            Err(Status::invalid_argument("connect-protocol-version has to be 1"))
        }
        _ => Ok(()),
    }
}

/// `Connect-Timeout-Ms`, at most ten digits, or `grpc-timeout`.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    if let Some(value) = headers.get("grpc-timeout") {
        let bad = || Status::invalid_argument("grpc-timeout is up to eight digits and a unit");
        return parse_timeout(value.as_bytes()).map(Some).ok_or_else(bad);
    }
    let Some(value) = headers.get("connect-timeout-ms") else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| {
        !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit())
    });
    let milliseconds = digits.and_then(|digits| digits.parse::<u64>().ok());
    let bad = || Status::invalid_argument("Connect-Timeout-Ms is a number of at most ten digits");
    milliseconds.map(Duration::from_millis).map(Some).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use ringway_http::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        [(HeaderName::from_static(name), HeaderValue::from_static(value))].into_iter().collect()
    }

    #[test]
    fn timeouts_are_read_strictly() {
        let connect = |value| timeout(&headers("connect-timeout-ms", value)).ok().flatten();
        assert_eq!(connect("5"), Some(Duration::from_millis(5)));
        assert_eq!(connect("9999999999"), Some(Duration::from_millis(9_999_999_999)));
        assert_eq!(connect("0"), Some(Duration::ZERO));
        assert_eq!([connect("12345678901"), connect("-1"), connect("1.5"), connect("")], [None; 4]);
        let grpc = |value| timeout(&headers("grpc-timeout", value)).ok().flatten();
        assert_eq!((grpc("2S"), grpc("2")), (Some(Duration::from_secs(2)), None));
    }

    #[test]
    fn the_deadline_counts_from_the_head() {
        let start =
            || CallStart::read(&headers("connect-timeout-ms", "10"), 0).expect("well-formed");
        let (head, _) = start().begin(1, Duration::from_millis(4)).expect("in time");
        assert_eq!((head.timeout_us, head.codec, head.method), (6_000, 1, 1));
        let late = start().begin(1, Duration::from_millis(10)).expect_err("too late");
        assert!(late.is_deadline_exceeded());
        let none = CallStart::read(&headers("connect-timeout-ms", "0"), 0).expect("well-formed");
        let late = none.begin(1, Duration::ZERO).expect_err("no time at all");
        assert!(late.is_deadline_exceeded());
    }

    #[test]
    fn other_versions_of_the_protocol_are_refused() {
        let read = |version| CallStart::read(&headers("connect-protocol-version", version), 0);
        assert!(read("1").is_ok());
        assert!(read("2").expect_err("unknown").is_invalid_argument());
    }
}
