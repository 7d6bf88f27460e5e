//! What is known of one sending of a command.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bson::RawDocument;
use ringway_runtime::now_exact;

use super::purpose::Purpose;
use super::slot::ReadConcernOf;
use crate::error::{Error, Fate, Kind, Result};
use crate::pool::Pool;
use crate::reads::Reads;
use crate::topology::StateChange;
use crate::uri::HostAddress;

/// One sending of a command.
pub(super) struct OneTry<'a> {
    pub(super) purpose: Purpose,
    pub(super) reads: Option<&'a Reads>,
    pub(super) concern: Option<ReadConcernOf<'a>>,
    /// When its time is over, if the server is told.
    pub(super) until: Option<Until>,
    /// The number of a write in its session, by which the server knows it again; `None` if it cannot be repeated.
    pub(super) number: &'a mut Option<i64>,
    /// The server that it was sent to.
    pub(super) server: Option<Rc<Pool>>,
    /// The servers of tries before it that are the last choice.
    pub(super) avoided: &'a [HostAddress],
    /// Whether the write has turned out to be none that may be repeated: then its number was not sent.
    pub(super) is_once: &'a Cell<bool>,
    pub(super) is_last: bool,
    /// Whether the server labels what it could not confirm, so that its number does not count. The number of a router
    /// never does.
    pub(super) has_labels: bool,
}

/// When the time of an operation is over.
#[derive(Clone, Copy)]
pub(super) struct Until {
    pub(super) at: Instant,
    pub(super) limit: Duration,
}

impl OneTry<'_> {
    /// `maxTimeMS`: how long the server may work so that its reply comes in time. More than servers take is no limit.
    ///
    /// Specification: Client Side Operations Timeout, "Command Execution".
    ///
    /// # Errors
    /// The reply could not come in time.
    pub(super) fn max_time(&self, round_trip: impl FnOnce() -> Duration) -> Result<Option<i64>> {
        let Some(Until { at, limit }) = self.until else { return Ok(None) };
        let left = at.saturating_duration_since(now_exact()).saturating_sub(round_trip());
        match i32::try_from(left.as_millis()) {
            Ok(0) => {
                let what = format!(
                    "the operation took longer than {limit:?}, before it was sent: a round trip to the server takes longer \
                     than what is left"
                );
                Err(Error::new(Kind::Timeout, Fate::NotSent, what))
            }
            Ok(millis) => Ok(Some(millis.into())),
            Err(_) => Ok(None),
        }
    }

    /// Gives up the number of a write that its server would not know again.
    ///
    /// # Errors
    /// It was sent under its number before, and without it would be executed twice.
    pub(super) fn check_number(&mut self, is_known_again: bool, was_sent: bool) -> Result {
        if self.number.is_none() || is_known_again {
            return Ok(());
        }
        if was_sent {
            let what = "the write cannot be sent again: the server knows no numbers of writes";
            return Err(Error::new(Kind::Incompatible, Fate::NotSent, what));
        }
        *self.number = None;
        Ok(())
    }

    /// Whether the write was sent under a number.
    pub(super) fn is_numbered(&self) -> bool {
        self.number.is_some() && !self.is_once.get()
    }

    /// What the reply to a write, whose `ok` is 1, says of the state of the server.
    ///
    /// # Errors
    /// The write was not confirmed, and is to be sent once more.
    pub(super) fn refusal_of(&self, body: &RawDocument) -> Result<Option<StateChange>> {
        if !matches!(body.get("writeConcernError"), Ok(Some(_))) {
            return Ok(None);
        }
        if self.is_numbered()
            && !self.is_last
            && let Some(error) = Error::unconfirmed(body, self.has_labels)?
        {
            return Err(error);
        }
        Ok(StateChange::of(body))
    }
}
