//! Whose turn it is to take in requests when more have come than a core takes in at once.
//!
//! Received requests cost their core time before they can be refused or queued. So a core takes in a bounded number of
//! bytes each turn. Beyond that, connections that have taken in much lately line up, and as many of them as the
//! bound allows go on in each turn, unless what was taken in before waits for the core. The others, whose calls are
//! few, go on at once. While there is a line, nothing is taken in for those who leave many replies unread.
//!
//! ```text
//!          the turn's bytes are used up          its place in the line comes
//!   Free ───────────────────────────────► Waits ─────────────────────────────► Goes
//!    ▲                                                                          │ end of its poll
//!    └──────────────────────────────────────────────────────────────────────────┘
//! ```

mod line;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Weak;
use std::time::Duration;

use super::connections::CoreConnection;
use crate::limits;

/// What a core has taken in, and the connections that wait to take in more.
#[derive(Default)]
pub(super) struct TurnIntake {
    /// The time of the turn in which bytes were last taken in.
    turn: Cell<Duration>,
    /// Bytes taken in during that turn.
    taken: Cell<usize>,
    /// The line. A connection stands in it at most once.
    waiting: RefCell<VecDeque<Weak<dyn CoreConnection>>>,
    /// Whether the line is not empty.
    has_line: Cell<bool>,
    /// Whether the task runs that lets connections of the line go on.
    has_pacer: Cell<bool>,
}

/// What one connection has taken in.
#[derive(Default)]
pub(super) struct IntakeShare {
    /// Bytes taken in during this poll of the connection's task.
    taken: Cell<u32>,
    /// What was processed during this poll that costs more than its bytes do, as if it were so many.
    work: Cell<u32>,
    /// Bytes taken in during the polls before; each poll halves what is remembered.
    before: Cell<u32>,
    state: Cell<ShareState>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum ShareState {
    #[default]
    Free,
    Waits,
    Goes,
}

impl TurnIntake {
    /// Records bytes that are taken in during the turn that began at `now`.
    #[inline]
    fn note(&self, now: Duration, bytes: usize) {
        if self.turn.replace(now) != now {
            self.taken.set(0);
        }
        self.taken.set(self.taken.get() + bytes);
    }

    /// Whether [`is_used_up`](Self::is_used_up) may hold.
    #[inline]
    fn may_be_used_up(&self) -> bool {
        self.taken.get() >= limits::INTAKE_BYTES_PER_CORE_TURN || self.has_line.get()
    }

    /// Whether a connection that has taken in little lately has to line up in the turn that began at `now`.
    fn is_full(&self, now: Duration) -> bool {
        self.taken_at(now) >= 2 * limits::INTAKE_BYTES_PER_CORE_TURN
    }

    /// Whether the turn that began at `now` has no room, or others are first.
    fn is_used_up(&self, now: Duration) -> bool {
        self.has_line.get() || !self.has_room(now)
    }

    fn has_room(&self, now: Duration) -> bool {
        self.taken_at(now) < limits::INTAKE_BYTES_PER_CORE_TURN
    }

    fn taken_at(&self, now: Duration) -> usize {
        if self.turn.get() == now { self.taken.get() } else { 0 }
    }

    /// The bytes of unsent replies up to which more is taken in for a connection.
    #[inline]
    pub(super) fn unsent_max(&self) -> usize {
        match self.has_line.get() {
            false => limits::UNSENT_REPLIES_MAX,
            true => limits::UNSENT_REPLIES_MAX_IN_LINE,
        }
    }

    fn line_up(&self, connection: Weak<dyn CoreConnection>) {
        self.waiting.borrow_mut().push_back(connection);
        self.has_line.set(true);
    }

    /// Lets the first of the line go on; false if there is none.
    fn let_one_go(&self) -> bool {
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            self.has_line.set(!self.waiting.borrow().is_empty());
            let Some(next) = next else { return false };
            if next.upgrade().is_some_and(|next| next.go_on_receiving()) {
                return true;
            }
        }
    }
}

impl IntakeShare {
    /// Begins a poll of the connection's task.
    #[inline]
    fn begin(&self) {
        self.before.set(self.taken.replace(0).max(self.before.get() / 2));
        self.work.set(0);
    }

    /// Whether the connection has done its share of costly work in this poll.
    #[inline]
    pub(super) fn has_worked_enough(&self) -> bool {
        self.work.get() as usize >= limits::INTAKE_BYTES_PER_TURN
    }

    #[inline]
    fn note(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.taken.set(self.taken.get().saturating_add(bytes));
    }

    fn is_small(&self) -> bool {
        let all = self.taken.get().saturating_add(self.before.get());
        (all as usize) < limits::INTAKE_SMALL_BYTES
    }
}
