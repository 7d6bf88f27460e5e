//! Telling an observer what becomes of the servers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bson::RawDocument;
use ringway_runtime::now_exact;

use crate::connection::Greeting;
use crate::error::{Error, Fate, Kind};
use crate::topology::Topology;
use crate::topology_events::{TopologyChange, TopologyEvent};
use crate::uri::HostAddress;

/// What a deployment tells with. It runs code of the user, so nothing may be borrowed while it tells.
pub(super) struct TopologyTelling {
    greeting: Rc<Greeting>,
    topology: u64,
    /// The view that was told last. `None` before the beginning: a deployment begins where its client is not known yet.
    told: RefCell<Option<Topology>>,
    is_closed: Cell<bool>,
}

impl TopologyTelling {
    pub(super) fn new(greeting: &Rc<Greeting>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            greeting: Rc::clone(greeting),
            topology: NEXT.fetch_add(1, Ordering::Relaxed),
            told: RefCell::default(),
            is_closed: Cell::new(false),
        }
    }

    /// Whether anybody hears it.
    pub(super) fn is_heard(&self) -> bool {
        self.greeting.options.topology_observer.is_some() && !self.is_closed.get()
    }

    /// Tells of the beginning, if it was not told, and of what is different from what was told last.
    pub(super) fn follow(&self, topology: &RefCell<Topology>) {
        if !self.is_heard() {
            return;
        }
        self.begin();
        let current = topology.borrow().clone();
        let previous = self.told.replace(Some(current.clone()));
        let previous = previous.expect("it has begun");
        if !previous.is_like(&current) {
            self.tell_difference(&previous, &current);
        }
    }

    /// The same, if the beginning was told: at first it is told by a task.
    pub(super) fn follow_if_begun(&self, topology: &RefCell<Topology>) {
        if self.told.borrow().is_some() {
            self.follow(topology);
        }
    }

    fn begin(&self) {
        if self.told.borrow().is_some() {
            return;
        }
        let (nothing, first) = (Topology::nothing(), self.greeting.options.seeds.before_answers());
        self.told.replace(Some(first.clone()));
        self.say(TopologyChange::Opening);
        self.say(TopologyChange::Changed { previous: &nothing, current: &first });
        for server in first.servers() {
            self.say(TopologyChange::ServerOpening { server: &server.address });
        }
    }

    fn tell_difference(&self, previous: &Topology, current: &Topology) {
        for before in previous.servers() {
            if let Some(now) = current.server(&before.address)
                && !now.is_like(before)
            {
                self.say(TopologyChange::ServerChanged { previous: before, current: now });
            }
        }
        for gone in previous.servers().filter(|it| current.server(&it.address).is_none()) {
            self.say(TopologyChange::ServerClosed { server: &gone.address });
        }
        for new in current.servers().filter(|it| previous.server(&it.address).is_none()) {
            self.say(TopologyChange::ServerOpening { server: &new.address });
            let first = new.before_answers();
            if !new.is_like(&first) {
                self.say(TopologyChange::ServerChanged { previous: &first, current: new });
            }
        }
        self.say(TopologyChange::Changed { previous, current });
    }

    /// Tells of the end, if the beginning was told. Nothing is told afterwards.
    pub(super) fn close(&self) {
        let told = self.told.take();
        if let Some(last) = told.filter(|_| self.is_heard()) {
            for server in last.servers() {
                self.say(TopologyChange::ServerClosed { server: &server.address });
            }
            let nothing = Topology::nothing();
            self.say(TopologyChange::Changed { previous: &last, current: &nothing });
            self.say(TopologyChange::Closed);
        }
        self.is_closed.set(true);
    }

    fn say(&self, change: TopologyChange<'_>) {
        if let Some(observer) = &self.greeting.options.topology_observer
            && !self.is_closed.get()
        {
            observer.tell(&TopologyEvent { topology: self.topology, change });
        }
    }
}

/// A check of a server. Unless its end is told, it was given up.
pub(super) struct Heartbeat<'a> {
    telling: &'a TopologyTelling,
    server: &'a HostAddress,
    is_awaited: bool,
    began: Instant,
    is_over: bool,
}

impl<'a> Heartbeat<'a> {
    pub(super) fn begin(
        telling: &'a TopologyTelling,
        server: &'a HostAddress,
        is_awaited: bool,
    ) -> Self {
        if telling.is_heard() {
            telling.begin();
        }
        telling.say(TopologyChange::HeartbeatStarted { server, is_awaited });
        Self { telling, server, is_awaited, began: now_exact(), is_over: false }
    }

    pub(super) fn ended(mut self, result: Result<&RawDocument, &Error>) {
        self.is_over = true;
        let (server, is_awaited, after) = (self.server, self.is_awaited, self.began.elapsed());
        self.telling.say(match result {
            Ok(reply) => TopologyChange::HeartbeatSucceeded { server, is_awaited, after, reply },
            Err(error) => TopologyChange::HeartbeatFailed { server, is_awaited, after, error },
        });
    }
}

impl Drop for Heartbeat<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let what = "the check was given up: another connection to the server broke, or the server has left";
            let error = &Error::new(Kind::Network, Fate::NotSent, what);
            let (server, is_awaited) = (self.server, self.is_awaited);
            let after = self.began.elapsed();
            self.telling.say(TopologyChange::HeartbeatFailed { server, is_awaited, after, error });
        }
    }
}
