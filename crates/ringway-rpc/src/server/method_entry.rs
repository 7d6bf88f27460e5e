//! A method on one core: its handler, its limit, the calls that wait for it.

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
use crate::metrics::Sheet;
use crate::policy::{AdaptiveLimit, Answer, Ended};
use crate::service::{Handler, Registered, ServiceDescriptor};

/// One of these a method and core.
pub(crate) struct MethodEntry {
    method: &'static Method,
    forms: Forms,
    /// Worked out when the first call in JSON comes over HTTP.
    json_forms: OnceCell<JsonForms>,
    handler: Box<dyn Handler>,
    limit: Limit,
    /// Calls of this core that count against the limit.
    running: Cell<u32>,
    /// Whether more calls were made than may run, since the limit was last looked at, and until
    /// when that is to be remembered.
    was_reached: Cell<bool>,
    pressed: Cell<Option<Duration>>,
    queue: RefCell<Queue<QueuedKey>>,
    /// Requests in the queue.
    waiting: Cell<usize>,
    /// Whether anybody waits in it.
    is_awaited: Cell<bool>,
    /// The task that looks after the queue, and whether there is one.
    worker: RefCell<Option<Waker>>,
    kept: Cell<bool>,
    /// Where that task waits for calls of other cores to end.
    place_at_gate: Cell<Option<usize>>,
    sheet: Arc<Sheet>,
    /// Under which the stall watchdog knows its handlers.
    label: PollLabel,
}

/// How the messages of a method travel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forms {
    pub(super) codec_in: u8,
    pub(super) codec_out: u8,
    /// The well-known message that a request is, or nothing.
    pub(super) message_in: &'static str,
    /// The same of a reply.
    pub(super) message_out: &'static str,
}

/// How many calls may run at once.
pub(super) enum Limit {
    None,
    /// A fixed number on all cores together.
    Fixed(Arc<ConcurrencyLimit>),
    /// What this core was seen to do well.
    Adaptive(Box<RefCell<AdaptiveLimit>>),
}

impl MethodEntry {
    pub(super) fn new(
        registered: Registered,
        limit: Limit,
        queue_room: usize,
        sheet: Arc<Sheet>,
    ) -> Self {
        let Registered { method, handler, codec_in, codec_out, message_in, message_out } =
            registered;
        // Without a limit calls wait only for those before them, and none is shed for that.
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
            kept: Cell::new(false),
            place_at_gate: Cell::new(None),
            sheet,
            label: PollLabel::new(method.name()),
        }
    }

    #[inline]
    pub(super) fn method(&self) -> &'static Method {
        self.method
    }

    /// How its messages have to be written.
    #[inline]
    pub(super) fn codec_in(&self) -> u8 {
        self.forms.codec_in
    }

    /// How its replies are written.
    pub(super) fn codec_out(&self) -> u8 {
        self.forms.codec_out
    }

    /// How its messages are read and written as JSON. `service` is its service.
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
    pub(super) fn sheet(&self) -> &Arc<Sheet> {
        &self.sheet
    }

    #[inline]
    pub(super) fn label(&self) -> &PollLabel {
        &self.label
    }

    /// Counts one more call, if it may run and the core `has_time` for it in this turn. Give it back
    /// with [`leave`](Self::leave).
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

    /// A call has ended so, after so long. Whether the clients may have to be told of another limit.
    #[inline]
    pub(super) fn learn(&self, code: Code, service: Duration, now: Duration) -> bool {
        let Limit::Adaptive(limit) = &self.limit else { return false };
        let (answer, latency) = (Answer::of(code), service);
        // A place that belongs to its work may have been given back already, or be kept for longer.
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

    /// More calls have come than the core can carry out at once.
    pub(super) fn press(&self) {
        self.was_reached.set(true);
    }

    /// Whether a call's place belongs to its work, which may go on when the call is over.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.method.offload && !matches!(self.limit, Limit::None)
    }

    /// Whether it has to learn of each call by itself.
    #[inline]
    pub(super) fn is_adaptive(&self) -> bool {
        matches!(self.limit, Limit::Adaptive(_))
    }

    /// A call has ended that had come to its handler: its place is free, unless that is its work's.
    #[inline]
    pub(super) fn call_ended(&self) {
        if !self.is_held() {
            self.leave();
        }
    }

    /// A place is free.
    #[inline]
    pub(super) fn leave(&self) {
        match &self.limit {
            Limit::None => return,
            Limit::Fixed(limit) => limit.leave(),
            Limit::Adaptive(_) => {}
        }
        self.running.set(self.running.get() - 1);
        if let Some(worker) = &*self.worker.borrow() {
            worker.wake_by_ref();
        }
    }

    /// Calls that may run at once here, where the core finds that out and more were made of late.
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

    /// Puts a call into the queue; the answer is the one that has to leave it. Tickets of requests that
    /// have ended take up no room, and are forgotten when they are more than the others.
    pub(super) fn push(
        &self,
        waiter: QueuedKey,
        urgency: Urgency,
        now: Duration,
    ) -> Option<QueuedKey> {
        self.with_queue(|queue| {
            queue.push(waiter, urgency, now);
            let waiting = self.waiting.get();
            if queue.len() > 2 * waiting + limits::STALE_TICKETS {
                queue.retain(QueuedKey::is_good, now);
            }
            loop {
                let gone = queue.len().saturating_sub(waiting);
                let leaves = queue.pop_beyond(gone, now)?;
                if leaves.is_good() {
                    return Some(leaves);
                }
            }
        })
    }

    /// A request enters the queue or leaves it.
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

    /// Whether the queue has had no task to look after it; from now on it has.
    pub(super) fn wants_worker(&self) -> bool {
        !self.kept.replace(true)
    }

    /// The task that looks after the queue is to be woken when a call ends, here or elsewhere.
    pub(super) fn set_worker(&self, waker: &Waker) {
        if let Limit::Fixed(limit) = &self.limit {
            let mut place = self.place_at_gate.get();
            limit.wait(&mut place, waker);
            self.place_at_gate.set(place);
        }
        self.worker.replace(Some(waker.clone()));
    }

    pub(super) fn dismiss_worker(&self) {
        self.worker.replace(None);
        self.kept.set(false);
    }
}

impl Limit {
    pub(super) fn adaptive() -> Self {
        Self::Adaptive(Box::new(RefCell::new(AdaptiveLimit::new(Duration::ZERO))))
    }
}
