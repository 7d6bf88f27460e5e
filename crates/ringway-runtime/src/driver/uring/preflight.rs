//! A check at start of kernel behaviour that the driver needs and the documentation does not
//! promise.

use std::io;
use std::os::fd::IntoRawFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use super::Uring;
use crate::driver::{Driver, Event, Key, SendBatch, Wait};
use crate::limits;

/// The key of a slot that is not in use yet.
const KEY: Key = Key::FIRST;

/// More bytes than a socket with the smallest send buffer accepts at once.
static OVERSIZED: [u8; 1 << 20] = [0; 1 << 20];

impl Uring {
    /// Checks that sends which fail report it, since those that succeed do not: a socket pair must
    /// accept one byte silently, and report when it cannot accept more than it holds.
    pub(super) fn preflight(&mut self) -> io::Result<()> {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_send_buffer_size(&near, 1)?;
        self.register(KEY, near.into_raw_fd());
        let outcome = self.try_sends();
        self.close(KEY, true);
        let closed =
            self.told_within(limits::TEARDOWN_WAIT, &|event| matches!(event, Event::Closed { .. }));
        drop(far);
        outcome?;
        if closed? { Ok(()) } else { Err(unsupported("a cancelled operation did not complete")) }
    }

    fn try_sends(&mut self) -> io::Result<()> {
        self.send(KEY, batch(&OVERSIZED[..1]));
        let taken = |event: &Event| matches!(event, Event::Sent { bytes: 1, errno: 0, .. });
        if !self.told_within(Duration::ZERO, &taken)? {
            return Err(unsupported("a send that fits was not accepted at once"));
        }
        self.send(KEY, batch(&OVERSIZED));
        let waits = |event: &Event| matches!(event, Event::Progress { .. });
        if !self.told_within(Duration::ZERO, &waits)? {
            return Err(unsupported("a partial send was not reported"));
        }
        Ok(())
    }

    /// Whether an event for which `is_it` holds arrives within `limit`; checks at least once.
    fn told_within(&mut self, limit: Duration, is_it: &dyn Fn(&Event) -> bool) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        let mut events = Vec::new();
        loop {
            self.turn(Wait::Poll, &mut events)?;
            if events.iter().any(is_it) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
        }
    }
}

fn batch(bytes: &'static [u8]) -> SendBatch {
    SendBatch { segments: vec![bytes.into()], to: None, urgent: true }
}

fn unsupported(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("io_uring does not behave as required: {what}"),
    )
}
