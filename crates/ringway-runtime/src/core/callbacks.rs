//! Calls of streams' callbacks from events. None is made while anything is borrowed, and a panic
//! ends the stream that was being served.

use super::Core;
use crate::buf::View;
use crate::contain::{contain, drop_contained, drop_each};
use crate::driver::Key;
use crate::io::{Callback, End, Incoming, Next, Socket, StreamState};
use crate::limits;
use crate::names::NameId;

impl Core {
    pub(super) fn with_stream<T>(
        &self,
        key: Key,
        f: impl FnOnce(&mut StreamState) -> T,
    ) -> Option<T> {
        match self.sockets.borrow_mut().at(key) {
            Some(Socket::Stream(state)) => Some(f(state)),
            _ => None,
        }
    }

    /// Calls a stream's callback with `incoming`, and then with everything that was held back for
    /// it.
    pub(super) fn call_back(&self, key: Key, incoming: Incoming) {
        let mut next = Some(incoming);
        while let Some(incoming) = next {
            let callback = self.with_stream(key, |state| {
                let callback = state.callback.take()?;
                state.calling = true;
                Some(callback)
            });
            let Some(callback) = callback.flatten() else {
                return;
            };
            self.call_once(key, callback, incoming);
            next = self.next_for_callback(key);
        }
    }

    /// Calls a callback that was taken from its stream, and puts it back unless it is done or has
    /// set another one.
    fn call_once(&self, key: Key, mut callback: Callback, incoming: Incoming) {
        let last = matches!(incoming, Incoming::Failed(_));
        let within = self.shared.counters.poll_under_way();
        self.shared.counters.poll_started(NameId::of(CALLBACK));
        let next = contain("a connection's handler", || callback(incoming));
        self.shared.counters.poll_resumed(within);
        let goes_on = next == Some(Next::Continue) && !last;
        let mut callback = Some(callback);
        self.with_stream(key, |state| {
            state.calling = false;
            if goes_on && state.callback.is_none() {
                state.callback = callback.take();
            }
            if next.is_none() {
                // A partial answer must not look like a complete one.
                self.end_stream(key, state, End::Errno(libc::ECONNABORTED));
            }
        });
        drop_contained("the destructor of a callback", callback);
    }

    /// Gives a callback what was held back for it, and then the end. If the callback is being
    /// called, that happens after it returns.
    pub(crate) fn deliver_held(&self, key: Key) {
        if let Some(incoming) = self.next_for_callback(key) {
            self.call_back(key, incoming);
        }
    }

    /// Calls a callback with no bytes.
    pub(crate) fn prompt(&self, key: Key) {
        let may_be_called = |state: &mut StreamState| state.callback.is_some() && !state.calling;
        if self.with_stream(key, may_be_called) == Some(true) {
            self.call_back(key, Incoming::Data(View::from(Vec::new())));
        }
    }

    fn next_for_callback(&self, key: Key) -> Option<Incoming> {
        let next = self.with_stream(key, |state| {
            if state.callback.is_none() || state.calling || state.waits_for_room() {
                return None;
            }
            let view = state.inbox.pop();
            state.count(&self.held);
            if state.wants_recv(&self.held) {
                self.start_recv(key, state);
            }
            if let Some(view) = view {
                return Some(Incoming::Data(view));
            }
            match state.end_of_data()? {
                _ if std::mem::replace(&mut state.end_told, true) => None,
                end => {
                    state.ends_told = state.ends_told.saturating_add(1);
                    Some(match end {
                        End::Eof => Incoming::Eof,
                        end => Incoming::Failed(end.to_error()),
                    })
                }
            }
        });
        next.flatten()
    }

    pub(crate) fn set_callback(&self, key: Key, callback: Callback) {
        let mut callback = Some(callback);
        let former = self.with_stream(key, |state| {
            if state.ends_told >= limits::ENDS_TOLD_MAX {
                self.end_stream(key, state, End::Errno(libc::ECONNABORTED));
                return None;
            }
            state.end_told = false;
            state.callback.replace(callback.take()?)
        });
        drop_each("the destructor of a callback", [former.flatten(), callback]);
        self.deliver_held(key);
    }

    /// Wakes or calls everyone who waits for a stream that has ended.
    pub(super) fn tell_end(&self, key: Key) {
        let waiting = self.with_stream(key, |state| (state.readers.take(), state.writers.take()));
        let (readers, writers) = waiting.unwrap_or_default();
        readers.and(writers).wake_contained();
        self.deliver_held(key);
    }
}

/// The name under which the stall watchdog reports callbacks, which run without a task.
const CALLBACK: &str = "connection handler";
