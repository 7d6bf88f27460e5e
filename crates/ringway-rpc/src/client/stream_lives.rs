//! The streams of one connection from their opening to their end, for counts and for the load of
//! their host.

use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::sync::oneshot;

use super::pool_host::PoolHost;
use super::spread::{Answered, HostId};
use super::tally::{Ended, Tally};
use crate::call::method::Method;
use crate::call::status::{Code, Status};
use crate::waiters::Errands;

pub(super) struct StreamLives {
    tally: Rc<Tally>,
    host: Rc<PoolHost>,
    /// By the machine's slots, as long as a connection ever had streams at once.
    lives: Vec<Option<Life>>,
    /// The last moment that the connection was told.
    now: Duration,
}

struct Life {
    method: &'static Method,
    /// Who is counted to have it.
    host: HostId,
    waited: Duration,
    begun: Duration,
    watcher: Option<Watcher>,
}

/// Who waits for the end of a stream, as a task of the core.
pub(super) type Watcher = oneshot::Sender<Result<(), Status>>;

impl StreamLives {
    pub(super) fn new(tally: Rc<Tally>, host: Rc<PoolHost>, now: Duration) -> Self {
        Self { tally, host, lives: Vec::new(), now }
    }

    /// Time passes: streams that end do so now.
    #[inline]
    pub(super) fn tell_time(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// A stream is opened in a slot, after it has waited for so long. It is counted as begun already.
    pub(super) fn began(&mut self, slot: u32, method: &'static Method, waited: Duration) {
        let slot = slot as usize;
        if self.lives.len() <= slot {
            self.lives.resize_with(slot + 1, || None);
        }
        let host = self.host.id();
        self.lives[slot] = Some(Life { method, host, waited, begun: self.now, watcher: None });
        self.tally.host_called(host, self.now, true);
    }

    /// Has `watcher` told how the stream of the slot ends.
    pub(super) fn watch(&mut self, slot: u32, watcher: Watcher) {
        if let Some(Some(life)) = self.lives.get_mut(slot as usize) {
            life.watcher = Some(watcher);
        }
    }

    /// Its server has ended the stream of the slot, or was lost.
    pub(super) fn ended(&mut self, slot: u32, failure: Option<&Status>, errands: &mut Errands) {
        if let Some(Life { host, begun, watcher, .. }) =
            self.end(slot, failure.map_or(Code::Ok, Status::code))
        {
            let answered = Answered { failure, begun, now: self.now, has_latency: false };
            self.tally.host_answered(host, answered);
            tell(watcher, errands, || failure.map_or(Ok(()), |failure| Err(failure.clone())));
        }
    }

    /// This side has ended the stream of the slot, which says nothing of its host. Slots without a
    /// stream are left as they are.
    pub(super) fn given_up(&mut self, slot: u32, code: Code, errands: &mut Errands) {
        if let Some(Life { host, begun, watcher, .. }) = self.end(slot, code) {
            self.tally.host_left(host, begun, None);
            tell(watcher, errands, || {
                Err(Status::new(code, "the stream was ended from this side"))
            });
        }
    }

    /// The failure of the stream of a slot, which has not ended yet, with its method's name.
    pub(super) fn named(&self, slot: u32, failure: Status) -> Status {
        match self.lives.get(slot as usize) {
            Some(Some(life)) => failure.of_call(life.method),
            _ => failure,
        }
    }

    /// What was known of it.
    fn end(&mut self, slot: u32, code: Code) -> Option<Life> {
        let life = self.lives.get_mut(slot as usize)?.take()?;
        let service = Some(self.now.saturating_sub(life.begun));
        let ended = Ended { code, bytes: 0, waited: life.waited, service };
        self.tally.call_ended(life.method, ended);
        Some(life)
    }
}

/// Wakes whoever watches, when the connection is not borrowed any more.
fn tell(
    watcher: Option<Watcher>,
    errands: &mut Errands,
    outcome: impl FnOnce() -> Result<(), Status>,
) {
    if let Some(watcher) = watcher {
        let outcome = outcome();
        errands.later(move || _ = watcher.send(outcome));
    }
}
