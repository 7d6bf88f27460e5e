//! What the driver relies on beyond the kernel's documented interface, tried once at its start.

use std::io;
use std::os::fd::IntoRawFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use super::Uring;
use crate::driver::{Driver, Event, Key, SendBatch, Wait};
use crate::limits;

/// A key of a slot that nobody has yet.
const KEY: Key = Key::FIRST;

/// Above what any socket whose send buffer was set to the least takes at once.
static OVERSIZED: [u8; 1 << 20] = [0; 1 << 20];

impl Uring {
    /// Sends that succeed say nothing, so those that do not have to speak up: one byte through a
    /// pair of sockets must be taken silently, and more than they hold must not.
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
        if closed? { Ok(()) } else { Err(unsupported("an operation was not cancelled")) }
    }

    fn try_sends(&mut self) -> io::Result<()> {
        self.send(KEY, batch(&OVERSIZED[..1]));
        let taken = |event: &Event| matches!(event, Event::Sent { bytes: 1, errno: 0, .. });
        if !self.told_within(Duration::ZERO, &taken)? {
            return Err(unsupported("a send that fits was not taken at once"));
        }
        self.send(KEY, batch(&OVERSIZED));
        let waits = |event: &Event| matches!(event, Event::Progress { .. });
        if !self.told_within(Duration::ZERO, &waits)? {
            return Err(unsupported("a send that was cut short did not say so"));
        }
        Ok(())
    }

    /// Whether an event comes that `is_it`; looks once at least.
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
    io::Error::new(io::ErrorKind::Unsupported, format!("its sends are not as expected: {what}"))
}
