//! The end of sockets.
//!
//! ```text
//!  Open ──dropped──► Sending ──all is sent──► Draining ──end of the peer, time──► Closing ──► Closed
//!   │                   │                                                            ▲
//!   │                   └── the peer has ended, is silent, was never sent anything ──┤
//!   └── failed, aborted ─────────────────────────────────────────────────────────────┘
//! ```
//!
//! A dropped stream sends its queue for as long as its peer accepts some of it, and then
//! half-closes. After that it reads on and drops what it reads: closing with unread input would
//! make the kernel reset the connection, and a reset takes from the peer what it has not read. A
//! stream that has failed is closed at once even if it has a handle, which then only repeats the
//! error. If a send found that the connection was gone, what had arrived before is received first,
//! if somebody reads it. Datagram sockets end the same way without draining, listeners without
//! sending.

use std::io;
use std::os::fd::RawFd;

use super::closed::Closed;
use super::socket::Socket;
use super::stream_state::{End, Phase, RecvState, Shutdown, StreamState};
use crate::buf::Segment;
use crate::contain::drop_contained;
use crate::core::{Core, with_current};
use crate::driver::Key;

/// Resets the dropped streams of the calling core that are still sending: their queues are lost.
/// For a program that must end and cannot wait any longer; a stream with a handle has
/// [`Stream::abort`](super::Stream::abort).
///
/// # Panics
/// Panics outside a runtime's thread.
pub fn abort_dropped_streams() {
    with_current(|core| core.abort_released());
}

/// Whether the process or the system has reached its limit of descriptors.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl Core {
    /// Releases a stream whose handle was dropped.
    pub(crate) fn release_stream(&self, key: Key) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Stream(state)) = sockets.at(key) else {
            return;
        };
        state.has_handle = false;
        let inbox = std::mem::take(&mut state.inbox);
        state.kept = 0;
        state.count(&self.held);
        let waiters = state.readers.take().and(state.writers.take());
        let callback = state.callback.take();
        let gone = match state.phase {
            Phase::Open => {
                self.begin_sending(key, state);
                None
            }
            Phase::Closed => sockets.remove(key),
            Phase::Sending | Phase::Draining | Phase::Closing => None,
        };
        drop(sockets);
        drop_contained("the destructor of a callback", callback);
        waiters.retire();
        drop(inbox);
        self.retire_socket(gone);
    }

    fn begin_sending(&self, key: Key, state: &mut StreamState) {
        state.phase = Phase::Sending;
        state.reads_out = false;
        if state.limits.write_stall_timeout.is_none() {
            // Its peer had all the time that it wanted, and has a bounded one from now on.
            state.clocks.note_sent(self.now());
            state.clocks.note_all_taken();
        }
        self.hasten_deadlines(key, state);
        self.mark_stream(key, state);
    }

    /// Hands over the queue of a stream, and closes the stream when that is due. Returns the queue
    /// of a failed stream, for the caller to drop outside every borrow.
    #[inline]
    pub(crate) fn serve_stream(&self, key: Key, state: &mut StreamState) -> Option<Vec<Segment>> {
        if matches!(state.phase, Phase::Closing | Phase::Closed) {
            return None;
        }
        if state.is_broken() {
            let queued = state.outbox.take_waiting();
            state.count(&self.held);
            if !state.reads_out {
                self.close_stream(key, state, true);
            } else if state.wants_recv(&self.held) {
                self.start_recv(key, state);
            }
            return Some(queued);
        }
        if let Some(batch) = state.outbox.take_batch(state.awaits_send()) {
            state.has_sent = true;
            self.await_progress(key, state);
            self.driver.borrow_mut().send(key, batch);
        } else if state.outbox.is_idle() {
            self.serve_idle(key, state);
        }
        if state.phase == Phase::Sending && state.wants_recv(&self.held) {
            // A peer that waits until its own bytes are read would never read ours.
            self.start_recv(key, state);
        }
        None
    }

    /// Handles a stream whose queue is empty.
    fn serve_idle(&self, key: Key, state: &mut StreamState) {
        if state.shutdown == Shutdown::Wanted {
            state.shutdown = Shutdown::Done;
            if self.driver.borrow_mut().shutdown_write(key).is_err() {
                state.fail_sending(libc::ENOTCONN);
                self.mark_stream(key, state);
            }
        }
        match state.phase {
            Phase::Sending if self.may_lose_bytes(state) => self.begin_draining(key, state),
            Phase::Sending => self.close_stream(key, state, false),
            Phase::Draining if state.recv == RecvState::Ended => {
                self.close_stream(key, state, false);
            }
            _ => {}
        }
    }

    /// Whether closing now may cost the peer bytes that it has not read.
    fn may_lose_bytes(&self, state: &StreamState) -> bool {
        let is_silent = state.recv == RecvState::Armed && state.quiet().has_passed(self.now());
        state.has_sent && state.recv != RecvState::Ended && !is_silent && !self.is_ending()
    }

    fn begin_draining(&self, key: Key, state: &mut StreamState) {
        if state.shutdown == Shutdown::Open && self.driver.borrow_mut().shutdown_write(key).is_err()
        {
            return self.close_stream(key, state, false);
        }
        state.shutdown = Shutdown::Done;
        state.phase = Phase::Draining;
        self.draining.set(self.draining.get() + 1);
        state.clocks.note_sent(self.now());
        if state.recv != RecvState::Armed {
            // How much has arrived meanwhile is not known yet.
            state.clocks.note_received(self.now());
        }
        if state.wants_recv(&self.held) {
            self.start_recv(key, state);
        }
        self.hasten_deadlines(key, state);
    }

    /// Ends a stream whose time is over, or that has caused a panic.
    pub(crate) fn end_stream(&self, key: Key, state: &mut StreamState, end: End) {
        if state.phase == Phase::Draining {
            return self.close_stream(key, state, false);
        }
        state.fail(end);
        // Serving a broken stream informs everyone who waits for it.
        self.mark_stream(key, state);
    }

    fn close_stream(&self, key: Key, state: &mut StreamState, abort: bool) {
        if state.phase == Phase::Draining {
            self.draining.set(self.draining.get() - 1);
        }
        state.phase = Phase::Closing;
        self.stop_deadlines(&mut state.clocks);
        self.driver.borrow_mut().close(key, abort);
    }

    /// Handles a closed descriptor: the slot is free once there is no handle either.
    pub(crate) fn on_closed(&self, key: Key) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(socket) = sockets.at(key) else {
            return;
        };
        let Closed { has_handle, guards, waiters } = socket.note_closed();
        let gone = if has_handle { None } else { sockets.remove(key) };
        drop(sockets);
        self.count_open(-1);
        self.retire_socket(gone);
        guards.retire();
        waiters.wake_contained();
    }

    /// Drops the remains of a socket whose slot is free, outside every borrow.
    pub(super) fn retire_socket(&self, gone: Option<Socket>) {
        let waiting = match gone {
            Some(Socket::Stream(mut state)) => {
                let waiting = state.outbox.take_waiting();
                state.count(&self.held);
                waiting
            }
            Some(Socket::Datagram(state)) => state.into_waiting(&self.held),
            Some(Socket::Listener(_)) | None => return,
        };
        waiting.into_iter().for_each(Segment::retire);
    }

    /// Closes the streams that stay open only for their peers, because descriptors have run out.
    /// Returns whether there were any.
    pub(crate) fn close_draining(&self) -> bool {
        if self.draining.get() == 0 {
            return false; // so that a call in vain costs no search
        }
        let keys = self.sockets.borrow().keys();
        for key in keys {
            if let Some(Socket::Stream(state)) = self.sockets.borrow_mut().at(key)
                && state.phase == Phase::Draining
            {
                self.close_stream(key, state, false);
            }
        }
        true
    }

    /// Resets the streams without a handle.
    fn abort_released(&self) {
        let keys = self.sockets.borrow().keys();
        for key in keys {
            if let Some(Socket::Stream(state)) = self.sockets.borrow_mut().at(key)
                && !state.has_handle
                && matches!(state.phase, Phase::Sending | Phase::Draining)
            {
                self.end_stream(key, state, End::Errno(libc::ECONNABORTED));
            }
        }
    }

    /// Registers a descriptor under its key.
    pub(super) fn register(&self, key: Key, fd: RawFd) {
        self.driver.borrow_mut().register(key, fd);
        self.count_open(1);
    }

    /// Closes the listeners of an ending core, so that nobody connects while the tasks that would
    /// serve them are dropped.
    pub(crate) fn end_listeners(&self) {
        let keys = self.sockets.borrow().keys();
        for key in keys {
            if let Some(Socket::Listener(state)) = self.sockets.borrow_mut().at(key) {
                self.end_listener(key, state);
            }
        }
    }

    /// Aborts all sockets of an ended core, whose peers have had their time: what is unsent is
    /// lost.
    pub(crate) fn abort_sockets(&self) {
        let keys = self.sockets.borrow().keys();
        for key in keys {
            match self.sockets.borrow_mut().at(key) {
                Some(Socket::Stream(state)) => self.end_stream(key, state, End::CoreEnded),
                Some(Socket::Datagram(state)) => self.close_datagrams(key, state),
                Some(Socket::Listener(_)) | None => {}
            }
        }
    }

    /// Ends the sockets of an ending core. Queues are still sent, but no socket stays open for a
    /// handle.
    pub(crate) fn end_sockets(&self) {
        self.set_ending();
        self.close_draining();
        let keys = self.sockets.borrow().keys();
        for key in keys {
            match self.sockets.borrow_mut().at(key) {
                Some(Socket::Stream(state)) if state.phase == Phase::Open => {
                    self.begin_sending(key, state);
                }
                Some(Socket::Datagram(state)) => self.end_datagrams(key, state),
                Some(Socket::Listener(state)) => self.end_listener(key, state),
                _ => {}
            }
        }
    }
}
