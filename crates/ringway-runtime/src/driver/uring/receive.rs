//! Receives: armed once, supplied with hot buffers, parked while there are none.

use super::handle::ArmState;
use super::{BufferGroup, Completion, Uring, kind, tag};
use crate::buf::View;
use crate::driver::{Event, Key, RecvClass, RecvEnd};
use crate::sys::datagram_parts;

impl Uring {
    pub(super) fn arm_recv(&mut self, key: Key) {
        let handle = &mut self.handles[key.index()];
        handle.recv = ArmState::Armed;
        handle.in_flight += 1;
        let (fd, class) = (handle.fd, handle.class);
        let data = tag(kind::RECV, key.bits());
        match class {
            RecvClass::Datagram => self.ring.recv_datagrams(fd, class as u16, data),
            RecvClass::Message | RecvClass::Bulk => {
                self.ring.recv_multishot(fd, class as u16, data);
            }
        }
        self.receives_queued += 1;
    }

    /// Lends buffers for the receives of one enter, and arms the receives that waited for them.
    pub(super) fn top_up(&mut self) {
        let queued = std::mem::take(&mut self.receives_queued);
        let message = self.group(RecvClass::Message);
        let goal = message.hot + queued + message.parked.len();
        message.buffers.top_up(goal);
        for class in [RecvClass::Bulk, RecvClass::Datagram] {
            let group = self.group(class);
            group.buffers.top_up(group.hot);
        }
        RecvClass::ALL.into_iter().for_each(|class| self.rearm_parked(class));
        self.receives_queued = 0;
    }

    /// Arms parked receives, at most as many as there are buffers: the others would fail at once,
    /// and with thousands of busy connections each turn would be spent on arming.
    fn rearm_parked(&mut self, class: RecvClass) {
        for _ in 0..self.group(class).buffers.provided() {
            let Some(key) = self.group(class).parked.pop_front() else { break };
            debug_assert_eq!(self.handles[key.index()].recv, ArmState::Parked);
            self.arm_recv(key);
        }
    }

    /// Removes a receive from the parked ones.
    pub(super) fn unpark(&mut self, key: Key) {
        let handle = &mut self.handles[key.index()];
        handle.recv = ArmState::Off;
        let class = handle.class;
        let parked = &mut self.group(class).parked;
        if let Some(at) = parked.iter().position(|&waiting| waiting == key) {
            parked.remove(at);
        }
    }

    fn group(&mut self, class: RecvClass) -> &mut BufferGroup {
        &mut self.groups[class as usize]
    }

    /// Whether parked receives have buffers, so that they must be armed before the core sleeps.
    pub(super) fn has_receives_to_arm(&self) -> bool {
        let waits = |group: &BufferGroup| !group.parked.is_empty() && group.buffers.provided() > 0;
        self.groups.iter().any(waits)
    }

    /// Makes buffers returned by other threads end the wait if receives are parked for lack of
    /// them; `false` if one was returned already.
    pub(super) fn is_told_of_buffers(&self) -> bool {
        let told = |group: &BufferGroup| group.parked.is_empty() || group.pool.await_return();
        self.groups.iter().all(told)
    }

    #[inline]
    pub(super) fn on_recv(&mut self, key: Key, completion: Completion, events: &mut Vec<Event>) {
        let handle = &mut self.handles[key.index()];
        debug_assert_eq!(handle.key, key);
        let class = handle.class;
        let closing = handle.closing;
        if let Some(id) = completion.buffer() {
            let buffers = &mut self.groups[class as usize].buffers;
            if completion.result > 0 && !closing {
                self.gather.received(&mut handle.epoch);
                self.receives += 1;
                if !std::mem::replace(&mut handle.is_listed, true) {
                    self.overlooked.add(key.index(), self.clock.get());
                }
                let data = buffers.filled(id, completion.result as usize);
                events.push(received(key, class, data));
            } else {
                buffers.unfilled(id);
            }
        }
        if !completion.more() {
            self.on_recv_end(key, completion, events);
        }
    }

    #[cold]
    pub(super) fn on_recv_end(
        &mut self,
        key: Key,
        completion: Completion,
        events: &mut Vec<Event>,
    ) {
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        let stopping = handle.recv == ArmState::Stopping;
        handle.recv = ArmState::Off;
        if handle.closing {
            return self.close_if_idle(key, events);
        }
        let end = match completion.result {
            0 if handle.class != RecvClass::Datagram => RecvEnd::Eof,
            errno if is_failure(errno) => RecvEnd::Failed(-errno),
            _ if stopping => RecvEnd::Stopped,
            errno if errno == -libc::ENOBUFS => {
                handle.recv = ArmState::Parked;
                self.counters.starved += 1;
                let class = handle.class;
                return self.group(class).parked.push_back(key);
            }
            _ => {
                self.counters.rearms += 1;
                return self.arm_recv(key);
            }
        };
        events.push(Event::RecvEnded { key, end });
    }
}

/// Whether a receive failed, other than by a lack of buffers or an interruption.
fn is_failure(result: i32) -> bool {
    result < 0 && !matches!(-result, libc::ENOBUFS | libc::EINTR | libc::ECANCELED)
}

fn received(key: Key, class: RecvClass, data: View) -> Event {
    if class != RecvClass::Datagram {
        return Event::Received { key, data };
    }
    let (from, start, len) = datagram_parts(&data).unwrap_or((None, 0, 0));
    Event::of_datagram(key, data.slice(start..start + len), from)
}
