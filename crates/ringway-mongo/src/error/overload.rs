//! Servers that have too much to do, and say so or end connections.
//!
//! Specification: Client Backpressure.

use std::time::Duration;

use bson::RawDocument;

use super::codes::labels;
use super::{Error, Kind};
use crate::limits::{BACKOFF_BASE, BACKOFF_MAX};

impl Error {
    /// Whether the server has refused the command, or the connection, because it has too much to do.
    pub(crate) fn is_overload(&self) -> bool {
        self.has_label(labels::OVERLOADED)
    }

    /// Whether any command that failed so may be sent again, after a pause: nothing of it was done.
    pub(crate) fn is_retryable_overload(&self) -> bool {
        self.is_overload() && self.has_label(labels::RETRYABLE)
    }

    /// Labels the failure of a connection that has not got so far that its server has answered.
    pub(crate) fn mark_overloaded(&mut self) {
        self.mark(labels::OVERLOADED);
        self.mark(labels::RETRYABLE);
    }

    /// Whether a connection that could not be made says that its server may have too much to do: not where its name was
    /// not found, its certificate is wrong, or this machine has a limit.
    pub(crate) fn may_be_overload(&self) -> bool {
        let source = self.0.source.as_ref().and_then(|it| it.downcast_ref::<ringway_net::Error>());
        let is_other = source.is_some_and(|error| {
            error.is_address() || error.is_limit() || error.is_tls() && error.as_io().is_none()
        });
        matches!(self.0.kind, Kind::Network | Kind::ConnectTimeout) && !is_other
    }

    /// The pause before try `number`, from 1 on.
    pub(crate) fn next_backoff(&self, number: u32) -> Duration {
        self.backoff(number, jitter())
    }

    /// `jitter` is a share of the longest one.
    fn backoff(&self, number: u32, jitter: f64) -> Duration {
        let base = self.0.backoff.unwrap_or(BACKOFF_BASE);
        let doubled = 2_u32.checked_pow(number).and_then(|factor| base.checked_mul(factor));
        doubled.unwrap_or(BACKOFF_MAX).min(BACKOFF_MAX).mul_f64(jitter)
    }
}

/// A share of a pause, so that those who wait do not come together.
fn jitter() -> f64 {
    let [low, high, ..] = bson::Uuid::new().bytes();
    f64::from(u16::from_le_bytes([low, high])) / 65_536.0
}

/// `baseBackoffMS`, if it is positive.
pub(super) fn backoff_of(reply: &RawDocument) -> Option<Duration> {
    let millis = crate::topology::number(reply, "baseBackoffMS")?;
    let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0)?;
    Some(Duration::from_millis(millis).min(BACKOFF_MAX))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::error::Fate;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut error = Error::new(Kind::Network, Fate::NotSent, "of the test");
        let millis = |error: &Error, number| error.backoff(number, 1.0).as_millis();
        assert_eq!(
            [1, 2, 3, 7, 40].map(|number| millis(&error, number)),
            [200, 400, 800, 10_000, 10_000]
        );
        assert_eq!(error.backoff(1, 0.5), Duration::from_millis(100));
        error.0.backoff = backoff_of(&rawdoc! { "baseBackoffMS": 7 });
        assert_eq!([1, 2].map(|number| millis(&error, number)), [14, 28]);
        for odd in [rawdoc! { "baseBackoffMS": 0 }, rawdoc! { "baseBackoffMS": -1 }, rawdoc! {}] {
            assert_eq!(backoff_of(&odd), None);
        }
    }
}
