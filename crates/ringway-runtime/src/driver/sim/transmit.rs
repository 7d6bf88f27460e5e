//! Sending in a simulation: from a batch into the other end's buffer, as far as it has room.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use socket2::SockAddr;

use super::network::{Datagram, SocketKind, is_inet};
use super::{Action, BatchInFlight, Sim};
use crate::driver::{Event, Key};
use crate::limits;

/// The longest payload of UDP over IPv4; longer ones fail with `EMSGSIZE`.
const DATAGRAM_BYTES_MAX: usize = 65_507;

impl Sim {
    /// Continues a send that was started or whose pause is over.
    pub(super) fn on_send(&mut self, key: Key) {
        if let Some(send) = self.live(key).and_then(|handle| handle.send.as_mut()) {
            send.paused = false;
            self.step_send(key);
        }
    }

    /// Continues the send on `fd`, whose peer has read something.
    pub(super) fn on_room(&mut self, fd: RawFd) {
        if let Some(key) = self.network.key(fd) {
            self.step_send(key);
        }
    }

    pub(super) fn on_sent(&mut self, key: Key) {
        let Some(handle) = self.live(key) else { return };
        let fd = handle.fd;
        let Some(send) = handle.send.take() else {
            return;
        };
        handle.send = handle.queued.pop_front().map(BatchInFlight::new);
        let goes_on = handle.send.is_some();
        let (errno, ends_write) = (send.outcome.unwrap_or(0), send.ends_write);
        self.ready.push_back(send.finish(key, errno));
        if ends_write {
            self.send_fin(fd);
        }
        if goes_on {
            self.schedule.after(Duration::ZERO, Action::Send(key));
        }
    }

    /// Sends as much of a batch as possible, unless it is paused or already answered.
    pub(super) fn step_send(&mut self, key: Key) {
        let Some(handle) = self.live(key) else { return };
        let fd = handle.fd;
        if handle.send.as_ref().is_none_or(|send| send.paused || send.outcome.is_some()) {
            return;
        }
        match self.network.socket(fd).map(|socket| &socket.kind) {
            None => self.finish_send(key, libc::EBADF),
            Some(SocketKind::Unconnected | SocketKind::Listener(_)) => {
                self.finish_send(key, libc::ENOTCONN)
            }
            Some(SocketKind::Stream(_)) => self.send_stream(key, fd),
            Some(SocketKind::Datagram(_)) => self.send_datagram(key, fd),
        }
    }

    fn send_stream(&mut self, key: Key, fd: RawFd) {
        let Some(stream) = self.network.stream_mut(fd) else {
            return;
        };
        if stream.reset {
            let told = std::mem::replace(&mut stream.reset_told, true);
            return self.finish_send(key, if told { libc::EPIPE } else { libc::ECONNRESET });
        }
        if stream.write_ended {
            return self.finish_send(key, libc::EPIPE);
        }
        let room = self.config.socket_buffer_bytes.max(1).saturating_sub(stream.outstanding);
        let Some(send) = self.live(key).and_then(|handle| handle.send.as_ref()) else {
            return;
        };
        let rest = send.total - send.done;
        let fits = rest.min(room).min(limits::SUBMISSION_BYTES_MAX);
        if fits == 0 && rest > 0 {
            return self.tell_progress(key);
        }
        let short = fits > 1 && self.chance(self.config.faults.short_sends);
        let count = if short { self.rng.one_to(fits - 1) } else { fits };
        self.send_bytes(key, fd, count);
        if count == rest {
            return self.finish_send(key, 0);
        }
        self.counters.short_sends += 1;
        self.tell_progress(key);
        if short {
            self.pause_send(key);
        } else if count < room {
            self.schedule.after(Duration::ZERO, Action::Send(key));
        }
    }

    /// Reports what was accepted of an unfinished batch, and once that it has to wait.
    fn tell_progress(&mut self, key: Key) {
        let Some(send) = self.live(key).and_then(|handle| handle.send.as_mut()) else {
            return;
        };
        let (bytes, waited) = (send.tell(), std::mem::replace(&mut send.waits, true));
        if bytes > 0 || !waited {
            self.ready.push_back(Event::Progress { key, bytes });
        }
    }

    fn send_bytes(&mut self, key: Key, fd: RawFd, count: usize) {
        let Some(send) = self.live(key).and_then(|handle| handle.send.as_mut()) else {
            return;
        };
        let bytes = send.take(count);
        let at = self.arrival(fd);
        let Some(stream) = self.network.stream_mut(fd) else {
            return;
        };
        stream.outstanding += bytes.len();
        if !bytes.is_empty() {
            self.schedule.at(at, Action::Bytes { to: stream.peer, from: fd, bytes });
        }
    }

    fn pause_send(&mut self, key: Key) {
        let Some(send) = self.live(key).and_then(|handle| handle.send.as_mut()) else {
            return;
        };
        send.paused = true;
        let pause = self.pause();
        self.schedule.after(pause, Action::Send(key));
    }

    /// Schedules the answer of a send.
    fn finish_send(&mut self, key: Key, errno: i32) {
        let delay = self.delay(self.config.faults.delays);
        if let Some(send) = self.live(key).and_then(|handle| handle.send.as_mut()) {
            send.outcome = Some(errno);
            self.schedule.after(delay, Action::Sent(key));
        }
    }

    /// The arrival time of something sent now from `fd`: never before what was sent earlier.
    pub(super) fn arrival(&mut self, fd: RawFd) -> Duration {
        let at = self.schedule.now() + self.latency();
        match self.network.socket_mut(fd).map(|socket| &mut socket.kind) {
            Some(SocketKind::Stream(stream)) => {
                stream.arrives_at = stream.arrives_at.max(at);
                stream.arrives_at
            }
            Some(SocketKind::Datagram(socket)) => {
                socket.arrives_at = socket.arrives_at.max(at);
                socket.arrives_at
            }
            _ => at,
        }
    }

    /// Tells the sender `fd` that `count` of its bytes were read.
    pub(super) fn tell_room(&mut self, fd: RawFd, count: usize) {
        let Some(stream) = self.network.stream_mut(fd) else {
            return;
        };
        stream.outstanding -= count;
        let Some(key) = self.network.key(fd) else {
            return;
        };
        if self.live(key).is_some_and(|handle| handle.send.is_some()) {
            let latency = self.latency();
            self.schedule.after(latency, Action::Room(fd));
        }
    }

    /// Ends the sending half after what is in flight.
    pub(super) fn end_write(&mut self, key: Key, fd: RawFd) -> io::Result<()> {
        let Some(stream) = self.network.stream_mut(fd).filter(|stream| !stream.reset) else {
            return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
        };
        if stream.write_ended {
            return Ok(());
        }
        match self.live(key).and_then(|handle| handle.send.as_mut()) {
            Some(send) => send.ends_write = true,
            None => self.send_fin(fd),
        }
        Ok(())
    }

    pub(super) fn send_fin(&mut self, fd: RawFd) {
        let at = self.arrival(fd);
        let Some(stream) = self.network.stream_mut(fd) else {
            return;
        };
        if !std::mem::replace(&mut stream.write_ended, true) {
            self.schedule.at(at, Action::Fin { to: stream.peer });
        }
    }

    fn send_datagram(&mut self, key: Key, fd: RawFd) {
        let Some(socket) = self.network.datagram_mut(fd) else {
            return;
        };
        let (local, remote) = (socket.local.clone(), socket.remote.clone());
        let Some(send) = self.live(key).and_then(|handle| handle.send.as_mut()) else {
            return;
        };
        let Some(to) = send.batch.to.clone().or(remote.map(Box::new)) else {
            return self.finish_send(key, libc::EDESTADDRREQ);
        };
        if send.total > DATAGRAM_BYTES_MAX {
            return self.finish_send(key, libc::EMSGSIZE);
        }
        let total = send.total;
        if !is_inet(&to) && !self.has_unix_room(key, &to, total) {
            return;
        }
        let Some(send) = self.live(key).and_then(|handle| handle.send.as_mut()) else {
            return;
        };
        let datagram = Datagram { from: Some(Box::new(local)), bytes: send.take(total) };
        if is_inet(&to) {
            self.launch(fd, to, datagram);
        } else {
            self.on_datagram(&to, datagram);
        }
        self.finish_send(key, 0);
    }

    /// Whether a Unix receiver has room. Unix datagrams are never lost: a full receiver makes the
    /// sender wait, a missing one fails the send.
    fn has_unix_room(&mut self, key: Key, to: &SockAddr, bytes: usize) -> bool {
        let capacity = self.config.socket_buffer_bytes;
        let receiver = self.network.receivers.reached_by(to).first().copied();
        let Some(socket) = receiver.and_then(|fd| self.network.datagram_mut(fd)) else {
            self.finish_send(key, libc::ECONNREFUSED);
            return false;
        };
        let fits = socket.has_room(bytes, capacity);
        if !fits && !socket.waiting.contains(&key) {
            socket.waiting.push(key);
        }
        fits
    }

    /// Launches an inet datagram, which may be lost, doubled or delayed.
    fn launch(&mut self, fd: RawFd, to: Box<SockAddr>, datagram: Datagram) {
        let faults = self.config.faults;
        if self.chance(faults.datagrams_lost) {
            return;
        }
        let copies = if self.chance(faults.datagrams_doubled) { 2 } else { 1 };
        for _ in 0..copies {
            let at = if self.chance(faults.datagrams_reordered) {
                self.schedule.now() + self.latency() + self.pause()
            } else {
                self.arrival(fd)
            };
            self.schedule.at(at, Action::Datagram { to: to.clone(), datagram: datagram.clone() });
        }
    }

    /// Delivers a datagram: it is queued, or dropped if there is no receiver or its queue is full.
    pub(super) fn on_datagram(&mut self, to: &SockAddr, datagram: Datagram) {
        let capacity = self.config.socket_buffer_bytes;
        let Some(fd) = self.pick_receiver(to) else {
            return;
        };
        let Some(socket) = self.network.datagram_mut(fd) else {
            return;
        };
        if !socket.has_room(datagram.bytes.len(), capacity) {
            return;
        }
        socket.put(datagram);
        if let Some(key) = self.network.key(fd) {
            self.step_receive(key);
        }
    }

    fn pick_receiver(&mut self, to: &SockAddr) -> Option<RawFd> {
        let reached = self.network.receivers.reached_by(to);
        match reached {
            [] => None,
            [only] => Some(*only),
            several => Some(several[self.rng.below(several.len())]),
        }
    }
}
