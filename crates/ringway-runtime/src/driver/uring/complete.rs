//! Completions of sends, accepts, connects and file operations.

use super::{Completion, SendOutcome, Sent, Uring};
use crate::driver::{Driver, Event, Key, sockets};

impl Uring {
    pub(super) fn on_send(&mut self, completion: Completion, events: &mut Vec<Event>) {
        // A cancelled send may have been sent in part; its rest must not be sent.
        let wants = |key: Key| {
            let handle = &mut self.handles[key.index()];
            if !std::mem::replace(&mut handle.is_bounded, true) {
                self.counters.syscalls += 1;
                sockets::bound_send_waits(handle.fd);
            }
            !handle.closing
        };
        match self.sends.complete(&mut self.ring, completion, wants) {
            None => self.fault = Some("a send completed twice"),
            Some(SendOutcome::Resumed { key, bytes }) => {
                self.counters.short_sends += 1;
                events.push(Event::Progress { key, bytes });
            }
            Some(SendOutcome::Full { key, slot }) => self.on_full(key, slot),
            Some(SendOutcome::Finished(sent)) => self.on_sent(sent, events),
        }
    }

    #[inline]
    pub(super) fn on_sent(&mut self, sent: Sent, events: &mut Vec<Event>) {
        let Sent { key, bytes, errno, segments } = sent;
        events.push(Event::Sent { key, bytes, errno, segments });
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        handle.sends -= 1;
        if handle.closing {
            return self.close_if_idle(key, events);
        }
        if std::mem::take(&mut handle.shutdown_after) {
            self.counters.syscalls += 1;
            // The peer may have closed meanwhile; then there is nothing left to end.
            let _too_late = sockets::shutdown_write(handle.fd);
        }
        if errno != 0 {
            self.receive_anew(key);
        }
    }

    /// Handles the completion of a close's cancel. It does not find a send that the kernel is just
    /// working on, and that may still wait for its peer.
    pub(super) fn on_cancelled(&mut self, key: Key, events: &mut Vec<Event>) {
        if let Some(slot) = self.handles[key.index()].full.take() {
            // The cancel still counts, so this closes nothing.
            let sent = self.sends.give_up(slot);
            self.on_sent(sent, events);
        }
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        if handle.sends > 0 {
            self.counters.syscalls += 1;
            sockets::end_waits(handle.fd);
        }
        self.close_if_idle(key, events);
    }

    pub(super) fn on_accept(&mut self, key: Key, completion: Completion, events: &mut Vec<Event>) {
        let handle = self.handles[key.index()];
        if completion.result >= 0 {
            if handle.closing {
                self.close_unregistered(completion.result);
            } else {
                events.push(Event::Accepted { key, fd: completion.result });
            }
        }
        if completion.more() {
            return;
        }
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        let wanted = handle.accepting;
        handle.accepting = false;
        if handle.closing {
            self.close_if_idle(key, events);
        } else if wanted && sockets::accepting_goes_on(completion.result) {
            self.counters.rearms += 1;
            self.accept_start(key);
        } else {
            let is_over = !sockets::accepting_goes_on(completion.result);
            let errno = if is_over { -completion.result } else { libc::ECANCELED };
            events.push(Event::AcceptEnded { key, errno });
        }
    }

    pub(super) fn on_connect(&mut self, completion: Completion, events: &mut Vec<Event>) {
        let Some(key) = self.sends.connected(completion) else {
            self.fault = Some("a connect completed twice");
            return;
        };
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        if handle.closing {
            self.close_if_idle(key, events);
        } else {
            events.push(Event::Connected { key, errno: -completion.result });
        }
    }

    pub(super) fn on_file(&mut self, completion: Completion, events: &mut Vec<Event>) {
        let Some(end) = self.files.complete(completion) else {
            self.fault = Some("a file operation was completed that had ended");
            return;
        };
        events.push(Event::FileEnded { name: completion.name(), end });
    }

    /// A signal ends the wait, and that is all: nobody reads the eventfd, since each write to it is
    /// told of again, read or not.
    pub(super) fn on_eventfd(&mut self, completion: Completion) {
        if !completion.more() {
            // A signal that came meanwhile is reported at once, since the count is above zero.
            self.arm_eventfd();
        }
    }
}
