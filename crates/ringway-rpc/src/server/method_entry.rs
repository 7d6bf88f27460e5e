//! A method on one core: its handler, its limit and the queue of its calls.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ringway_runtime::PollLabel;

use super::concurrency_limit::ConcurrencyLimit;
use super::json_forms::JsonForms;
use super::queue::{Overdue, Queue, Urgency};
use super::queued_key::QueuedKey;
use crate::call::method::Method;
use crate::call::status::Code;
use crate::limits;
use crate::metrics::CallCounters;
use crate::policy::{AdaptiveLimit, Answer, Ended};
use crate::service::{Handler, Registered, ServiceDescriptor};

/// A method as one core serves it.
pub(crate) struct MethodEntry {
    method: &'static Method,
    forms: Forms,
    /// The JSON forms, made with the first call in JSON over HTTP.
    json_forms: OnceCell<JsonForms>,
    handler: Box<dyn Handler>,
    limit: Limit,
    /// Calls of this core that count against the limit.
    running: Cell<u32>,
    /// Whether more calls were made than may run since the limit was last adjusted.
    was_reached: Cell<bool>,
    pressed: Cell<Option<Duration>>,
    queue: RefCell<Queue<QueuedKey>>,
    /// The number of requests in the queue that have not ended meanwhile.
    waiting: Cell<usize>,
    /// Whether the queue has entries.
    is_awaited: Cell<bool>,
    /// The waker of the task that runs queued calls.
    worker: RefCell<Option<Waker>>,
    has_worker: Cell<bool>,
    /// The slot of that task in the list of those that wait for calls on other cores to end.
    limit_slot: Cell<Option<usize>>,
    counters: Arc<CallCounters>,
    /// Whether a sink that outlives its handler was logged.
    has_kept_sink: Cell<bool>,
    /// The method's name for the stall watchdog's reports.
    label: PollLabel,
}

/// The encodings of the messages of a method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forms {
    pub(super) codec_in: u8,
    pub(super) codec_out: u8,
    /// The name of the request, if it is a well-known message, or empty.
    pub(super) message_in: &'static str,
    /// The name of the reply, if it is a well-known message, or empty.
    pub(super) message_out: &'static str,
}

/// The limit on calls that run at once.
pub(super) enum Limit {
    None,
    /// A fixed number for all cores together.
    Fixed(Arc<ConcurrencyLimit>),
    /// A number that this core derives from the latencies that it measures.
    Adaptive(Box<RefCell<AdaptiveLimit>>),
}

impl MethodEntry {
    pub(super) fn new(
        registered: Registered,
        limit: Limit,
        queue_room: usize,
        counters: Arc<CallCounters>,
    ) -> Self {
        let Registered { method, handler, codec_in, codec_out, message_in, message_out, .. } =
            registered;
        // Without a limit, calls wait only while the core is busy, and none is shed for that.
        let room = (!matches!(limit, Limit::None)).then_some(queue_room);
        Self {
            method,
            forms: Forms { codec_in, codec_out, message_in, message_out },
            json_forms: OnceCell::new(),
            handler,
            limit,
            running: Cell::new(0),
            was_reached: Cell::new(false),
            pressed: Cell::new(None),
            queue: RefCell::new(Queue::new(room)),
            waiting: Cell::new(0),
            is_awaited: Cell::new(false),
            worker: RefCell::default(),
            has_worker: Cell::new(false),
            limit_slot: Cell::new(None),
            counters,
            has_kept_sink: Cell::new(false),
            label: PollLabel::new(method.name()),
        }
    }

    /// Records that a handler has returned while its sink was kept. Returns whether it is the first.
    pub(super) fn is_first_kept_sink(&self) -> bool {
        !self.has_kept_sink.replace(true)
    }

    #[inline]
    pub(super) fn method(&self) -> &'static Method {
        self.method
    }

    /// The codec of the messages that the method accepts.
    #[inline]
    pub(super) fn codec_in(&self) -> u8 {
        self.forms.codec_in
    }

    /// The name of the request, if it is a well-known message, or empty.
    pub(super) fn message_in(&self) -> &'static str {
        self.forms.message_in
    }

    /// The codec of the replies.
    pub(super) fn codec_out(&self) -> u8 {
        self.forms.codec_out
    }

    /// The JSON forms of the messages. `service` is the service of the method.
    pub(super) fn json_forms(&self, service: Option<&ServiceDescriptor>) -> &JsonForms {
        let Forms { codec_in, codec_out, message_in, message_out } = self.forms;
        let of = || {
            JsonForms::of(self.method, (codec_in, message_in), (codec_out, message_out), service)
        };
        self.json_forms.get_or_init(of)
    }

    #[inline]
    pub(super) fn handler(&self) -> &dyn Handler {
        &*self.handler
    }

    #[inline]
    pub(super) fn counters(&self) -> &Arc<CallCounters> {
        &self.counters
    }

    #[inline]
    pub(super) fn label(&self) -> &PollLabel {
        &self.label
    }

    /// Counts one more call if the limit allows it and the core `has_time` for it in this turn.
    /// [`leave`](Self::leave) ends the count.
    #[inline]
    pub(super) fn enter(&self, has_time: bool) -> bool {
        let enters = match &self.limit {
            Limit::None => return has_time,
            Limit::Fixed(limit) => has_time && limit.enter(),
            Limit::Adaptive(limit) => has_time && self.running.get() < limit.borrow().limit(),
        };
        if !enters {
            self.was_reached.set(true);
        }
        self.running.set(self.running.get() + u32::from(enters));
        enters
    }

    /// Feeds the end of a call to the adaptive limit. True when the limit was adjusted, so that clients
    /// may have to be told.
    #[inline]
    pub(super) fn record_end(&self, code: Code, service: Duration, now: Duration) -> bool {
        let Limit::Adaptive(limit) = &self.limit else { return false };
        let (answer, latency) = (Answer::of(code), service);
        // The permit of offloaded work may have been returned already, or be kept for longer.
        let running = self.running.get() - u32::from(!self.is_held());
        let is_pressed = self.was_reached.get();
        let ended = Ended { answer, latency, now, running, is_pressed };
        let ends = limit.borrow_mut().ended(ended);
        if ends {
            let was_reached = self.was_reached.replace(false);
            self.pressed.set(was_reached.then_some(now + limits::PRESSURE_KEPT));
            let least = limit.borrow().latency_min();
            self.queue.borrow_mut().set_service(least);
        }
        ends
    }

    /// Notes that more calls have come than the core can run at once.
    pub(super) fn press(&self) {
        self.was_reached.set(true);
    }

    /// Whether a call's permit belongs to its offloaded work, which may outlive the call.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.method.offload && self.is_limited()
    }

    /// Whether the method has a limit, so that its calls wait for more than the core's time.
    pub(super) fn is_limited(&self) -> bool {
        !matches!(self.limit, Limit::None)
    }

    /// Whether the method has an adaptive limit, which needs the latency of every call.
    #[inline]
    pub(super) fn is_adaptive(&self) -> bool {
        matches!(self.limit, Limit::Adaptive(_))
    }

    /// Returns the permit of a call whose handler has ended, unless its offloaded work holds the permit.
    #[inline]
    pub(super) fn call_ended(&self) {
        if !self.is_held() {
            self.leave();
        }
    }

    /// Returns the permit of one call and wakes the queue's worker.
    #[inline]
    pub(super) fn leave(&self) {
        match &self.limit {
            Limit::None => return,
            Limit::Fixed(limit) => limit.leave(),
            Limit::Adaptive(_) => {}
        }
        self.running.set(self.running.get() - 1);
        self.wake_worker();
    }

    #[inline]
    fn wake_worker(&self) {
        if let Some(worker) = &*self.worker.borrow() {
            worker.wake_by_ref();
        }
    }

    /// The adaptive limit, if there is one and calls have exceeded it recently.
    pub(super) fn pressed_limit(&self, now: Duration) -> Option<u32> {
        match &self.limit {
            Limit::Adaptive(limit) if self.pressed.get().is_some_and(|until| until > now) => {
                Some(limit.borrow().limit())
            }
            _ => None,
        }
    }

    #[inline]
    pub(super) fn has_queue(&self) -> bool {
        self.is_awaited.get()
    }

    /// How many more calls the limit would allow now: as many in the queue wait for the core alone, and take no room.
    fn free(&self) -> usize {
        let free = match &self.limit {
            Limit::None => 0, // its queue has no bound
            Limit::Fixed(limit) => limit.free(),
            Limit::Adaptive(limit) => limit.borrow().limit().saturating_sub(self.running.get()),
        };
        free as usize
    }

    /// Queues a call, and returns the one that has to leave when the queue is full. Keys of requests that
    /// have ended do not count, and are removed when they outnumber the others.
    pub(super) fn push(
        &self,
        waiter: QueuedKey,
        urgency: Urgency,
        now: Duration,
    ) -> Option<QueuedKey> {
        let next = self.queue.borrow().next_deadline();
        if urgency.deadline.is_some_and(|deadline| next.is_none_or(|next| deadline < next)) {
            self.wake_worker(); // its alarm may be set for later
        }
        self.with_queue(|queue| {
            queue.push(waiter, urgency, now);
            let waiting = self.waiting.get();
            if queue.len() > 2 * waiting + limits::STALE_KEYS {
                queue.retain(QueuedKey::is_valid, now);
            }
            loop {
                let gone = queue.len().saturating_sub(waiting);
                let leaves = queue.pop_beyond(gone + self.free(), now)?;
                if leaves.is_valid() {
                    return Some(leaves);
                }
            }
        })
    }

    /// Counts a request that enters the queue, or one that leaves it.
    pub(super) fn count_waiting(&self, waits: bool) {
        let waiting = self.waiting.get();
        self.waiting.set(if waits { waiting + 1 } else { waiting - 1 });
    }

    pub(super) fn pop(&self, now: Duration) -> Option<(Duration, QueuedKey)> {
        self.with_queue(|queue| queue.pop(now))
    }

    pub(super) fn pop_overdue(&self, now: Duration) -> Option<Overdue<QueuedKey>> {
        self.with_queue(|queue| queue.pop_overdue(now))
    }

    pub(super) fn next_overdue(&self, now: Duration) -> Option<Duration> {
        self.queue.borrow().next_overdue(now)
    }

    fn with_queue<R>(&self, f: impl FnOnce(&mut Queue<QueuedKey>) -> R) -> R {
        let mut queue = self.queue.borrow_mut();
        let done = f(&mut queue);
        self.is_awaited.set(!queue.is_empty());
        done
    }

    /// True when the queue has no worker; from then on the caller has to provide one.
    pub(super) fn wants_worker(&self) -> bool {
        !self.has_worker.replace(true)
    }

    /// Registers the worker, which is woken when a call ends on this core or another one.
    pub(super) fn set_worker(&self, waker: &Waker) {
        if let Limit::Fixed(limit) = &self.limit {
            let mut slot = self.limit_slot.get();
            limit.wait(&mut slot, waker);
            self.limit_slot.set(slot);
        }
        self.worker.replace(Some(waker.clone()));
    }

    pub(super) fn dismiss_worker(&self) {
        self.worker.replace(None);
        self.has_worker.set(false);
    }
}

impl Limit {
    pub(super) fn adaptive() -> Self {
        Self::Adaptive(Box::new(RefCell::new(AdaptiveLimit::new(Duration::ZERO))))
    }
}
