//! Times the streams of one connection from begin to end, for metrics and load balancing.

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
    /// The timers, by the machine's slots.
    timers: Vec<Option<StreamTimer>>,
    /// The latest time that was set.
    now: Duration,
}

struct StreamTimer {
    method: &'static Method,
    counted: CountedCall,
    waited: Duration,
    begun: Duration,
    watcher: Option<Watcher>,
    /// Whether the sink of its requests has to be finished before there is a reply.
    needs_finish: bool,
}

/// Receives the outcome of a stream for a task of the core that waits for it.
pub(super) type Watcher = oneshot::Sender<Result<(), Status>>;

impl StreamTimers {
    pub(super) fn new(context: Rc<PoolContext>, endpoint: EndpointId, now: Duration) -> Self {
        Self { context, endpoint, timers: Vec::new(), now }
    }

    /// Sets the current time, at which streams begin and end.
    #[inline]
    pub(super) fn set_time(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Records that a stream was opened after it waited for `waited`. It was already counted as begun.
    pub(super) fn began(&mut self, slot: u32, method: &'static Method, waited: Duration) {
        let slot = slot as usize;
        if self.timers.len() <= slot {
            self.timers.resize_with(slot + 1, || None);
        }
        let begun = self.now;
        let counted = self.context.balancer.sent(self.endpoint, begun, true);
        let timer =
            StreamTimer { method, counted, waited, begun, watcher: None, needs_finish: false };
        self.timers[slot] = Some(timer);
    }

    /// Marks the stream in the slot as one whose sink has to be finished.
    pub(super) fn watch_finish(&mut self, slot: u32) {
        self.set_needs_finish(slot, true);
    }

    /// Forgets the mark: the sink is finished, or was logged.
    pub(super) fn finish_seen(&mut self, slot: u32) {
        self.set_needs_finish(slot, false);
    }

    fn set_needs_finish(&mut self, slot: u32, needs_finish: bool) {
        if let Some(Some(timer)) = self.timers.get_mut(slot as usize) {
            timer.needs_finish = needs_finish;
        }
    }

    /// The method of the stream in the slot, if it is marked.
    pub(super) fn unfinished_method(&self, slot: u32) -> Option<&'static Method> {
        let timer = self.timers.get(slot as usize)?.as_ref()?;
        timer.needs_finish.then_some(timer.method)
    }

    /// Notifies `watcher` when the stream in the slot ends.
    pub(super) fn watch(&mut self, slot: u32, watcher: Watcher) {
        if let Some(Some(timer)) = self.timers.get_mut(slot as usize) {
            timer.watcher = Some(watcher);
        }
    }

    /// Records that the server has ended the stream in the slot, or was lost.
    pub(super) fn ended(&mut self, slot: u32, failure: Option<&Status>, errands: &mut Errands) {
        if let Some(StreamTimer { counted, begun, watcher, .. }) =
            self.end(slot, failure.map_or(Code::Ok, Status::code))
        {
            let answered = AnsweredCall { failure, begun, now: self.now, has_latency: false };
            self.context.balancer.answered(counted, answered);
            tell(watcher, errands, || failure.map_or(Ok(()), |failure| Err(failure.clone())));
        }
    }

    /// Records that this side has ended the stream in the slot, which says nothing about the endpoint.
    /// Does nothing if the slot has no stream.
    pub(super) fn given_up(&mut self, slot: u32, code: Code, errands: &mut Errands) {
        if let Some(StreamTimer { counted, begun, watcher, .. }) = self.end(slot, code) {
            self.context.balancer.given_up(counted, begun, None);
            tell(watcher, errands, || {
                Err(Status::new(code, "the stream was ended from this side"))
            });
        }
    }

    /// Adds the method's name to the failure of the stream in the slot, which has not ended yet.
    pub(super) fn named(&self, slot: u32, failure: Status) -> Status {
        match self.timers.get(slot as usize) {
            Some(Some(timer)) => failure.of_call(timer.method),
            _ => failure,
        }
    }

    /// Counts the stream as ended and returns its timer.
    fn end(&mut self, slot: u32, code: Code) -> Option<StreamTimer> {
        let timer = self.timers.get_mut(slot as usize)?.take()?;
        let service = Some(self.now.saturating_sub(timer.begun));
        let ended = FinishedCall { code, bytes: 0, waited: timer.waited, service };
        self.context.metrics.call_ended(timer.method, ended);
        Some(timer)
    }
}

/// Notifies the watcher once the connection is not borrowed any more.
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
