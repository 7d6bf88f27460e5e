//! The servers of a client on one core: what is known of them, and a pool of connections to each.
//!
//! ```text
//!   monitors ──hello──► Topology ◄──failures── operations
//!                          │ servers come and go, pools begin anew
//!                          ▼
//!   operations ──select──► Pool of a server that suits, or wait until there is one
//! ```
//!
//! A server that is used as it is (`directConnection`) has no monitor: whether it is there is seen when it is used. Nor
//! has a load balancer.

mod balancing;
mod members;
mod monitor;
mod pins;
mod selecting;
#[cfg(test)]
mod spec_tests;
mod srv_polling;
#[cfg(all(test, feature = "dns"))]
mod srv_polling_tests;
mod telling;
mod view;
mod wanted;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use ringway_runtime::sync::Notify;
use ringway_runtime::{now_exact, spawn_detached};

use self::monitor::Monitor;
use self::pins::Pins;
pub(crate) use self::pins::{Keep, Pin};
use self::telling::TopologyTelling;
pub(crate) use self::view::DeploymentView;
pub(crate) use self::wanted::Wanted;
use crate::connection::Greeting;
use crate::error::{Error, Result};
use crate::limits::{CHECK_PERIOD_MIN, DESCRIBED_MAX};
use crate::pool::{Lease, Pool, ServerId, failure_of, is_of_server};
use crate::reads::Reads;
use crate::topology::{
    OperationFailure, ServerDescription, ServerType, StateChange, Topology, TopologyType,
};
use crate::uri::HostAddress;

/// The servers of a client on one core.
pub(crate) struct Deployment {
    greeting: Rc<Greeting>,
    topology: RefCell<Topology>,
    members: RefCell<Vec<Member>>,
    next_id: Cell<u64>,
    pins: Pins,
    /// The only server that takes writes, so that nothing has to be chosen.
    writable: RefCell<Option<Rc<Pool>>>,
    /// Which of several servers that suit is looked at first.
    turn: Cell<usize>,
    /// Notified when something is known of a server that was not before.
    changed: Notify,
    telling: Rc<TopologyTelling>,
    /// What other threads see of it.
    view: Arc<DeploymentView>,
    _srv_polling: Option<srv_polling::SrvPolling>,
    origin: Instant,
    this: Weak<Self>,
}

struct Member {
    pool: Rc<Pool>,
    monitor: Option<Monitor>,
}

impl Deployment {
    /// Begins to ask the servers of the connection string how they are.
    pub(crate) fn start(greeting: Greeting) -> Rc<Self> {
        let options = &greeting.options;
        let topology = options.seeds.clone();
        // Cores, and processes, begin with different servers.
        let turn = usize::from(bson::Uuid::new().bytes()[0]);
        let greeting = Rc::new(greeting);
        let deployment = Rc::new_cyclic(|this| Self {
            telling: Rc::new(TopologyTelling::new(&greeting)),
            _srv_polling: poll_srv(&greeting, this),
            greeting,
            topology: RefCell::new(topology),
            members: RefCell::default(),
            next_id: Cell::new(pins::first_id()),
            pins: Pins::default(),
            writable: RefCell::default(),
            turn: Cell::new(turn),
            changed: Notify::new(),
            view: Arc::default(),
            origin: now_exact(),
            this: Weak::clone(this),
        });
        if deployment.telling.is_heard() {
            let this = Rc::downgrade(&deployment);
            spawn_detached("mongo topology", async move {
                if let Some(deployment) = this.upgrade() {
                    deployment.telling.follow(&deployment.topology);
                }
            });
        }
        deployment.follow();
        deployment
    }

    /// A connection to a server that suits, and to none of `avoided` if there is another one. Who waits for one is
    /// sent to another server when this one fails.
    pub(crate) async fn lease(&self, wanted: Wanted<'_>, avoided: &[HostAddress]) -> Result<Lease> {
        if self.is_balanced() {
            return self.lease_behind_balancer(wanted).await;
        }
        let at_hand = match wanted {
            Wanted::At(_) | Wanted::Of(_) => None,
            _ if !avoided.is_empty() && !self.is_direct() => None,
            Wanted::Read(reads) if self.has_other_readers(reads) => None,
            _ => self.writable.borrow().clone(),
        };
        match at_hand {
            Some(pool) if self.is_direct() => pool.lease().await,
            Some(pool) => self.lease_of(pool, wanted, avoided).await,
            None => {
                let pool = Box::pin(self.select(wanted, avoided, None)).await?;
                self.lease_of(pool, wanted, avoided).await
            }
        }
    }

    /// Takes the error of an operation, which may say that its server is gone, or is not what it was.
    pub(crate) fn failed(&self, lease: &Lease, error: &Error) {
        let (pool, generation) = (lease.pool(), lease.generation());
        if self.is_balanced() {
            let is_shutdown = error.state_change().is_some_and(StateChange::is_shutdown);
            if is_shutdown || error.breaks_connection() {
                lease.service().into_iter().for_each(|service| pool.clear_service(service));
            }
            return;
        }
        if self.is_direct() {
            if error.breaks_connection() && generation == pool.generation() {
                pool.clear(generation + 1);
            }
            return;
        }
        match error.state_change() {
            Some(change) => self.state_changed(lease, change),
            None if error.breaks_connection() => {
                self.note(pool, generation, true, &OperationFailure::Network);
            }
            None => {}
        }
    }

    /// Takes that a connection could not be made. One that the server has ended, or left alone, before it answered says
    /// nothing of those that there are: it may have too much to do for more. If the server has ended those too, it is as if
    /// an operation had been told so by one of them, which then was only not used.
    ///
    /// Specification: Server Discovery and Monitoring, "Error handling pseudocode".
    fn connection_failed(&self, pool: &Pool, generation: u64, error: &Error) {
        match self.is_fixed() {
            false if error.is_overload() && pool.is_forsaken() => {
                self.note(pool, generation, true, &OperationFailure::Network);
            }
            _ if error.is_overload() => {}
            // Behind a load balancer, the pool has cleared the service.
            true if self.is_balanced() => {}
            true if generation == pool.generation() && is_of_server(error) => {
                pool.clear(generation + 1);
            }
            true => {}
            false => self.not_usable(pool, generation, error),
        }
    }

    /// Takes that a server cannot be used, for a reason that concerns all connections to it.
    fn not_usable(&self, pool: &Pool, generation: u64, error: &Error) {
        let Some(failure) = failure_of(error) else { return };
        if failure == OperationFailure::Authentication && generation == pool.generation() {
            pool.refuse(generation + 1, error);
        }
        self.note(pool, generation, false, &failure);
    }

    /// Takes that a server is not what it was, as it has said in a reply.
    pub(crate) fn state_changed(&self, lease: &Lease, change: &StateChange) {
        if self.is_balanced() {
            let service = lease.service().filter(|_| change.is_shutdown());
            service.into_iter().for_each(|service| lease.pool().clear_service(service));
        } else if !self.is_direct() {
            let failure = OperationFailure::StateChange(change.clone());
            self.note(lease.pool(), lease.generation(), true, &failure);
        }
    }

    /// `$readPreference` of reads at a server; `None` if the server does not have to know.
    ///
    /// Specification: Server Selection, "Passing Read Preference". A secondary that is used as it is answers only
    /// reads that allow it.
    pub(crate) fn read_preference<'a>(
        &'a self,
        reads: Option<&'a Reads>,
        is_in_set: bool,
    ) -> Option<&'a RawDocumentBuf> {
        self.reads(reads).field.as_ref().or_else(|| self.least_preference(is_in_set))
    }

    fn reads<'a>(&'a self, reads: Option<&'a Reads>) -> &'a Reads {
        reads.unwrap_or(&self.greeting.options.reads)
    }

    /// `$readPreference` of a command that the client's preference is not for, and of which it is unknown whether it
    /// reads.
    pub(crate) fn least_preference(&self, is_in_set: bool) -> Option<&RawDocumentBuf> {
        static DIRECT: std::sync::LazyLock<RawDocumentBuf> =
            std::sync::LazyLock::new(|| bson::rawdoc! { "mode": "primaryPreferred" });
        (self.is_direct() && is_in_set).then_some(&*DIRECT)
    }

    /// What other threads may look at.
    pub(crate) fn view(&self) -> &Arc<DeploymentView> {
        &self.view
    }

    /// The same, for people.
    pub(crate) fn describe(&self) -> String {
        if self.is_balanced() {
            return self.describe_use();
        }
        let topology = self.topology.borrow();
        let describe = |server: &ServerDescription| {
            let what = match (&server.error, server.kind) {
                (Some(error), _) => error.clone(),
                (None, ServerType::Unknown) => "has not answered yet".to_owned(),
                (None, kind) => format!("{kind:?}"),
            };
            match self.why_no_other(&server.address) {
                Some(why) => {
                    format!("{}: {what}; takes no other connection: {why}", server.address)
                }
                None => format!("{}: {what}", server.address),
            }
        };
        let gone = topology.gone().map(|(address, why)| format!("{address} was left out: {why}"));
        let count = topology.servers().count() + topology.gone().count();
        let all = topology.servers().map(describe).chain(gone);
        let mut described: Vec<_> = all.take(DESCRIBED_MAX).collect();
        let others = count - described.len();
        if others > 0 {
            described.push(format!("{others} more"));
        }
        match described.is_empty() {
            true => "no server is known".to_owned(),
            false => described.join("; "),
        }
    }

    fn why_no_other(&self, address: &HostAddress) -> Option<String> {
        let members = self.members.borrow();
        members.iter().find(|member| member.pool.address() == address)?.pool.why_no_other()
    }

    /// Has other threads see what is known now.
    fn show(&self) {
        let (topology, members) = (self.topology.borrow(), self.members.borrow());
        let shown = members.iter().filter_map(|Member { pool, .. }| {
            let server = topology.server(pool.address())?.clone();
            Some((server, Arc::clone(pool.figures())))
        });
        self.view.show(shown.collect());
    }

    /// The least time of a round trip to a server that its monitor has seen lately; zero before, and for servers without
    /// one.
    pub(crate) fn least_round_trip(&self, pool: &Pool) -> Duration {
        let topology = self.topology.borrow();
        topology.server(pool.address()).map_or(Duration::ZERO, |server| server.round_trip_min)
    }

    /// Whether an operation waits until a server suits, instead of failing with the one that there is.
    pub(crate) fn waits_for_servers(&self) -> bool {
        !self.is_fixed()
    }

    /// Whether the one server stays what it is, and is not asked.
    fn is_fixed(&self) -> bool {
        self.is_direct() || self.is_balanced()
    }

    /// Whether the one server is a load balancer.
    pub(crate) fn is_balanced(&self) -> bool {
        self.greeting.options.is_balanced
    }

    /// Whether the servers are routers of a sharded cluster.
    pub(crate) fn is_sharded(&self) -> bool {
        self.topology.borrow().kind() == TopologyType::Sharded
    }

    fn is_direct(&self) -> bool {
        self.greeting.options.is_direct
    }

    fn has_other_readers(&self, reads: Option<&Reads>) -> bool {
        self.reads(reads).field.is_some() && !self.is_direct()
    }

    /// Takes a failure at a server, unless it has left since: then another pool may have its address.
    fn note(&self, pool: &Pool, generation: u64, is_ready: bool, failure: &OperationFailure) {
        let is_member = self.members.borrow().iter().any(|member| member.pool.id() == pool.id());
        if is_member {
            let address = pool.address();
            let known = self.topology.borrow().generation(address);
            self.topology.borrow_mut().fail_operation(address, generation, is_ready, failure);
            let is_news = self.topology.borrow().generation(address) != known;
            if is_news && !matches!(failure, OperationFailure::StateChange(_)) {
                self.distrust_monitor(pool.id());
            }
            self.follow();
        }
    }

    /// Has the monitor of a server make a connection anew: the one that it has may have broken too, unheard.
    fn distrust_monitor(&self, id: ServerId) {
        let members = self.members.borrow();
        let member = members.iter().find(|member| member.pool.id() == id);
        member.and_then(|member| member.monitor.as_ref()).into_iter().for_each(Monitor::cancel);
    }

    /// Takes what a monitor has learned.
    fn learned(&self, description: ServerDescription) {
        self.topology.borrow_mut().update(description);
        self.follow();
    }

    /// Takes that a monitor could not ask.
    fn unanswered(&self, address: &HostAddress, error: &Error) {
        self.topology.borrow_mut().fail_check(address, error.to_string());
        self.follow();
    }

    /// Asks all servers how they are, without waiting for their next turn.
    fn ask(&self) {
        self.restart_monitors();
        for member in &*self.members.borrow() {
            member.monitor.iter().for_each(Monitor::hurry);
        }
    }

    /// A monitor ends with its server only, unless something in it panicked, such as a subscriber of the log.
    fn restart_monitors(&self) {
        let mut ended = Vec::new();
        for member in &mut *self.members.borrow_mut() {
            if member.monitor.as_ref().is_some_and(Monitor::has_ended) {
                let anew = self.watch(member.pool.address(), CHECK_PERIOD_MIN);
                ended.push(member.monitor.replace(anew));
            }
        }
        // They hold what was thrown, whose destructor may be anybody's.
        ringway_runtime::drop_each("a monitor", ended);
    }

    fn watch(&self, address: &HostAddress, pause: Duration) -> Monitor {
        let this = Weak::clone(&self.this);
        Monitor::start(address.clone(), (&self.greeting, &self.telling), this, pause)
    }

    /// Makes pools and monitors what the topology says.
    fn follow(&self) {
        let gone = self.remove_members();
        self.add_members();
        self.show();
        let failed = self.failed_pools();
        let writable = self.only_writable();
        self.writable.replace(writable);
        // Who waits is woken when nothing is borrowed.
        for (pool, generation) in failed {
            pool.clear(generation);
            pool.leave();
        }
        gone.iter().for_each(|member| member.pool.close());
        self.known_pools().iter().for_each(|pool| pool.keep_filled());
        self.changed.notify_waiters();
        // Checks that end with their server are told before its end is.
        drop(gone);
        self.telling.follow_if_begun(&self.topology);
    }
}

/// Has the servers looked up again, if DNS has told them.
fn poll_srv(greeting: &Greeting, this: &Weak<Deployment>) -> Option<srv_polling::SrvPolling> {
    let options = &greeting.options;
    let (asked, told) = (Weak::clone(this), Weak::clone(this));
    let is_followed = move || asked.upgrade().is_some_and(|it| it.topology.borrow().follows_dns());
    let found = move |hosts: &[HostAddress], servers_max| {
        if let Some(deployment) = told.upgrade() {
            deployment.topology.borrow_mut().rescan(hosts, servers_max);
            deployment.follow();
        }
    };
    let start = |source| {
        srv_polling::SrvPolling::start(source, options.seeds.heartbeat, is_followed, found)
    };
    options.srv.clone().map(start)
}

impl Drop for Deployment {
    /// Who has a pool still, such as a cursor, gets no connection of it any more.
    fn drop(&mut self) {
        self.pins.clear();
        self.members.take().iter().for_each(|member| member.pool.close());
        self.telling.close();
    }
}
