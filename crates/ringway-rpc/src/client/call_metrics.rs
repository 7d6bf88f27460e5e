//! Metrics of one core's calls by method, and the delay of hedges.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::call::method::Method;
use crate::call::status::Code;
use crate::metrics::{CallCounters, CallEnd, Metrics, Side};
use crate::policy::HedgeDelay;

pub(super) struct CallMetrics {
    metrics: Metrics,
    /// The methods' metrics, by number. Numbers are dense, so this is as long as the program has methods.
    methods: RefCell<Vec<Option<MethodMetrics>>>,
}

/// The metrics of one method on one core.
struct MethodMetrics {
    counters: Arc<CallCounters>,
    /// The delay of hedges, once a call of the method was hedged.
    hedge_delay: Option<HedgeDelay>,
}

/// The outcome of a call, as its caller saw it.
#[derive(Clone, Copy)]
pub(super) struct FinishedCall {
    pub(super) code: Code,
    /// Bytes of the reply.
    pub(super) bytes: usize,
    /// The time from the first poll until the call was first sent.
    pub(super) waited: Duration,
    /// The time from then to the end; `None` if the call was never sent.
    pub(super) service: Option<Duration>,
}

/// The timer of a unary call that was counted as begun, until it is counted as ended.
#[derive(Clone, Copy)]
pub(super) struct CallTimer {
    begun: Duration,
    /// The time at which the call was first sent.
    sent: Option<Duration>,
}

impl CallMetrics {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, methods: RefCell::default() }
    }

    /// Counts a call that begins, and the bytes of its request.
    #[inline]
    pub(super) fn call_began(&self, method: &'static Method, bytes: usize) {
        self.with(method, |method| method.counters.started(bytes));
    }

    /// Counts a call that has ended.
    #[inline]
    pub(super) fn call_ended(&self, method: &'static Method, call: FinishedCall) {
        self.with(method, |method| {
            let FinishedCall { code, bytes, waited, service } = call;
            match (service, code) {
                (None, Code::DeadlineExceeded) => method.counters.expired(),
                (None, Code::ResourceExhausted) => method.counters.shed(),
                _ => {}
            }
            let service = service.unwrap_or_default();
            method.counters.ended(CallEnd { code, bytes_out: bytes, queue: waited, service });
            if let Some(delay) = method.hedge_delay.as_mut().filter(|_| code == Code::Ok) {
                delay.observe(service);
            }
        });
    }

    pub(super) fn retried(&self, method: &'static Method) {
        self.with(method, |method| method.counters.retried());
    }

    pub(super) fn hedged(&self, method: &'static Method) {
        self.with(method, |method| method.counters.hedged());
    }

    pub(super) fn over_budget(&self, method: &'static Method) {
        self.with(method, |method| method.counters.over_budget());
    }

    /// The time to wait for the first attempt before a hedge is made; `None` until enough calls were
    /// measured since this was first asked.
    pub(super) fn hedge_delay(&self, method: &'static Method) -> Option<Duration> {
        self.with(method, |method| method.hedge_delay.get_or_insert_default().delay())
    }

    #[inline]
    fn with<R>(&self, method: &'static Method, f: impl FnOnce(&mut MethodMetrics) -> R) -> R {
        let methods = &mut *self.methods.borrow_mut();
        let at = method.number() as usize;
        match methods.get_mut(at) {
            Some(Some(metrics)) => f(metrics),
            _ => f(self.enter(methods, at, method)),
        }
    }

    #[cold]
    fn enter<'a>(
        &self,
        methods: &'a mut Vec<Option<MethodMetrics>>,
        at: usize,
        method: &'static Method,
    ) -> &'a mut MethodMetrics {
        if methods.len() <= at {
            methods.resize_with(at + 1, || None);
        }
        let counters = self.metrics.counters(Side::Client, method.name());
        methods[at].insert(MethodMetrics { counters, hedge_delay: None })
    }
}

impl CallTimer {
    #[inline]
    pub(super) fn begin(now: Duration) -> Self {
        Self { begun: now, sent: None }
    }

    /// Records that the call was sent, unless it was sent before.
    #[inline]
    pub(super) fn sent(&mut self, now: Duration) {
        self.sent.get_or_insert(now);
    }

    /// Counts the call as ended, with the bytes of its reply.
    #[inline]
    pub(super) fn end(
        self,
        metrics: &CallMetrics,
        method: &'static Method,
        code: Code,
        bytes: usize,
        now: Duration,
    ) {
        let waited = match self.sent {
            Some(sent) if sent == self.begun => Duration::ZERO,
            sent => sent.unwrap_or(now).saturating_sub(self.begun),
        };
        let service = self.sent.map(|sent| now.saturating_sub(sent));
        metrics.call_ended(method, FinishedCall { code, bytes, waited, service });
    }
}
