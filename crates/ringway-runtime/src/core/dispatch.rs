//! Dispatch of the driver's events to sockets, and of the sockets' output to the driver.

use std::cell::Cell;
use std::os::fd::RawFd;

use socket2::SockAddr;

use super::Core;
use crate::buf::{Segment, View};
use crate::contain::contain;
use crate::driver::{Event, Key, RecvEnd};
use crate::io::{End, Incoming, Phase, RecvState, Relief, Socket};

impl Core {
    /// Handles the driver's events. A panic of foreign code in an event, such as a waker, fails the
    /// connection of that event.
    pub(super) fn dispatch(&self, events: &mut Vec<Event>) {
        self.for_each_contained(events, Event::key, |event| self.on_event(event));
    }

    /// Hands this turn's output to the driver: one gathered send per connection.
    pub(super) fn serve_dirty(&self) {
        loop {
            let mut dirty = std::mem::take(&mut *self.dirty.borrow_mut());
            self.for_each_contained(&mut dirty, |&key| key, |key| self.serve(key));
            // A callback told of its stream's end may drop it, and may give others bytes to
            // send.
            let mut later = self.dirty.borrow_mut();
            dirty.append(&mut later);
            *later = dirty;
            if later.is_empty() {
                return;
            }
        }
    }

    /// Runs `run` for each item in turn; if that panics, the item's connection fails.
    fn for_each_contained<T>(
        &self,
        items: &mut Vec<T>,
        key_of: impl Fn(&T) -> Key,
        run: impl Fn(T),
    ) {
        let mut items = items.drain(..);
        let current = Cell::new(Key::NONE);
        let mut run_rest = || {
            contain("what an event has called", || {
                for item in items.by_ref() {
                    current.set(key_of(&item));
                    run(item);
                }
            })
        };
        while run_rest().is_none() {
            let (key, end) = (current.get(), End::Errno(libc::ECONNABORTED));
            contain("the end of a stream", || {
                self.with_stream(key, |state| self.end_stream(key, state, end));
            });
        }
    }

    fn on_event(&self, event: Event) {
        match event {
            Event::Received { key, data } => self.on_received(key, data),
            Event::Progress { key, bytes } => self.on_progress(key, bytes),
            Event::Sent { key, bytes, errno, segments } => {
                // First, so that a waker that panics does not leave destructors to its
                // unwinding.
                self.retire(segments);
                self.on_sent(key, bytes, errno);
            }
            Event::RecvEnded { key, end } => self.on_recv_ended(key, end),
            Event::Accepted { key, fd } => self.on_accepted(key, fd),
            Event::AcceptEnded { key, errno } => self.on_accept_ended(key, errno),
            Event::Connected { key, errno } => self.on_connected(key, errno),
            Event::Datagram { key, data, from } => self.on_datagram(key, data, from),
            Event::Oversized { key } => self.on_oversized(key),
            Event::Closed { key } => self.on_closed(key),
            Event::FileEnded { name, end } => self.on_file_ended(name, *end),
        }
    }

    /// Drops segments outside every borrow, and keeps their list for reuse.
    #[inline]
    fn retire(&self, mut segments: Vec<Segment>) {
        segments.drain(..).for_each(Segment::retire);
        self.send_memory.return_list(segments);
    }

    #[inline]
    fn on_received(&self, key: Key, data: View) {
        self.shared.counters.received(data.len());
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Stream(state)) = sockets.at(key) else {
            return;
        };
        state.clocks.note_received(self.now());
        if state.phase != Phase::Open {
            return;
        }
        if state.outgrows_messages(data.len()) && state.recv == RecvState::Armed {
            self.change_to_bulk(key, state);
        }
        if state.callback.is_some() && state.inbox.is_empty() && !state.waits_for_room() {
            drop(sockets);
            return self.call_back(key, Incoming::Data(data.spared()));
        }
        state.inbox.push(data);
        state.count(&self.held);
        if state.recv == RecvState::Armed && state.is_behind(&self.held) {
            self.stop_recv(key, state);
        }
        let readers = state.readers.take();
        drop(sockets);
        readers.wake();
    }

    /// Records progress of a batch that waits for its peer.
    fn on_progress(&self, key: Key, bytes: usize) {
        self.shared.counters.sent_partly(bytes);
        let relief = self.with_stream(key, |state| {
            state.outbox.progressed(bytes);
            if bytes > 0 {
                state.clocks.note_progress(self.now(), bytes);
            }
            state.relieve()
        });
        self.tell_relief(key, relief.flatten());
    }

    fn on_sent(&self, key: Key, bytes: usize, errno: i32) {
        self.shared.counters.sent(bytes);
        let mut sockets = self.sockets.borrow_mut();
        match sockets.at(key) {
            Some(Socket::Stream(state)) => {
                // A batch that did not wait was accepted when it was handed over, whenever its
                // event comes.
                let waited = state.outbox.sent(bytes);
                if waited && bytes > 0 && state.phase != Phase::Closing {
                    state.clocks.note_progress(self.now(), bytes);
                } else {
                    state.clocks.note_taken(bytes);
                }
                if state.outbox.is_idle() {
                    state.clocks.note_all_taken();
                }
                state.count(&self.held);
                if errno != 0 {
                    state.fail_sending(errno);
                    self.mark_stream(key, state);
                }
                if state.needs_service() {
                    self.mark_stream(key, state);
                }
                let relief = state.relieve();
                drop(sockets);
                self.tell_relief(key, relief);
            }
            Some(Socket::Datagram(state)) => {
                let (writers, readers) = self.on_datagram_sent(key, state, errno);
                drop(sockets);
                writers.wake_both(readers);
            }
            _ => {}
        }
    }

    #[inline]
    fn tell_relief(&self, key: Key, relief: Option<Relief>) {
        let Some(relief) = relief else { return };
        relief.writers.wake_both(relief.readers);
        if relief.to_callback {
            self.call_back(key, Incoming::Drained);
        }
    }

    fn on_recv_ended(&self, key: Key, end: RecvEnd) {
        let mut sockets = self.sockets.borrow_mut();
        match sockets.at(key) {
            Some(Socket::Stream(state)) => {
                let former = std::mem::replace(&mut state.recv, RecvState::Ended);
                state.reads_out &= end == RecvEnd::Stopped;
                match end {
                    RecvEnd::Stopped => {
                        state.recv = RecvState::Off;
                        let changes = former == RecvState::Changing;
                        if changes && state.goes_on(&self.held) || state.wants_recv(&self.held) {
                            return self.start_recv(key, state);
                        }
                    }
                    RecvEnd::Eof => state.end = state.end.or(Some(End::Eof)),
                    RecvEnd::Failed(errno) => state.fail(End::Errno(errno)),
                }
                if state.needs_service() {
                    self.mark_stream(key, state);
                }
                if state.end.is_some() {
                    drop(sockets);
                    self.tell_end(key);
                }
            }
            Some(Socket::Datagram(state)) => {
                let readers = state.on_recv_ended(end);
                drop(sockets);
                readers.wake();
            }
            _ => {}
        }
    }

    fn on_accepted(&self, key: Key, fd: RawFd) {
        self.shared.counters.accepted();
        let acceptors = self.take_accepted(key, fd);
        acceptors.wake();
    }

    fn on_accept_ended(&self, key: Key, errno: i32) {
        let acceptors = self.end_accepting(key, errno);
        acceptors.wake();
    }

    fn on_connected(&self, key: Key, errno: i32) {
        let writers = self.with_stream(key, |state| {
            state.connecting = false;
            if errno != 0 {
                self.end_stream(key, state, End::Errno(errno));
            }
            state.writers.take()
        });
        writers.unwrap_or_default().wake();
    }

    fn on_datagram(&self, key: Key, data: View, from: Option<Box<SockAddr>>) {
        self.shared.counters.received(data.len());
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Datagram(state)) = sockets.at(key) else {
            return;
        };
        let readers = state.push(data, from, &self.held);
        drop(sockets);
        readers.wake();
    }

    #[cold]
    fn on_oversized(&self, key: Key) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Datagram(state)) = sockets.at(key) else {
            return;
        };
        let readers = state.on_oversized();
        drop(sockets);
        readers.wake();
    }

    /// Hands a socket's output to the driver, and closes the socket when that is due.
    fn serve(&self, key: Key) {
        let mut sockets = self.sockets.borrow_mut();
        match sockets.at(key) {
            Some(Socket::Stream(state)) => {
                state.dirty = false;
                let lost = self.serve_stream(key, state);
                if let Some(lost) = lost {
                    drop(sockets);
                    lost.into_iter().for_each(Segment::retire);
                    self.tell_end(key);
                }
            }
            Some(Socket::Datagram(state)) => self.serve_datagrams(key, state),
            _ => {}
        }
    }

    /// Handles the timer of a socket.
    pub(super) fn on_socket_timer(&self, key: Key) {
        match self.sockets.borrow_mut().at(key) {
            Some(Socket::Stream(state)) => self.on_deadline(key, state),
            Some(Socket::Datagram(state)) => self.on_datagram_deadline(key, state),
            Some(Socket::Listener(state)) => self.on_rested(key, state),
            None => {}
        }
    }
}
