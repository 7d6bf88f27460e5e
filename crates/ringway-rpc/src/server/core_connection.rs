//! The server connection as its core uses it: memory use, leases, drains.

use std::time::Duration;

use ringway_wire::native::{GoAwayCode, Side};

use super::budget::Kept;
use super::connection::ServerConnection;
use super::connections::CoreConnection;
use super::machine::Machine;
use super::shown_connection::ShownConnection;
use crate::limits;

impl<M: Machine> ServerConnection<M> {
    /// Reports the bytes kept here and the refused calls to the core.
    #[inline]
    pub(super) fn update_usage(&self) {
        let machine = self.machine();
        let unserved = machine.unserved();
        let kept = match self.is_closed() {
            true => Kept::default(),
            false => {
                let of_calls = self.calls.borrow().kept_len();
                let unread = machine.kept_len(Side::Unread) + of_calls + self.waiting_len();
                let unsent = machine.kept_len(Side::Unsent);
                Kept { unread, unsent, spare: machine.spare_len(), unbegun: machine.unbegun() }
            }
        };
        drop(machine);
        let before = self.unserved.get();
        if unserved != before {
            self.unserved.set(unserved);
            self.core().share().add_unserved(unserved.since(before));
        }
        if kept == self.kept.get() {
            return;
        }
        let before = self.kept.replace(kept);
        if before.unbegun != kept.unbegun {
            self.core().shared().count_unbegun(before.unbegun, kept.unbegun);
        }
        let budget = self.core().budget();
        let unread = budget.change(before, kept);
        if budget.is_wave_over() {
            self.core().give_memory_back();
        }
        if let Some(unread) = unread {
            self.core().share().set_unread_bytes(unread);
        }
    }

    /// Reports that handlers have read messages, with `unread` bytes left. Small reads are reported in
    /// steps, and when nothing is left.
    #[inline]
    pub(super) fn update_usage_after_read(&self, unread: usize) {
        let told = self.kept.get().unread;
        if told > unread && (unread == 0 || told - unread >= limits::TAKEN_STEP) {
            self.update_usage();
        }
    }
}

impl<M: Machine> CoreConnection for ServerConnection<M> {
    fn set_list_index(&self, list_index: usize) {
        self.list_index.set(list_index);
    }

    fn wake(&self) {
        Self::wake(self);
    }

    fn go_away(&self, drain: Duration) {
        let reason = "the server is shutting down";
        self.machine().go_away(GoAwayCode::NoError, drain, reason);
        Self::wake(self);
    }

    fn go_on_receiving(&self) -> bool {
        self.leave_the_line()
    }

    fn end(&self) {
        self.is_ended.set(true);
        Self::wake(self);
    }

    fn is_busy(&self) -> bool {
        self.machine().in_flight() > 0
    }

    fn renew_lease(&self) {
        Self::renew_lease(self);
    }

    fn update_usage(&self) {
        Self::update_usage(self);
    }

    fn kept(&self, side: Side) -> usize {
        self.kept.get().of(side)
    }

    fn largest_len(&self, side: Side) -> usize {
        let running = self.machine().largest_len(side);
        let queued = || self.calls.borrow().largest_queued().map_or(0, |(len, _)| len);
        if side == Side::Unread { running.max(queued()) } else { running }
    }

    fn end_largest(&self, side: Side) -> bool {
        let largest = self.machine().largest_len(side);
        let has_shed = side == Side::Unread && self.shed_largest(largest);
        let has_ended = has_shed || self.machine().end_largest(side);
        Self::update_usage(self); // the connection's task drops the handler
        has_ended
    }

    fn drop_spare(&self) {
        self.free_spare();
        Self::update_usage(self);
    }

    fn set_over_soft_limit(&self, is_over_soft_limit: bool) {
        self.machine().set_memory_pressure(is_over_soft_limit);
    }

    fn business(&self) -> usize {
        let calls = self.machine().in_flight() + self.calls.borrow().len();
        calls + self.kept(Side::Unread) + self.kept(Side::Unsent)
    }

    fn is_part(&self) -> bool {
        self.is_part()
    }

    fn site_id(&self) -> u64 {
        self.site().id()
    }

    fn name_calls(&self, tell: &mut dyn FnMut(&'static str)) {
        for (_, call, _) in self.calls.borrow().under_way() {
            tell(match call {
                Ok(context) => context.method().name(),
                Err(method_index) => self.core().entry(method_index).method().name(),
            });
        }
    }

    fn describe(&self) -> ShownConnection {
        self.shown()
    }

    #[cfg(test)]
    fn into_any(self: std::rc::Rc<Self>) -> std::rc::Rc<dyn std::any::Any> {
        self
    }
}
