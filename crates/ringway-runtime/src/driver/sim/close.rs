//! Closing simulated connections, and the effect on the other side.

use std::os::fd::RawFd;
use std::time::Duration;

use super::network::{SimStream, SocketKind};
use super::{Action, Sim};
use crate::driver::{Event, Key};

impl Sim {
    /// Cancels what is in flight; a late cancel keeps the descriptor alive for a while.
    pub(super) fn start_close(&mut self, key: Key, abort: bool) {
        if !abort {
            self.send_what_fits(key);
        }
        let Some(handle) = self.live(key) else { return };
        handle.closing = true;
        self.discard_events(key);
        let late = self.delay(self.config.faults.late_cancels);
        self.schedule.after(late, Action::Closed { key, abort });
    }

    /// Sends what fits: a kernel accepts what it has room for before it sees the close.
    fn send_what_fits(&mut self, key: Key) {
        loop {
            self.step_send(key);
            let sending = self.live(key).and_then(|handle| handle.send.as_ref());
            if sending.is_none_or(|send| send.outcome.is_none()) {
                return;
            }
            self.on_sent(key);
        }
    }

    /// Drops the pending events of a key that is being closed; segments of a send are still
    /// returned.
    fn discard_events(&mut self, key: Key) {
        for event in std::mem::take(&mut self.ready) {
            match event {
                event if event.key() != key => self.ready.push_back(event),
                Event::Sent { .. } => self.ready.push_back(event),
                Event::Accepted { fd, .. } => self.close_descriptor(fd, false),
                _ => {}
            }
        }
    }

    pub(super) fn on_closed(&mut self, key: Key, abort: bool) {
        let Some(slot) = self.handles.get_mut(key.index()) else {
            return;
        };
        let Some(handle) = slot.take_if(|handle| handle.key == key) else {
            return;
        };
        self.close_descriptor(handle.fd, abort);
        self.ready.extend(handle.send.map(|send| send.finish(key, libc::ECANCELED)));
        let unsent = handle.queued.into_iter();
        self.ready.extend(unsent.map(|batch| batch.ended(key, 0, libc::ECANCELED)));
        self.ready.push_back(Event::Closed { key });
    }

    /// Closes a descriptor and informs the other side.
    pub(super) fn close_descriptor(&mut self, fd: RawFd, abort: bool) {
        // Before the socket is removed: the time by which everything it sent will have arrived.
        let ordered = self.arrival(fd);
        let Some(socket) = self.network.remove(fd) else {
            return;
        };
        match socket.kind {
            SocketKind::Unconnected => {}
            SocketKind::Listener(listener) => {
                for waiting in listener.backlog {
                    self.close_descriptor(waiting, true);
                }
            }
            SocketKind::Stream(stream) => self.close_stream(&stream, abort, ordered),
            SocketKind::Datagram(datagram) => {
                for sender in datagram.waiting {
                    self.schedule.after(Duration::ZERO, Action::Send(sender));
                }
            }
        }
    }

    /// Closes one end of a stream. A reset overtakes bytes in flight; an end of data never does. As
    /// in the kernel, closing with unread bytes is a reset, and a Unix socket has no other.
    fn close_stream(&mut self, stream: &SimStream, abort: bool, ordered: Duration) {
        let to = stream.peer;
        if stream.reset {
            return;
        }
        if abort && !stream.is_unix() || !stream.inbox.is_empty() {
            let latency = self.latency();
            self.schedule.after(latency, Action::Reset { to });
        } else if !stream.write_ended {
            self.schedule.at(ordered, Action::Fin { to });
        }
    }

    /// Delivers bytes to a stream; if it is gone, the sender gets a reset.
    pub(super) fn on_bytes(&mut self, to: RawFd, from: RawFd, bytes: Vec<u8>) {
        let Some(stream) = self.network.stream_mut(to) else {
            let latency = self.latency();
            return self.schedule.after(latency, Action::Reset { to: from });
        };
        if !stream.reset {
            stream.inbox.extend(bytes);
            self.wake(to);
        }
    }

    /// Delivers an end of data. It must not hide an earlier reset, which dropped bytes before it.
    pub(super) fn on_fin(&mut self, to: RawFd) {
        if let Some(stream) = self.network.stream_mut(to).filter(|stream| !stream.reset) {
            stream.eof = true;
            self.wake(to);
        }
    }

    pub(super) fn on_reset(&mut self, to: RawFd) {
        let lossy = self.chance(self.config.faults.lossy_resets);
        if let Some(stream) = self.network.stream_mut(to) {
            stream.reset = true;
            if lossy && !stream.inbox.is_empty() {
                stream.inbox.clear();
                stream.eof = false; // an end of data must not hide that bytes before it are lost
            }
            self.wake(to);
        }
    }

    /// Lets the operations of a descriptor notice a change.
    fn wake(&mut self, fd: RawFd) {
        if let Some(key) = self.network.key(fd) {
            self.step_receive(key);
            self.step_send(key);
        }
    }
}
