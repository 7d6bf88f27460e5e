//! Notices that a simulation runs on while its clock stands still.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::{Duration, Instant};

use crate::driver::Driver;
use crate::limits;
use crate::names::NameId;

/// Counts the turns of a simulated core, and the polls of its tasks, at one moment of virtual time. A task that always runs, because it yields or
/// wakes itself or sets timers for now, keeps the clock from moving, and the simulation would never end.
pub(super) struct StillClock {
    seed: u64,
    moment: Cell<Instant>,
    turns: Cell<u32>,
    polls: Cell<u32>,
    /// The tasks that ran in the last of these turns.
    ran: RefCell<Vec<NameId>>,
}

impl StillClock {
    /// Watches the clock of a simulation; `None` for other drivers, whose clock nobody stops.
    pub(super) fn of(driver: &dyn Driver) -> Option<Self> {
        let (moment, ran) = (Cell::new(driver.now()), RefCell::default());
        let (turns, polls) = (Cell::new(0), Cell::new(0));
        driver.seed().map(|seed| Self { seed, moment, turns, polls, ran })
    }

    /// Notes a task that is polled.
    pub(super) fn polls(&self, name: NameId) {
        self.polls.set(self.polls.get() + 1);
        if self.turns.get() + 1 >= limits::SIM_STILL_TURNS_MAX
            || self.polls.get() + limits::SIM_STILL_POLLS_NAMED >= limits::SIM_STILL_POLLS_MAX
        {
            let mut ran = self.ran.borrow_mut();
            if ran.len() < limits::SIM_STILL_TASKS_NAMED && !ran.contains(&name) {
                ran.push(name);
            }
        }
    }

    fn begin(&self) {
        self.turns.set(0);
        self.polls.set(0);
        self.ran.borrow_mut().clear();
    }

    /// Counts a turn that ends at `now`, `elapsed` after the simulation's start.
    ///
    /// # Errors
    /// After too many of them at one moment.
    pub(super) fn turned(&self, now: Instant, elapsed: Duration) -> io::Result<()> {
        if self.moment.replace(now) != now {
            self.begin();
            return Ok(());
        }
        self.turns.set(self.turns.get() + 1);
        let (turns, polls) = (self.turns.get(), self.polls.get());
        if turns < limits::SIM_STILL_TURNS_MAX && polls < limits::SIM_STILL_POLLS_MAX {
            return Ok(());
        }
        let ran = self.ran.take();
        self.begin(); // the core still has to end
        let names: Vec<_> = ran.iter().filter_map(|name| NameId::resolve(name.bits())).collect();
        Err(io::Error::other(format!(
            "simulation does not get on: its clock has stood at {elapsed:.1?} for {turns} turns, because something always runs, \
             at last: {}. Let it wait for time or for others, not yield or try again at once; seed {}",
            names.join(", "),
            self.seed,
        )))
    }
}
