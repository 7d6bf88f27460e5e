//! The turn of a core: run tasks, hand over their output, wait, handle events.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Core, Timer};
use crate::contain::{contain, wake};
use crate::driver::{Driver, Event, Wait};
use crate::limits;
use crate::sys::waker_of;
use crate::task::TaskToken;

impl Core {
    /// Turns until `done`, or until the core is told to stop.
    pub(crate) fn run_until(&self, done: impl Fn() -> bool) -> io::Result<()> {
        let ended = || done() || self.shared.stopping.load(Ordering::Relaxed);
        while !ended() {
            self.turn(None, &ended)?;
        }
        Ok(())
    }

    /// Performs one turn; it does not wait if `ended` already holds.
    pub(super) fn turn(&self, limit: Option<Duration>, ended: &dyn Fn() -> bool) -> io::Result<()> {
        self.poll_tasks();
        self.serve_dirty();
        let before = self.now();
        let waited = self
            .take_events(limit, ended)
            .and_then(|()| self.listen_if_late(before))
            .and_then(|()| self.look_at_clock());
        self.take_mail();
        self.fire_timers();
        self.shared.counters.publish_turn(self.driver.borrow().counters(), self.held.bytes());
        waited
    }

    /// # Errors
    /// Fails when a simulation does not get on.
    fn look_at_clock(&self) -> io::Result<()> {
        let clock = self.still_clock.as_ref();
        clock.map_or(Ok(()), |clock| clock.turned(self.now(), self.uptime()))
    }

    /// Handles the driver's events. Events left over by a panic are handled in the next turn.
    fn take_events(&self, limit: Option<Duration>, ended: &dyn Fn() -> bool) -> io::Result<()> {
        let mut taken = Taken { core: self, events: self.events.take() };
        let waited = match ended() {
            true => self.driver.borrow_mut().turn(Wait::Poll, &mut taken.events),
            false => self.wait(limit, &mut taken.events),
        };
        self.clock.set(self.driver.borrow().now());
        self.dispatch(&mut taken.events);
        waited
    }

    /// Reads on where timers fire late because the core was held up: most of them watch a peer, whose bytes may have
    /// come in time without finding a buffer. `before` is when this turn began.
    fn listen_if_late(&self, before: Instant) -> io::Result<()> {
        let is_late =
            |due: Instant| self.now().saturating_duration_since(due) >= limits::TIMERS_LATE;
        if !is_late(before) || !self.timers.borrow().next_deadline().is_some_and(is_late) {
            return Ok(());
        }
        for _ in 0..limits::LOOKS_WHEN_LATE {
            let mut taken = Taken { core: self, events: self.events.take() };
            let looked = self.driver.borrow_mut().turn(Wait::Poll, &mut taken.events);
            let is_all = taken.events.is_empty();
            self.dispatch(&mut taken.events);
            looked?;
            if is_all {
                break;
            }
        }
        Ok(())
    }

    fn poll_tasks(&self) {
        self.tasks.queue_yielded();
        for _ in 0..limits::POLLS_PER_TURN {
            let Some(runnable) = self.tasks.next() else {
                break;
            };
            self.shared.counters.poll_started(runnable.name);
            if let Some(clock) = &self.still_clock {
                clock.polls(runnable.name);
            }
            let waker = waker_of(runnable.token);
            self.tasks.poll(runnable, &waker);
        }
        self.shared.counters.poll_ended();
    }

    fn wait(&self, limit: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let mut driver = self.driver.borrow_mut();
        if self.tasks.runnable() > 0 || self.has_mail() {
            return driver.turn(Wait::Poll, events);
        }
        let until_timer = self
            .timers
            .borrow()
            .next_deadline()
            .map(|deadline| deadline.saturating_duration_since(driver.now()));
        let until = match (until_timer, limit) {
            (Some(timer), Some(limit)) => Some(timer.min(limit)),
            (timer, limit) => timer.or(limit),
        };
        if until.is_some_and(|until| until.is_zero()) {
            return driver.turn(Wait::Poll, events);
        }
        if let Some(budget) = self.spin.allowance().filter(|_| !driver.gathers()) {
            driver.turn(Wait::Poll, events)?;
            if !events.is_empty() {
                return Ok(());
            }
            if self.spin_for(until.map_or(budget, |until| until.min(budget)), &mut **driver) {
                self.spin.hit();
                return driver.turn(Wait::Poll, events);
            }
            self.spin.missed();
        }
        self.sleep(until, &mut **driver, events)
    }

    /// Spins for up to `budget`; whether an event was seen.
    fn spin_for(&self, budget: Duration, driver: &mut dyn Driver) -> bool {
        let end = driver.now() + budget;
        loop {
            for _ in 0..limits::SPINS_PER_CLOCK {
                if driver.peek() || !self.shared.mailbox.is_empty() {
                    self.shared.counters.spun(true);
                    return true;
                }
                std::hint::spin_loop();
            }
            if driver.now() >= end {
                self.shared.counters.spun(false);
                return false;
            }
        }
    }

    fn sleep(
        &self,
        until: Option<Duration>,
        driver: &mut dyn Driver,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        if !self.shared.mailbox.prepare_park() {
            return driver.turn(Wait::Poll, events);
        }
        let began = driver.now();
        let waited = driver.turn(until.map_or(Wait::Forever, Wait::AtMost), events);
        self.shared.counters.slept();
        self.shared.mailbox.unpark();
        self.spin.slept(driver.now().saturating_duration_since(began));
        waited
    }

    /// Handles wakes, and as many messages as the tasks keep up with: the rest stays in the
    /// mailbox, whose limit tells senders.
    fn take_mail(&self) {
        if !self.has_mail() {
            return;
        }
        let mut inbox = self.inbox.take();
        if inbox.messages.is_empty() {
            self.shared.mailbox.drain(&mut inbox.messages, &mut inbox.wakes);
        } else {
            self.shared.mailbox.drain_wakes(&mut inbox.wakes);
        }
        for token in inbox.wakes.drain(..) {
            self.tasks.wake(TaskToken::from_bits(token));
        }
        let is_behind = self.tasks.runnable() >= limits::POLLS_PER_TURN;
        let taken = if is_behind { limits::MESSAGES_BEHIND } else { limits::POLLS_PER_TURN };
        let taken = taken.min(inbox.messages.len());
        for message in inbox.messages.drain(..taken) {
            contain("a message to a core", message);
        }
        self.inbox.replace(inbox);
    }

    fn has_mail(&self) -> bool {
        !self.shared.mailbox.is_empty() || !self.inbox.borrow().messages.is_empty()
    }

    fn fire_timers(&self) {
        let mut fired = self.fired.take();
        self.timers.borrow_mut().expire(self.now(), &mut |_, timer| fired.push(timer));
        for timer in fired.drain(..) {
            match timer {
                Timer::Wake(waker) => wake(waker),
                Timer::Socket(key) => self.on_socket_timer(key),
            }
        }
        self.fired.set(fired);
    }
}

/// The events of a turn; on drop, their list goes back to the core.
struct Taken<'a> {
    core: &'a Core,
    events: Vec<Event>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.core.events.set(std::mem::take(&mut self.events));
    }
}
