//! Times the streams of one connection from their opening to their end, for counts and for the load
//! of their endpoint.

use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::sync::oneshot;

use super::call_metrics::FinishedCall;
use super::load_balancer::{AnsweredCall, CountedCall, EndpointId};
use super::pool_context::PoolContext;
use crate::call::method::Method;
use crate::call::status::{Code, Status};
use crate::waiters::Errands;

pub(super) struct StreamTimers {
    context: Rc<PoolContext>,
    endpoint: EndpointId,
    /// By the machine's slots, as long as a connection ever had streams at once.
    timers: Vec<Option<StreamTimer>>,
    /// The last moment that the connection was told.
    now: Duration,
}

struct StreamTimer {
    method: &'static Method,
    counted: CountedCall,
    waited: Duration,
    begun: Duration,
    watcher: Option<Watcher>,
}

/// Who waits for the end of a stream, as a task of the core.
pub(super) type Watcher = oneshot::Sender<Result<(), Status>>;

impl StreamTimers {
    pub(super) fn new(context: Rc<PoolContext>, endpoint: EndpointId, now: Duration) -> Self {
        Self { context, endpoint, timers: Vec::new(), now }
    }

    /// Time passes: streams that end do so now.
    #[inline]
    pub(super) fn set_time(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// A stream is opened in a slot, after it has waited for so long. It is counted as begun already.
    pub(super) fn began(&mut self, slot: u32, method: &'static Method, waited: Duration) {
        let slot = slot as usize;
        if self.timers.len() <= slot {
            self.timers.resize_with(slot + 1, || None);
        }
        let begun = self.now;
        let counted = self.context.balancer.sent(self.endpoint, begun, true);
        self.timers[slot] = Some(StreamTimer { method, counted, waited, begun, watcher: None });
    }

    /// Has `watcher` told how the stream of the slot ends.
    pub(super) fn watch(&mut self, slot: u32, watcher: Watcher) {
        if let Some(Some(timer)) = self.timers.get_mut(slot as usize) {
            timer.watcher = Some(watcher);
        }
    }

    /// Its server has ended the stream of the slot, or was lost.
    pub(super) fn ended(&mut self, slot: u32, failure: Option<&Status>, errands: &mut Errands) {
        if let Some(StreamTimer { counted, begun, watcher, .. }) =
            self.end(slot, failure.map_or(Code::Ok, Status::code))
        {
            let answered = AnsweredCall { failure, begun, now: self.now, has_latency: false };
            self.context.balancer.answered(counted, answered);
            tell(watcher, errands, || failure.map_or(Ok(()), |failure| Err(failure.clone())));
        }
    }

    /// This side has ended the stream of the slot, which says nothing of its endpoint. Slots without a
    /// stream are left as they are.
    pub(super) fn given_up(&mut self, slot: u32, code: Code, errands: &mut Errands) {
        if let Some(StreamTimer { counted, begun, watcher, .. }) = self.end(slot, code) {
            self.context.balancer.given_up(counted, begun, None);
            tell(watcher, errands, || {
                Err(Status::new(code, "the stream was ended from this side"))
            });
        }
    }

    /// The failure of the stream of a slot, which has not ended yet, with its method's name.
    pub(super) fn named(&self, slot: u32, failure: Status) -> Status {
        match self.timers.get(slot as usize) {
            Some(Some(timer)) => failure.of_call(timer.method),
            _ => failure,
        }
    }

    /// Counts the stream as ended. What was known of it.
    fn end(&mut self, slot: u32, code: Code) -> Option<StreamTimer> {
        let timer = self.timers.get_mut(slot as usize)?.take()?;
        let service = Some(self.now.saturating_sub(timer.begun));
        let ended = FinishedCall { code, bytes: 0, waited: timer.waited, service };
        self.context.metrics.call_ended(timer.method, ended);
        Some(timer)
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
