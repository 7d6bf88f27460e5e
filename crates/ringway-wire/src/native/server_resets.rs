//! Calls that clients cancel, and limits for those that are opened only to be cancelled (section
//! 9).

use std::time::Duration;

use super::frame::Frame;
use super::server::Server;
use super::server_answer::CANCELLED;
use super::server_event::ServerEvent;
use super::{FrameKind, Violation};
use crate::limits::{NATIVE_REFUSED_RATE, NATIVE_RESET_RATE};
use crate::rates::{Allowance, Bucket, moment};

const STATUS_MAX: u32 = 16;

/// The limits for cancellations by a client.
///
/// Cancelling a call that has run for a while is free: it counts among the calls in flight, and its
/// handler ends. A call whose RST arrives together with its REQUEST is never counted there, so no
/// other limit bounds how many of those a client sends.
#[derive(Debug)]
pub(super) struct Resets {
    /// Rate limit for calls that are cancelled in the moment at which they arrive.
    sudden: Allowance<1>,
    /// Whether that limit is exceeded, so that requests are refused until it has recovered.
    is_exhausted: bool,
    /// Rate limit for the requests that are refused meanwhile.
    refused: Bucket,
}

impl Resets {
    pub(super) fn new(now: Duration) -> Self {
        let sudden = Allowance::new(NATIVE_RESET_RATE, now);
        Self { sudden, is_exhausted: false, refused: Bucket::new(NATIVE_REFUSED_RATE, now) }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }
}

impl Server {
    pub(super) fn on_reset<'i>(
        &mut self,
        index: usize,
        frame: Frame<'i>,
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        let Frame { header, body: reason } = frame;
        let stream = header.stream;
        let (now, requests) = (self.connection.now, self.connection.requests);
        let is_sudden = self.connection.slots.get(index).came == moment(now);
        if is_sudden && !self.resets.sudden.take(NATIVE_RESET_RATE, now, requests) {
            self.resets.is_exhausted = true;
            self.note_permits();
        }
        let code = match header.aux {
            code @ 1..=STATUS_MAX => code as u8,
            _ => CANCELLED,
        };
        let is_running = self.is_running(index);
        self.answer(index, code, &[])?;
        Ok(is_running.then_some(ServerEvent::Cancelled { stream, code, reason }))
    }

    /// Whether a request is refused because too many were cancelled before it.
    ///
    /// # Errors
    ///
    /// Fails when too many have been refused.
    pub(super) fn is_paying(&mut self) -> Result<bool, Violation> {
        if !self.resets.is_exhausted {
            return Ok(false);
        }
        let now = self.connection.now;
        if self.resets.sudden.has_recovered(NATIVE_RESET_RATE, now, self.connection.requests) {
            self.resets.is_exhausted = false;
            self.note_permits();
            return Ok(false);
        }
        match self.resets.refused.take(NATIVE_REFUSED_RATE, now) {
            true => Ok(true),
            false => Err(Violation::Flood { kind: FrameKind::Rst }),
        }
    }
}
