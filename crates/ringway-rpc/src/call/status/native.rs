//! Statuses in the native protocol: the code is in the frame's header, the rest in the metadata.

use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{MetaReader, MetaWriter, Tag, Violation};

use crate::call::codec::unreadable_reply;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Origin, Pushback, Status};

impl Status {
    /// Appends the parts of a handler's status besides its code: text, details, trailers and
    /// pushback.
    ///
    /// "Not executed" and a received pushback belong to a call that the handler has made and not to
    /// the one that it serves, so they are not written.
    pub(crate) fn write(&self, meta: &mut MetaWriter<'_>) {
        if !self.message().is_empty() {
            meta.status_message(self.message());
        }
        if !self.details().is_empty() {
            meta.status_details(self.details());
        }
        match self.pushback().filter(|_| self.0.pushback_is_own) {
            Some(Pushback::After(wait)) => {
                meta.pushback_ms(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
            }
            Some(Pushback::Never) => {
                meta.pushback_ms(-1);
            }
            None => {}
        }
        self.metadata().write(meta);
    }

    /// Reads a RESPONSE: the trailers of a call that succeeded, or the status of one that failed.
    ///
    /// # Errors
    /// Returns the peer's status; INTERNAL if it cannot be read, RESOURCE_EXHAUSTED if its metadata
    /// is too large.
    pub(crate) fn of_response(number: u8, meta: &[u8]) -> Result<Metadata, Status> {
        if number == Code::Ok.number() && meta.is_empty() {
            return Ok(Metadata::new());
        }
        let code = Code::from_wire(number);
        let mut status = Status::new(code, "").with_origin(Origin::Handler);
        status.read(meta)?;
        if code == Code::Ok {
            return Ok(std::mem::take(status.metadata_mut()));
        }
        Err(status)
    }

    fn read(&mut self, meta: &[u8]) -> Result<(), Status> {
        for piece in MetaReader::new(meta) {
            let (tag, value) = piece?;
            match tag {
                Tag::StatusMessage => {
                    self.0.message = String::from_utf8_lossy(value).into_owned().into();
                }
                Tag::StatusDetails => self.0.details = Bytes::copy_from_slice(value),
                Tag::Refused => {
                    self.0.not_executed = true;
                    self.0.origin = Origin::Peer;
                }
                Tag::Pushback => {
                    let wait = u64::try_from(MetaReader::pushback_ms(value)?);
                    let after = |ms| Pushback::After(Duration::from_millis(ms));
                    self.0.pushback = Some(wait.map_or(Pushback::Never, after));
                }
                Tag::Entry | Tag::Authorization => {
                    self.0.metadata.read(tag, value).map_err(unreadable)?;
                }
                Tag::Unknown(tag) => {
                    let message = format!("the reply has metadata of an unknown kind: tag {tag}");
                    return Err(Status::unimplemented(message));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The status of a reply with an entry that breaks the rules, for which its caller is not to blame.
fn unreadable(failure: Status) -> Status {
    match failure.code() {
        Code::InvalidArgument => unreadable_reply(failure),
        _ => failure,
    }
}

impl From<Violation> for Status {
    /// Makes INTERNAL: a peer that violates the protocol has a defect.
    fn from(violation: Violation) -> Self {
        Self::internal(format!("the peer broke the protocol: {violation}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read_back(status: &Status) -> Status {
        let mut meta = Vec::new();
        status.write(&mut MetaWriter::new(&mut meta));
        Status::of_response(status.code().number(), &meta).expect_err("a failure")
    }

    #[test]
    fn status_is_read_back_as_written() {
        let mut trailers = Metadata::new();
        trailers.insert("shard", "7").expect("a good entry");
        let sent = Status::not_found("no such user")
            .with_details("42")
            .with_pushback(Pushback::After(Duration::from_millis(250)))
            .with_metadata(trailers);
        let got = read_back(&sent);
        assert!(got.is_not_found() && !got.is_not_executed());
        assert_eq!((got.message(), got.origin()), ("no such user", Origin::Handler));
        assert_eq!(&got.details()[..], b"42");
        assert_eq!(got.pushback(), sent.pushback());
        assert_eq!(got.metadata().get("shard"), Some("7"));
    }

    fn refused() -> Status {
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).refused().pushback_ms(-1);
        Status::of_response(Code::Unavailable.number(), &meta).expect_err("a failure")
    }

    #[test]
    fn refused_call_was_not_executed() {
        let got = refused();
        assert!(got.is_not_executed());
        assert_eq!((got.origin(), got.pushback()), (Origin::Peer, Some(Pushback::Never)));
    }

    #[test]
    fn marks_of_one_hop_are_not_passed_on_to_the_next() {
        for status in [refused(), Status::unavailable("cannot connect").not_executed()] {
            let got = read_back(&status);
            assert!(!got.is_not_executed(), "{got:?}");
            assert_eq!((got.origin(), got.pushback()), (Origin::Handler, None));
        }
        let wait = Pushback::After(Duration::from_millis(7));
        let own = read_back(&refused().with_pushback(wait));
        assert_eq!(own.pushback(), Some(wait), "the handler's own pushback is");
    }

    #[test]
    fn success_has_trailers_and_malformed_metadata_fails() {
        assert!(Status::of_response(0, &[]).expect("success").is_empty());
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).entry("cost", b"3");
        assert_eq!(Status::of_response(0, &meta).expect("success").get("cost"), Some("3"));
        let torn = Status::of_response(0, &meta[..meta.len() - 1]).expect_err("torn");
        assert!(torn.is_internal(), "{torn}");
        // Unknown tags from 80 up are skipped; others are an error.
        assert!(Status::of_response(0, b"\xf0\x01x").expect("skipped").is_empty());
        for number in [0, 5] {
            let unknown = Status::of_response(number, b"\x20\x01x").expect_err("not understood");
            assert!(unknown.is_unimplemented(), "{unknown}");
        }
        assert!(Status::of_response(200, &[]).expect_err("a failure").is_unknown());
    }

    #[test]
    fn caller_is_not_blamed_for_trailers_that_break_the_rules() {
        for number in [0, 5] {
            for (key, value) in [("a key", "x"), ("grpc-x", "x"), ("name", "\u{e9}")] {
                let mut meta = Vec::new();
                MetaWriter::new(&mut meta).entry(key, value.as_bytes());
                let status = Status::of_response(number, &meta).expect_err("unreadable");
                assert!(status.is_internal(), "{key}: {status}");
            }
        }
    }
}
