//! How connections line up to take in requests, and how a core lets them go on.

use std::rc::{Rc, Weak};

use ringway_runtime::{spawn_named, yield_now};

use super::ShareState;
use crate::limits;
use crate::server::connection::ServerConnection;
use crate::server::core::ServerCore;
use crate::server::machine::Machine;

impl<M: Machine> ServerConnection<M> {
    #[inline]
    pub(in crate::server) fn begin_intake(&self) {
        self.intake.begin();
    }

    #[inline]
    pub(in crate::server) fn note_intake(&self, bytes: usize) {
        self.core().intake().note(self.core().now(), bytes);
        self.intake.note(bytes);
    }

    /// Notes work that costs as much as so many received bytes.
    #[cold]
    pub(in crate::server) fn note_work(&self, bytes: usize) {
        self.note_intake(bytes);
        self.intake.work.set(self.intake.work.get().saturating_add(bytes as u32));
    }

    /// Ends a poll of the connection's task: the next of the line may go.
    #[inline]
    pub(in crate::server) fn end_intake(&self) {
        if self.intake.state.get() == ShareState::Goes {
            self.intake.state.set(ShareState::Free);
            self.core().let_next_go();
        }
    }

    /// Whether the connection has to wait for its turn to take in more.
    #[inline]
    pub(in crate::server) fn waits_to_receive(&self) -> bool {
        self.core().intake().may_be_used_up() && self.lines_up()
    }

    /// Whether the connection waits in the line.
    #[inline]
    pub(in crate::server) fn is_in_line(&self) -> bool {
        self.intake.state.get() == ShareState::Waits
    }

    #[cold]
    fn lines_up(&self) -> bool {
        let (share, core) = (&self.intake, self.core());
        match share.state.get() {
            ShareState::Waits => return true,
            ShareState::Goes if (share.taken.get() as usize) < limits::INTAKE_BYTES_PER_TURN => {
                return false;
            }
            ShareState::Goes | ShareState::Free => {}
        }
        let (intake, now) = (core.intake(), core.now());
        let goes_on = match share.is_small() {
            true => !intake.is_full(now),
            false => !intake.is_used_up(now),
        };
        if goes_on {
            return false;
        }
        let Some(own) = core.connections().weak(self.list_index.get()) else { return false };
        share.state.set(ShareState::Waits);
        core.intake().line_up(own);
        core.pace_intake();
        true
    }

    /// Lets the connection go on, if it waits for that.
    pub(in crate::server) fn leave_the_line(&self) -> bool {
        let waits = self.intake.state.get() == ShareState::Waits && !self.is_closed();
        if waits {
            self.intake.state.set(ShareState::Goes);
            self.wake();
        }
        waits
    }
}

impl ServerCore {
    /// Lets the next connection of the line go on if this turn has room.
    #[cold]
    fn let_next_go(&self) {
        if self.intake().has_room(self.now()) && !self.is_behind() {
            self.intake().let_one_go();
        }
    }

    /// Whether many calls wait for nothing but the core's time.
    fn is_behind(&self) -> bool {
        self.calls_behind() >= limits::CALLS_BEHIND_MAX
    }

    /// Starts the task that lets a connection go on in each turn, unless it runs. Each that has gone on lets the
    /// next one go in the same turn.
    fn pace_intake(self: &Rc<Self>) {
        if !self.intake().has_pacer.replace(true) {
            spawn_named("pace of requests", pace(Rc::downgrade(self)));
        }
    }
}

async fn pace(core: Weak<ServerCore>) {
    loop {
        yield_now().await;
        let Some(core) = core.upgrade() else { return };
        if !core.is_behind() && !core.intake().let_one_go() {
            core.intake().has_pacer.set(false);
            return;
        }
    }
}
