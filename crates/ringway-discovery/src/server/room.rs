//! Noting that the log is in trouble, and that its disk has room again.

use std::io;

use ringway_rpc::Status;
use ringway_runtime as runtime;

use super::durable::LogState;
use super::listeners::wake;
use super::trouble::Trouble;
use super::{Registry, State, failure};
use crate::limits;

impl State {
    fn log_trouble(&self) -> Option<&Trouble> {
        self.log.as_ref().and_then(LogState::trouble)
    }
}

impl Registry {
    /// Nothing is changed any more.
    pub(super) fn note_failure(&self, failure: Status) {
        self.notice(failure.message());
        if let Some(on_failure) = &self.shared.on_failure {
            runtime::contain("a listener of a registry's failure", || {
                on_failure(failure.message())
            });
        }
        self.set_trouble(Some(Trouble::Failed(failure)));
    }

    /// What is under way does not fit on the disk.
    pub(super) fn note_full(&self, error: &io::Error) {
        let failure = failure::full(error);
        self.notice(failure.message());
        self.set_trouble(Some(Trouble::Full(failure)));
    }

    /// Notes after a write whether there is room ahead of the log.
    pub(super) fn note_room(&self, shortage: Option<&io::Error>) {
        let (was_short, was_full) = match self.state().log_trouble() {
            None => (false, false),
            Some(Trouble::Short(_)) => (true, false),
            Some(Trouble::Full(_)) => (false, true),
            Some(Trouble::Failed(_)) => return,
        };
        match shortage {
            Some(error) if !was_short => {
                let failure = failure::no_room(error);
                self.notice(failure.message());
                self.set_trouble(Some(Trouble::Short(failure)));
                self.look_for_room();
            }
            None if was_short || was_full => {
                self.set_trouble(None);
                self.notice("the registry's disk has room again, and changes are taken");
                self.expire_leases();
            }
            _ => {}
        }
    }

    fn set_trouble(&self, trouble: Option<Trouble>) {
        let mut state = self.state();
        let Some(log) = &mut state.log else { return };
        let former = log.replace_trouble(trouble);
        let woken = log.take_woken();
        drop(state);
        drop(former);
        woken.into_iter().for_each(wake);
    }

    /// Has the log look for room until there is some, for which nobody else may ask.
    pub(super) fn look_for_room(&self) {
        let mut state = self.state();
        let Some(log) = &mut state.log else { return };
        let begins = !log.looks_for_room && log.trouble().is_some_and(Trouble::may_pass);
        log.looks_for_room |= begins;
        drop(state);
        if begins {
            let looking = Looking(Some(self.clone()));
            runtime::spawn_named("registry room", looking.run());
        }
    }
}

/// Looks for room, until it is dropped; `None` when there is nothing to look for.
struct Looking(Option<Registry>);

impl Looking {
    async fn run(mut self) {
        loop {
            runtime::sleep(limits::DISK_FULL_RETRY).await;
            if !self.goes_on() {
                return;
            }
            self.0.iter().for_each(Registry::write_log);
        }
    }

    /// Whether there is something to look for. If not, the next trouble has somebody look anew: that is told under one lock.
    fn goes_on(&mut self) -> bool {
        let Some(registry) = self.0.take() else { return false };
        let mut state = registry.state();
        let Some(log) = &mut state.log else { return false };
        log.looks_for_room = log.trouble().is_some_and(Trouble::may_pass);
        let goes_on = log.looks_for_room;
        drop(state);
        self.0 = goes_on.then_some(registry);
        goes_on
    }
}

impl Drop for Looking {
    /// Its core has ended: somebody else may look, for this trouble or the next.
    fn drop(&mut self) {
        let Some(registry) = self.0.take() else { return };
        if let Some(log) = &mut registry.state().log {
            log.looks_for_room = false;
        }
    }
}
