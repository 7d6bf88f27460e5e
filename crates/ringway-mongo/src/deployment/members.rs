//! The servers that belong to a deployment, by what its topology says.

use std::rc::{Rc, Weak};
use std::time::Duration;

use super::{Deployment, Member};
use crate::pool::Pool;
use crate::topology::{Selection, TopologyType};

impl Deployment {
    pub(super) fn remove_members(&self) -> Vec<Member> {
        let topology = self.topology.borrow();
        let is_gone = |member: &mut Member| topology.server(member.pool.address()).is_none();
        self.members.borrow_mut().extract_if(.., is_gone).collect()
    }

    pub(super) fn add_members(&self) {
        let topology = self.topology.borrow();
        let mut members = self.members.borrow_mut();
        for server in topology.servers() {
            let address = &server.address;
            if members.iter().any(|member| member.pool.address() == address) {
                continue;
            }
            let id = self.new_id();
            let this = Weak::clone(&self.this);
            let pool =
                Pool::start(id, address.clone(), &self.greeting, move |pool, generation, error| {
                    if let Some(deployment) = this.upgrade() {
                        deployment.connection_failed(pool, generation, error);
                    }
                });
            let is_watched = !self.is_fixed();
            members.push(Member {
                pool,
                monitor: is_watched.then(|| self.watch(address, Duration::ZERO)),
            });
        }
    }

    /// The pools whose connections may have broken together, and their next generation.
    pub(super) fn failed_pools(&self) -> Vec<(Rc<Pool>, u64)> {
        let topology = self.topology.borrow();
        let members = self.members.borrow();
        let failed = members.iter().filter_map(|Member { pool, .. }| {
            let generation = topology.generation(pool.address()).unwrap_or(0);
            let has_failed = generation > pool.generation() && !self.is_fixed();
            has_failed.then(|| (Rc::clone(pool), generation))
        });
        failed.collect()
    }

    /// The pools whose servers are there, or are not asked.
    pub(super) fn known_pools(&self) -> Vec<Rc<Pool>> {
        let topology = self.topology.borrow();
        let is_known = |pool: &&Rc<Pool>| {
            let server = topology.server(pool.address());
            self.is_fixed() || server.is_some_and(|server| server.kind.holds_data())
        };
        self.members.borrow().iter().map(|member| &member.pool).filter(is_known).cloned().collect()
    }

    pub(super) fn only_writable(&self) -> Option<Rc<Pool>> {
        let members = self.members.borrow();
        if self.is_fixed() {
            return members.first().map(|member| Rc::clone(&member.pool));
        }
        let topology = self.topology.borrow();
        let is_one = matches!(
            topology.kind(),
            TopologyType::Single | TopologyType::ReplicaSetWithPrimary | TopologyType::Sharded
        );
        let suitable = topology.suitable(Selection::Write).ok().filter(|_| is_one)?;
        let [only] = suitable[..] else { return None };
        let member = members.iter().find(|member| *member.pool.address() == only.address)?;
        Some(Rc::clone(&member.pool))
    }
}
