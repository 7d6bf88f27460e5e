//! From the driver's events to streams, listeners and datagram sockets, and back at a turn's end.

use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::task::Waker;

use socket2::SockAddr;

use super::{Core, Timer};
use crate::buf::View;
use crate::driver::{Event, Key, RecvClass, RecvEnd};
use crate::io::{Callback, End, Incoming, Next, Owner, RecvState, Shutdown, Socket};
use crate::io::{Stream, StreamLimits, StreamState, Waiters};
use crate::limits;

impl Core {
    pub(super) fn dispatch(&self, event: Event) {
        match event {
            Event::Received { key, data } => self.on_received(key, data),
            Event::Progress { key, bytes } => self.on_progress(key, bytes),
            Event::Sent { key, bytes, errno, mut segments } => {
                self.on_sent(key, bytes, errno);
                // Outside of every borrow: a segment's destructor may be a user's.
                segments.clear();
                self.return_list(segments);
            }
            Event::RecvEnded { key, end } => self.on_recv_ended(key, end),
            Event::Accepted { key, fd } => self.on_accepted(key, fd),
            Event::AcceptEnded { key, errno } => self.on_accept_ended(key, errno),
            Event::Connected { key, errno } => self.on_connected(key, errno),
            Event::Datagram { key, data, from } => self.on_datagram(key, data, from),
            Event::Closed { key } => {
                let closed = self.sockets.borrow_mut().remove(key);
                drop(closed);
            }
        }
    }

    fn with_stream<T>(&self, key: Key, f: impl FnOnce(&mut StreamState) -> T) -> Option<T> {
        match self.sockets.borrow_mut().at(key) {
            Some(Socket::Stream(state)) => Some(f(state)),
            _ => None,
        }
    }

    #[inline]
    fn on_received(&self, key: Key, data: View) {
        self.shared.counters.received(data.len());
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Stream(state)) = sockets.at(key) else {
            return;
        };
        state.last_active = self.now();
        if state.owner != Owner::Handle {
            return;
        }
        if state.outgrows_messages(data.len()) && state.recv == RecvState::Armed {
            state.class = RecvClass::Bulk;
            self.stop_recv(key, state);
        }
        if state.callback.is_some() && state.inbox.is_empty() && !state.waits_for_room() {
            drop(sockets);
            return self.call_back(key, Incoming::Data(data));
        }
        let pressure = self.pools.message.free_count() < limits::FREE_BUFFERS_LOW;
        state.inbox.push(data, pressure);
        if state.recv == RecvState::Armed && state.inbox.is_full(state.limits.recv_high_water) {
            self.stop_recv(key, state);
        }
        let readers = state.readers.take();
        drop(sockets);
        readers.wake();
    }

    /// A part of what is in flight was accepted.
    fn on_progress(&self, key: Key, bytes: usize) {
        self.shared.counters.sent(bytes);
        let now = self.now();
        let writers = self.with_stream(key, |state| {
            state.outbox.progressed(bytes);
            state.last_active = now;
            let drained = state.outbox.bytes() <= state.limits.send_low_water;
            if drained { state.writers.take() } else { Waiters::default() }
        });
        writers.unwrap_or_default().wake();
    }

    fn on_sent(&self, key: Key, bytes: usize, errno: i32) {
        self.shared.counters.sent(bytes);
        let mut sockets = self.sockets.borrow_mut();
        match sockets.at(key) {
            Some(Socket::Stream(state)) => {
                state.outbox.sent(bytes);
                state.last_active = self.now();
                if errno != 0 {
                    state.fail(End::Errno(errno));
                }
                if state.needs_service() && !std::mem::replace(&mut state.dirty, true) {
                    self.mark_dirty(key);
                }
                let drained = state.outbox.bytes() <= state.limits.send_low_water;
                if !(drained || errno != 0) {
                    return;
                }
                let was_congested = std::mem::take(&mut state.congested);
                let writers = state.writers.take();
                let goes_on = was_congested && state.paced || errno != 0;
                let readers = if goes_on { state.readers.take() } else { Waiters::default() };
                let called = state.callback.is_some() && was_congested;
                drop(sockets);
                writers.wake();
                readers.wake();
                if called {
                    self.call_back(key, Incoming::Drained);
                    self.deliver_held(key);
                }
            }
            Some(Socket::Datagram(state)) => {
                if state.on_sent(bytes) {
                    self.mark_dirty(key);
                }
                let writer = state.writer.take();
                drop(sockets);
                wake(writer);
            }
            _ => {}
        }
    }

    fn on_recv_ended(&self, key: Key, end: RecvEnd) {
        let mut sockets = self.sockets.borrow_mut();
        match sockets.at(key) {
            Some(Socket::Stream(state)) => {
                state.recv = RecvState::Ended;
                match end {
                    RecvEnd::Stopped => {
                        state.recv = RecvState::Off;
                        if state.wants_recv() {
                            self.start_recv(key, state);
                        }
                        return;
                    }
                    RecvEnd::Eof => state.end = state.end.or(Some(End::Eof)),
                    RecvEnd::Failed(errno) => state.fail(End::Errno(errno)),
                }
                if state.needs_service() && !std::mem::replace(&mut state.dirty, true) {
                    self.mark_dirty(key);
                }
                drop(sockets);
                self.tell_end(key);
            }
            Some(Socket::Datagram(state)) => {
                let reader = state.on_recv_ended(end);
                drop(sockets);
                wake(reader);
            }
            _ => {}
        }
    }

    fn on_accepted(&self, key: Key, fd: RawFd) {
        self.shared.counters.accepted();
        let simulated = self.driver.borrow().is_simulated();
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Listener(state)) = sockets.at(key) else {
            drop(sockets);
            return self.driver.borrow_mut().close_unregistered(fd);
        };
        let acceptor = state.push(fd, simulated);
        let full = state.is_full();
        drop(sockets);
        if full {
            self.pause_accept(key);
        }
        wake(acceptor);
    }

    fn on_accept_ended(&self, key: Key, errno: i32) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Listener(state)) = sockets.at(key) else {
            return;
        };
        let acceptor = state.ended(errno);
        drop(sockets);
        if errno != libc::ECANCELED {
            self.resume_accept_later(key);
        }
        wake(acceptor);
    }

    fn on_connected(&self, key: Key, errno: i32) {
        let writers = self.with_stream(key, |state| {
            state.connecting = false;
            if errno != 0 {
                state.fail(End::Errno(errno));
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
        let reader = state.push(data, from);
        drop(sockets);
        wake(reader);
    }

    /// Calls a stream's callback with one piece, outside of any borrow.
    fn call_back(&self, key: Key, incoming: Incoming) {
        let Some(mut callback) = self.with_stream(key, |state| state.callback.take()).flatten()
        else {
            return;
        };
        let last = matches!(incoming, Incoming::Failed(_));
        self.shared.counters.poll_started(crate::names::NameId::of(CALLBACK));
        let call = std::panic::AssertUnwindSafe(|| callback(incoming));
        let next = std::panic::catch_unwind(call).unwrap_or_else(|_panic| {
            tracing::error!("a handler panicked; its connection is closed");
            Next::Close
        });
        self.shared.counters.poll_ended();
        if next == Next::Continue && !last {
            self.with_stream(key, |state| state.callback = Some(callback));
        }
    }

    /// Wakes or calls everyone who waits for a stream that has ended.
    fn tell_end(&self, key: Key) {
        let told = self.with_stream(key, |state| (state.readers.take(), state.writers.take()));
        let Some((readers, writers)) = told else { return };
        readers.wake();
        writers.wake();
        self.deliver_held(key);
    }

    /// Gives a callback what was held back for it, and the end when all is delivered.
    pub(crate) fn deliver_held(&self, key: Key) {
        loop {
            let next = self.with_stream(key, |state| {
                state.callback.as_ref()?;
                if state.waits_for_room() {
                    return None;
                }
                if let Some(view) = state.inbox.pop() {
                    return Some(Incoming::Data(view));
                }
                if state.wants_recv() && state.end.is_none() {
                    self.start_recv(key, state);
                }
                match state.end? {
                    _ if std::mem::replace(&mut state.end_told, true) => None,
                    End::Eof => Some(Incoming::Eof),
                    end => Some(Incoming::Failed(end.to_error())),
                }
            });
            let Some(incoming) = next.flatten() else {
                return;
            };
            self.call_back(key, incoming);
        }
    }

    pub(crate) fn set_callback(&self, key: Key, callback: Callback) {
        self.with_stream(key, |state| state.callback = Some(callback));
        self.deliver_held(key);
    }

    pub(crate) fn start_recv(&self, key: Key, state: &mut StreamState) {
        state.recv = RecvState::Armed;
        self.driver.borrow_mut().recv_start(key, state.class);
    }

    fn stop_recv(&self, key: Key, state: &mut StreamState) {
        state.recv = RecvState::Stopping;
        self.driver.borrow_mut().recv_stop(key);
    }

    /// Registers a connected descriptor.
    pub(crate) fn open_stream(self: &Rc<Self>, fd: RawFd, limits: &Rc<StreamLimits>) -> Stream {
        let state = StreamState::new(fd, Rc::clone(limits), self.now());
        let key = self.sockets.borrow_mut().insert(Socket::Stream(state));
        self.driver.borrow_mut().register(key, fd);
        self.schedule_socket_timer(key);
        Stream::of_key(Rc::clone(self), key)
    }

    pub(crate) fn start_connect(self: &Rc<Self>, addr: &SockAddr) -> io::Result<Stream> {
        let mut driver = self.driver.borrow_mut();
        let fd = driver.open_stream(addr)?;
        let mut state = StreamState::new(fd, Rc::default(), self.now());
        state.connecting = true;
        let key = self.sockets.borrow_mut().insert(Socket::Stream(state));
        driver.register(key, fd);
        driver.connect(key, addr);
        drop(driver);
        Ok(Stream::of_key(Rc::clone(self), key))
    }

    /// The owner is gone: what is queued is still sent, then the descriptor is closed.
    pub(crate) fn release_stream(&self, key: Key) {
        let released = self.with_stream(key, |state| {
            state.inbox.clear();
            state.owner = Owner::Lingering(self.now() + limits::LINGER);
            if !std::mem::replace(&mut state.dirty, true) {
                self.mark_dirty(key);
            }
            let waiters = (state.readers.take(), state.writers.take());
            (!state.outbox.is_idle(), state.callback.take(), waiters)
        });
        let Some((lingers, callback, waiters)) = released else {
            return;
        };
        drop((callback, waiters));
        if lingers {
            self.schedule_socket_timer(key);
        }
    }

    /// Hands over what a socket has queued, finishes it where that was asked for.
    pub(super) fn serve(&self, key: Key) {
        let mut sockets = self.sockets.borrow_mut();
        match sockets.at(key) {
            Some(Socket::Stream(state)) => {
                state.dirty = false;
                self.serve_stream(key, state);
                if state.is_broken() {
                    drop(sockets);
                    self.tell_end(key);
                }
            }
            Some(Socket::Datagram(state)) => {
                if let Some(batch) = state.take_batch(self) {
                    self.driver.borrow_mut().send(key, batch);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn serve_stream(&self, key: Key, state: &mut StreamState) {
        if state.owner == Owner::Closing {
            return;
        }
        if state.is_broken() {
            state.outbox.clear();
            if state.owner != Owner::Handle {
                self.close_stream(key, state, true);
            }
            return;
        }
        if let Some(batch) = state.outbox.take_batch(self, state.awaits_send()) {
            if state.timer.is_none() {
                self.arm_socket_timer(key, state);
            }
            return self.driver.borrow_mut().send(key, batch);
        }
        if !state.outbox.is_idle() {
            return;
        }
        if state.shutdown == Shutdown::Wanted {
            state.shutdown = Shutdown::Done;
            if self.driver.borrow_mut().shutdown_write(key).is_err() {
                state.fail(End::Errno(libc::ENOTCONN));
            }
        }
        if state.owner != Owner::Handle {
            self.close_stream(key, state, false);
        }
    }

    fn close_stream(&self, key: Key, state: &mut StreamState, abort: bool) {
        state.owner = Owner::Closing;
        if let Some(timer) = state.timer.take() {
            self.stop_timer(timer);
        }
        self.driver.borrow_mut().close(key, abort);
    }

    /// Makes the wheel call for this socket's next deadline.
    pub(crate) fn schedule_socket_timer(&self, key: Key) {
        self.with_stream(key, |state| match (state.timer, state.next_deadline()) {
            (Some(timer), Some(deadline)) if self.move_timer(timer, deadline) => {}
            (timer, _) => {
                if let Some(timer) = timer {
                    self.stop_timer(timer);
                }
                state.timer = None;
                self.arm_socket_timer(key, state);
            }
        });
    }

    fn arm_socket_timer(&self, key: Key, state: &mut StreamState) {
        if let Some(deadline) = state.next_deadline() {
            state.timer = Some(self.start_timer(deadline, Timer::Socket(key)));
        }
    }

    /// Deadlines are lazy: activity only notes its time, and the timer looks at it when it fires.
    pub(super) fn on_socket_timer(&self, key: Key) {
        self.with_stream(key, |state| {
            state.timer = None;
            let now = self.now();
            let lingered = matches!(state.owner, Owner::Lingering(until) if until <= now);
            let expired = state.expired(now).or(lingered.then_some(End::Errno(libc::ETIMEDOUT)));
            let Some(end) = expired else {
                return self.arm_socket_timer(key, state);
            };
            state.fail(end);
            // Serving a broken stream tells everyone who waits for it.
            if !std::mem::replace(&mut state.dirty, true) {
                self.mark_dirty(key);
            }
        });
    }
}

/// How the watchdog names handlers that run without a task.
const CALLBACK: &str = "connection handler";

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
