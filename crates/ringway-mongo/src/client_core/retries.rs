//! How often a command is sent, and with which pauses.
//!
//! ```text
//!   passes by itself, and may be repeated ──► at once, one time more; within a time that was set: more and more slowly
//!   refused by a server with too much to do ──► after a pause that grows, as often as the options allow
//! ```

use std::time::{Duration, Instant};

use ringway_runtime::now_exact;

use super::purpose::Purpose;
use super::session_use::SessionUse;
use crate::cursor::pause_after;
use crate::error::Error;
use crate::limits::TRIES_MAX;
use crate::options::ClientOptions;
use crate::uri::HostAddress;

/// The tries of one command.
pub(super) struct Retries<'a> {
    options: &'a ClientOptions,
    purpose: Purpose,
    /// When the time of the operation is over.
    ends_at: Option<Instant>,
    is_in_transaction: bool,
    ends_transaction: bool,
    /// Tries after the first one.
    done: u32,
    /// How many there may be.
    most: u32,
    avoided: Vec<HostAddress>,
}

impl<'a> Retries<'a> {
    pub(super) fn new(
        options: &'a ClientOptions,
        purpose: Purpose,
        used: &SessionUse<'_>,
        (ends_at, is_time_set): (Option<Instant>, bool),
    ) -> Self {
        Self {
            options,
            purpose,
            ends_at,
            is_in_transaction: used.is_in_transaction(),
            ends_transaction: used.ends_transaction(),
            done: 0,
            // Specification: Client Side Operations Timeout, "Retryability".
            most: if is_time_set { u32::MAX } else { TRIES_MAX - 1 },
            avoided: Vec::new(),
        }
    }

    /// Whether writes have a number by which servers know them again.
    pub(super) fn numbers_writes(&self) -> bool {
        self.purpose == Purpose::Write && self.options.retry_writes && !self.is_in_transaction
    }

    /// The servers that are the last choice for the next try.
    pub(super) fn avoided(&self) -> &[HostAddress] {
        &self.avoided
    }

    pub(super) fn avoid(&mut self, server: HostAddress) {
        if !self.avoided.contains(&server) {
            self.avoided.push(server);
        }
    }

    /// Whether a failure that passes by itself ends the command.
    pub(super) fn is_last(&self) -> bool {
        self.done >= self.most || !self.repeats()
    }

    /// How long to wait before the next try after one has failed so; `None` if there is no other. `was_in_vain`: it has
    /// waited for a server that suits.
    pub(super) fn pause_before_next(
        &mut self,
        error: &Error,
        is_numbered: bool,
        was_in_vain: bool,
    ) -> Option<Duration> {
        let is_overload = error.is_overload();
        let allows_another = match self.purpose {
            Purpose::Write => is_numbered && error.allows_another_write(),
            _ => error.allows_another_read(),
        };
        let may_pass = self.repeats() && allows_another && (!was_in_vain || is_overload);
        let is_refused = error.is_retryable_overload() && self.repeats_refused();
        if is_overload {
            self.most = self.options.adaptive_retries_max;
        }
        if !may_pass && !is_refused || self.done >= self.most {
            return None;
        }
        self.done += 1;
        match is_overload {
            true => Some(error.next_backoff(self.done)).filter(|pause| self.has_time(*pause)),
            false => Some(pause_after(self.done - 1)),
        }
    }

    /// Whether the command is sent again after failures that pass. "Drivers MUST NOT retry" single commands of a
    /// transaction.
    fn repeats(&self) -> bool {
        !self.is_in_transaction
            && match self.purpose {
                Purpose::Read => self.options.retry_reads,
                Purpose::Write => self.options.retry_writes,
                _ => false,
            }
    }

    /// Whether the command is sent again if a server has refused it: of one of the user's own it is unknown what it does.
    fn repeats_refused(&self) -> bool {
        let options = self.options;
        match self.purpose {
            _ if self.ends_transaction => true,
            Purpose::Read | Purpose::Cursor(_) => options.retry_reads,
            Purpose::Write | Purpose::WriteOnce | Purpose::Unanswered => options.retry_writes,
            Purpose::ReadOnce => options.retry_reads && options.retry_writes,
        }
    }

    fn has_time(&self, pause: Duration) -> bool {
        self.ends_at.is_none_or(|end| now_exact() + pause < end)
    }
}
