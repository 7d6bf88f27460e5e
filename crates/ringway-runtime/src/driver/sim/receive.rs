//! Receiving in a simulation: from what has arrived into buffers of the pools.

use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use super::handle::Armed;
use super::{Action, Inbound, Sim};
use crate::buf::View;
use crate::driver::{Event, Key, RecvClass, RecvEnd};
use crate::sys::{Pool, RecvBuf};

impl Sim {
    /// Continues a receive that was started or whose pause is over.
    pub(super) fn on_receive(&mut self, key: Key) {
        if let Some(handle) = self.live(key) {
            handle.receive.paused = false;
            self.step_receive(key);
        }
    }

    pub(super) fn on_receive_stopped(&mut self, key: Key) {
        if self.live(key).is_some_and(|handle| handle.receive.state == Armed::Stopping) {
            self.end_receive(key, RecvEnd::Stopped);
        }
    }

    /// Receives everything, in pieces, unless a fault or a lack of buffers interrupts.
    pub(super) fn step_receive(&mut self, key: Key) {
        while self.receive_piece(key) {}
    }

    /// Whether any parked receive could continue.
    pub(super) fn can_unpark(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.parked);
        let can = waiting.iter().any(|&key| self.has_buffer(key));
        self.parked = waiting;
        can
    }

    /// Continues the receives for which a buffer is free again.
    pub(super) fn retry_parked(&mut self) {
        for key in std::mem::take(&mut self.parked) {
            if self.live(key).is_none_or(|handle| !handle.parked) {
                continue;
            }
            if !self.has_buffer(key) {
                self.parked.push(key);
                continue;
            }
            if let Some(handle) = self.live(key) {
                handle.parked = false;
            }
            self.step_receive(key);
        }
    }

    /// Makes one completion; whether the next may follow at once.
    fn receive_piece(&mut self, key: Key) -> bool {
        let Some(handle) = self.live(key) else {
            return false;
        };
        if !handle.receive.runs() || handle.parked {
            return false;
        }
        let (fd, class) = (handle.fd, handle.class);
        match self.network.inbound(fd) {
            Inbound::Nothing => false,
            Inbound::Ended(end) => {
                self.end_receive(key, end);
                false
            }
            Inbound::Ready => self.receive_ready(key, fd, class),
        }
    }

    fn receive_ready(&mut self, key: Key, fd: RawFd, class: RecvClass) -> bool {
        if self.chance(self.config.faults.starvation) {
            self.counters.starved += 1;
            self.pause_receive(key);
            return false;
        }
        let Some(buffer) = self.pool(class).take() else {
            self.counters.starved += 1;
            self.park(key);
            return false;
        };
        let event = if self.network.datagram_mut(fd).is_some() {
            self.receive_datagram(key, fd, class, buffer)
        } else {
            self.receive_bytes(key, fd, buffer)
        };
        self.ready.extend(event);
        if self.chance(self.config.faults.rearms) {
            self.counters.rearms += 1;
            self.pause_receive(key);
            return false;
        }
        true
    }

    fn receive_bytes(&mut self, key: Key, fd: RawFd, mut buffer: RecvBuf) -> Option<Event> {
        let short = self.chance(self.config.faults.short_receives);
        let stream = self.network.stream_mut(fd)?;
        let whole = stream.inbox.len().min(buffer.as_mut_slice().len());
        let count = if short { self.rng.one_to(whole) } else { whole };
        let count = stream.read(&mut buffer.as_mut_slice()[..count]);
        let peer = stream.peer;
        self.tell_room(peer, count);
        Some(Event::Received { key, data: View::filled(buffer, count) })
    }

    fn receive_datagram(
        &mut self,
        key: Key,
        fd: RawFd,
        class: RecvClass,
        mut buffer: RecvBuf,
    ) -> Option<Event> {
        let socket = self.network.datagram_mut(fd)?;
        let datagram = socket.take()?;
        for sender in std::mem::take(&mut socket.waiting) {
            self.schedule.after(Duration::ZERO, Action::Send(sender));
        }
        // A longer datagram than the buffer is cut off, as the kernel does.
        let count = datagram.bytes.len().min(buffer.as_mut_slice().len());
        buffer.as_mut_slice()[..count].copy_from_slice(&datagram.bytes[..count]);
        let data = View::filled(buffer, count);
        Some(match class {
            RecvClass::Datagram => Event::Datagram { key, data, from: datagram.from },
            RecvClass::Message | RecvClass::Bulk => Event::Received { key, data },
        })
    }

    fn end_receive(&mut self, key: Key, end: RecvEnd) {
        let Some(handle) = self.live(key) else { return };
        handle.receive.state = Armed::Off;
        handle.parked = false;
        self.ready.push_back(Event::RecvEnded { key, end });
    }

    fn pause_receive(&mut self, key: Key) {
        if let Some(handle) = self.live(key) {
            handle.receive.paused = true;
            let pause = self.pause();
            self.schedule.after(pause, Action::Receive(key));
        }
    }

    fn park(&mut self, key: Key) {
        if let Some(handle) = self.live(key) {
            handle.parked = true;
            if !self.parked.contains(&key) {
                self.parked.push(key);
            }
        }
    }

    fn has_buffer(&mut self, key: Key) -> bool {
        let class = self.live(key).map(|handle| handle.class);
        class.is_some_and(|class| self.pool(class).free_count() > 0)
    }

    fn pool(&self, class: RecvClass) -> &Rc<Pool> {
        self.pools.of(class)
    }
}
