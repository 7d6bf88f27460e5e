//! The slowest calls of the last minute and where their time went, collected only while somebody looks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::{sleep, spawn_named, uptime};

use super::call_times::CallTimes;
use crate::call::method::Method;
use crate::call::status::Code;
use crate::limits;

/// The slowest calls of one core.
#[derive(Default)]
pub(super) struct SlowCalls {
    is_watched: Cell<bool>,
    /// The time at which nobody looks any more.
    watched_until: Cell<Duration>,
    calls: RefCell<Vec<SlowCall>>,
    /// Which calls need not be compared with all that are kept; a few methods have nearly all calls.
    ordinary: [Cell<Option<Ordinary>>; ORDINARY_KEPT],
}

const ORDINARY_KEPT: usize = 8;

/// Calls of a method that are too short to be kept.
#[derive(Clone, Copy)]
struct Ordinary {
    method: &'static Method,
    longest: Duration,
    /// When one that is kept becomes too old.
    until: Duration,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowCall {
    pub(super) method: &'static Method,
    pub(super) code: Code,
    /// The time in the queue of its method.
    pub(super) queued: Duration,
    /// The time from its begin to its end.
    pub(super) service: Duration,
    /// How a handler that has waited spent that; the whole of it ran otherwise.
    pub(super) spent: Option<Spent>,
    pub(super) ended_at: Duration,
}

/// How a handler has spent its time, as far as somebody looked.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Spent {
    /// On the core.
    pub(super) running: Duration,
    /// Waiting for the client to take or to send something.
    pub(super) for_client: Duration,
    waits_since: Option<Duration>,
    waits_for_client: bool,
}

/// A poll of a handler under watch.
pub(super) struct PollWatch {
    began: Duration,
}

impl SlowCalls {
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.get()
    }

    /// Collects for some seconds from now on.
    pub(super) fn watch(self: &Rc<Self>) {
        self.watched_until.set(uptime() + limits::CONSOLE_WATCHED_FOR);
        if self.is_watched.replace(true) {
            return;
        }
        let calls = Rc::downgrade(self);
        spawn_named("console", async move {
            loop {
                sleep(limits::CONSOLE_WATCHED_FOR).await;
                if calls.upgrade().is_none_or(|calls| calls.stop_if_unwatched(uptime())) {
                    return;
                }
            }
        });
    }

    fn stop_if_unwatched(&self, now: Duration) -> bool {
        let is_over = self.watched_until.get() <= now;
        if is_over {
            self.is_watched.set(false);
            self.ordinary.iter().for_each(|known| known.set(None));
            *self.calls.borrow_mut() = Vec::new();
        }
        is_over
    }

    #[inline]
    pub(super) fn record(
        &self,
        method: &'static Method,
        times: CallTimes,
        code: Code,
        now: Duration,
        spent: Option<Spent>,
    ) {
        if self.is_watched() {
            let (queued, service) = (times.waited, now.saturating_sub(times.began));
            let call = SlowCall { method, code, queued, service, spent, ended_at: now };
            if !self.is_ordinary(&call) {
                self.keep(call);
            }
        }
    }

    fn is_ordinary(&self, call: &SlowCall) -> bool {
        self.place_of(call.method).get().is_some_and(|known| {
            std::ptr::eq(known.method, call.method)
                && call.total() <= known.longest
                && call.ended_at < known.until
        })
    }

    fn place_of(&self, method: &'static Method) -> &Cell<Option<Ordinary>> {
        let address = std::ptr::from_ref(method).addr();
        &self.ordinary[address / size_of::<Method>() % ORDINARY_KEPT]
    }

    #[cold]
    fn keep(&self, call: SlowCall) {
        let mut calls = self.calls.borrow_mut();
        calls.retain(|kept| kept.ended_at + limits::CONSOLE_SLOW_CALL_AGE > call.ended_at);
        let is_alike = |kept: &SlowCall| std::ptr::eq(kept.method, call.method);
        let alike = calls.iter().filter(|kept| is_alike(kept)).count();
        let is_one_of_many = alike >= limits::CONSOLE_SLOW_CALLS_OF_METHOD;
        if calls.len() < limits::CONSOLE_SLOW_CALLS_MAX && !is_one_of_many {
            return calls.push(call);
        }
        let rivals = calls.iter_mut().filter(|kept| !is_one_of_many || is_alike(kept));
        let Some(shortest) = rivals.min_by_key(|kept| kept.total()) else { return };
        if shortest.total() < call.total() {
            *shortest = call;
            return;
        }
        let longest = shortest.total();
        let eldest = calls.iter().map(|kept| kept.ended_at).min().unwrap_or_default();
        let until = eldest + limits::CONSOLE_SLOW_CALL_AGE;
        self.place_of(call.method).set(Some(Ordinary { method: call.method, longest, until }));
    }

    /// The calls, the slowest first.
    pub(super) fn slowest(&self) -> Vec<SlowCall> {
        let mut calls = self.calls.borrow().clone();
        calls.sort_by_key(|call| std::cmp::Reverse(call.total()));
        calls
    }
}

impl SlowCall {
    pub(super) fn total(&self) -> Duration {
        self.queued + self.service
    }
}

impl PollWatch {
    /// Begins to time a poll, if somebody looks.
    #[inline]
    pub(super) fn begin(
        calls: &SlowCalls,
        look_at_clock: impl FnOnce() -> Duration,
        spent: &mut Option<Spent>,
    ) -> Option<Self> {
        if !calls.is_watched() {
            return None;
        }
        let (began, spent) = (look_at_clock(), spent.get_or_insert_default());
        if let Some(since) = spent.waits_since.take().filter(|_| spent.waits_for_client) {
            spent.for_client += began.saturating_sub(since);
        }
        Some(Self { began })
    }

    /// Ends it, with what the handler waits for now.
    pub(super) fn end(self, now: Duration, spent: &mut Option<Spent>, waits_for_client: bool) {
        let spent = spent.get_or_insert_default();
        spent.running += now.saturating_sub(self.began);
        (spent.waits_since, spent.waits_for_client) = (Some(now), waits_for_client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::method::Kind;

    static METHODS: [Method; 8] = [const { Method::new("a.B/C", Kind::Unary) }; 8];

    fn end(calls: &SlowCalls, method: usize, ended_at_s: u64, service_ms: u64) {
        let now = Duration::from_secs(ended_at_s);
        let began = now - Duration::from_millis(service_ms);
        let times = CallTimes { began, waited: Duration::ZERO };
        calls.record(&METHODS[method], times, Code::Ok, now, None);
    }

    #[test]
    fn the_slowest_of_the_last_minute_are_kept_while_somebody_looks() {
        let calls = SlowCalls::default();
        end(&calls, 0, 100, 50);
        assert!(calls.slowest().is_empty(), "nobody looks");
        calls.is_watched.set(true);
        for service_ms in 1..=10 {
            (0..METHODS.len()).for_each(|method| end(&calls, method, 100, service_ms));
        }
        let slowest = calls.slowest();
        assert_eq!(slowest.len(), limits::CONSOLE_SLOW_CALLS_MAX);
        assert_eq!(slowest[0].service, Duration::from_millis(10));
        let of_first = slowest.iter().filter(|call| std::ptr::eq(call.method, &METHODS[0]));
        let of_first: Vec<_> = of_first.map(|call| call.service.as_millis()).collect();
        assert_eq!(of_first, [10, 9, 8, 7], "a slow method leaves room for others");
        end(&calls, 0, 161, 1);
        assert_eq!(calls.slowest().len(), 1, "the others are more than a minute old");
        calls.watched_until.set(Duration::from_secs(165));
        assert!(!calls.stop_if_unwatched(Duration::from_secs(164)) && calls.is_watched());
        assert!(calls.stop_if_unwatched(Duration::from_secs(165)) && !calls.is_watched());
        assert!(calls.slowest().is_empty(), "the memory is free again");
    }
}
