//! What one core's pool of a client learns from how its calls go: counts by method, and how the
//! hosts do.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::config::ClientConfig;
use super::pool_host::PoolHost;
use super::spread::{Answered, HostId, Spread};
use crate::call::method::Method;
use crate::call::status::Code;
use crate::metrics::{CallEnd, Metrics, Sheet, Side};
use crate::policy::HedgeDelay;

/// Shared by the pool and its connections, so that streams are told of where they end.
pub(super) struct Tally {
    metrics: Metrics,
    /// By the methods' numbers, which are dense: as long as the program has methods.
    methods: RefCell<Vec<Option<MethodTally>>>,
    /// From the moment that there is more than one host.
    spread: OnceCell<RefCell<Spread>>,
}

/// One method on one core.
struct MethodTally {
    sheet: Arc<Sheet>,
    /// Once a call of it has asked for hedging.
    hedge_delay: Option<HedgeDelay>,
}

/// How a call ended, as its caller saw it.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    pub(super) code: Code,
    /// Bytes of the reply.
    pub(super) bytes: usize,
    /// From its first poll until it was first sent.
    pub(super) waited: Duration,
    /// From there to its end; `None` if it was never sent.
    pub(super) service: Option<Duration>,
}

impl Tally {
    pub(super) fn new(plan: &ClientConfig) -> Rc<Self> {
        let (methods, spread) = (RefCell::default(), OnceCell::new());
        Rc::new(Self { metrics: plan.metrics.clone(), methods, spread })
    }

    /// A call begins, with so many bytes of request.
    #[inline]
    pub(super) fn call_began(&self, method: &'static Method, bytes: usize) {
        self.with(method, |method| method.sheet.started(bytes));
    }

    /// Such a call is over.
    #[inline]
    pub(super) fn call_ended(&self, method: &'static Method, ended: Ended) {
        self.with(method, |method| {
            let Ended { code, bytes, waited, service } = ended;
            match (service, code) {
                (None, Code::DeadlineExceeded) => method.sheet.expired(),
                (None, Code::ResourceExhausted) => method.sheet.shed(),
                _ => {}
            }
            let service = service.unwrap_or_default();
            method.sheet.ended(CallEnd { code, bytes_out: bytes, queue: waited, service });
            if let Some(delay) = method.hedge_delay.as_mut().filter(|_| code == Code::Ok) {
                delay.observe(service);
            }
        });
    }

    pub(super) fn retried(&self, method: &'static Method) {
        self.with(method, |method| method.sheet.retried());
    }

    pub(super) fn hedged(&self, method: &'static Method) {
        self.with(method, |method| method.sheet.hedged());
    }

    pub(super) fn over_budget(&self, method: &'static Method) {
        self.with(method, |method| method.sheet.over_budget());
    }

    /// How long to wait for the first attempt of a call before a second one is made; `None` until
    /// enough calls were seen since this was first asked.
    pub(super) fn hedge_delay(&self, method: &'static Method) -> Option<Duration> {
        self.with(method, |method| method.hedge_delay.get_or_insert_default().delay())
    }

    #[inline]
    fn with<R>(&self, method: &'static Method, f: impl FnOnce(&mut MethodTally) -> R) -> R {
        let methods = &mut *self.methods.borrow_mut();
        let at = method.number() as usize;
        match methods.get_mut(at) {
            Some(Some(tally)) => f(tally),
            _ => f(self.enter(methods, at, method)),
        }
    }

    #[cold]
    fn enter<'a>(
        &self,
        methods: &'a mut Vec<Option<MethodTally>>,
        at: usize,
        method: &'static Method,
    ) -> &'a mut MethodTally {
        if methods.len() <= at {
            methods.resize_with(at + 1, || None);
        }
        let sheet = self.metrics.sheet(Side::Client, method.name());
        methods[at].insert(MethodTally { sheet, hedge_delay: None })
    }
}

/// The hosts, by their ids; nothing is to be learned where there has never been but one.
impl Tally {
    /// These are the hosts from now on, with their weights.
    pub(super) fn set_hosts<'a>(
        &self,
        plan: &ClientConfig,
        hosts: impl ExactSizeIterator<Item = (&'a PoolHost, u32)>,
        now: Duration,
    ) {
        if self.learns_of_hosts() || hosts.len() > 1 {
            let spread = || RefCell::new(Spread::new(plan.policy, fastrand::u64(..)));
            self.spread.get_or_init(spread).borrow_mut().set_hosts(hosts, now);
        }
    }

    #[inline]
    pub(super) fn spread(&self) -> Option<&RefCell<Spread>> {
        self.spread.get()
    }

    /// Whether it matters how a host does.
    #[inline]
    pub(super) fn learns_of_hosts(&self) -> bool {
        self.spread.get().is_some()
    }

    /// A call was sent to the host; it is to be told of once more.
    #[inline]
    pub(super) fn host_called(&self, host: HostId, now: Duration, is_stream: bool) {
        if let Some(spread) = self.spread.get() {
            spread.borrow_mut().began(host, now, is_stream);
        }
    }

    /// Such a call was given up by its caller; until `unanswered` without an answer, if it is known that
    /// there was none.
    pub(super) fn host_left(&self, host: HostId, begun: Duration, unanswered: Option<Duration>) {
        if let Some(spread) = self.spread.get() {
            spread.borrow_mut().given_up(host, begun, unanswered);
        }
    }

    /// Such a call has ended.
    #[inline]
    pub(super) fn host_answered(&self, host: HostId, answered: Answered<'_>) {
        if let Some(spread) = self.spread.get() {
            spread.borrow_mut().ended(host, answered);
        }
    }

    /// Connecting to the host has failed.
    pub(super) fn host_unreachable(&self, host: HostId, now: Duration) {
        if let Some(spread) = self.spread.get() {
            spread.borrow_mut().unreachable(host, now);
        }
    }
}
