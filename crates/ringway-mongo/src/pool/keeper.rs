//! The task of a pool: it waits for late replies, closes connections that nobody has used for long,
//! and has the least number of them made.

use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ringway_runtime::{Sleep, now_exact, sleep, spawn_detached};

use super::Pool;
use crate::connection::ServerConnection;
use crate::limits::{DRAIN_TIMEOUT, FILL_PERIOD};
use crate::pool_events::CloseReason;

/// A connection whose command was given up. It still counts as one of the pool.
pub(super) struct Draining {
    connection: ServerConnection,
    generation: u64,
    /// When it is closed; set by the keeper, because a lease may be dropped anywhere.
    until: Option<Instant>,
}

impl Draining {
    pub(super) fn new(connection: ServerConnection, generation: u64) -> Self {
        Self { connection, generation, until: None }
    }

    pub(super) fn connection(&self) -> &ServerConnection {
        &self.connection
    }

    pub(super) fn into_connection(self) -> ServerConnection {
        self.connection
    }
}

pub(super) fn spawn(pool: &Rc<Pool>) {
    let keeper = Keeper { pool: Rc::downgrade(pool), timer: sleep(Duration::MAX) };
    spawn_detached("mongo pool", keeper);
}

/// Ends with the pool.
struct Keeper {
    pool: Weak<Pool>,
    timer: Sleep,
}

impl Future for Keeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(pool) = self.pool.upgrade() else { return Poll::Ready(()) };
            *pool.keeper.borrow_mut() = Some(cx.waker().clone());
            pool.telling.beginning();
            pool.drain(cx);
            pool.close_aged();
            pool.end_pause();
            pool.fill();
            let next = pool.next_time();
            drop(pool);
            let Some(next) = next else { return Poll::Pending };
            self.timer.reset(next);
            if Pin::new(&mut self.timer).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Pool {
    /// Takes back what has its late reply, and closes what has waited for too long.
    fn drain(self: &Rc<Self>, cx: &mut Context<'_>) {
        let now = now_exact();
        let waiting = std::mem::take(&mut *self.draining.borrow_mut());
        for mut entry in waiting {
            let until = *entry.until.get_or_insert(now + DRAIN_TIMEOUT);
            match entry.connection.poll_idle(cx) {
                Poll::Pending if until <= now => {
                    entry.connection.distrust();
                    self.give_back(entry.connection, entry.generation);
                }
                Poll::Pending => self.draining.borrow_mut().push(entry),
                Poll::Ready(()) => {
                    let Draining { connection, generation, .. } = entry;
                    match connection.is_idle() {
                        true => self.figures.count_recovered(),
                        false => self.refusals.idle_ended(),
                    }
                    self.give_back(connection, generation);
                }
            }
        }
    }

    /// Closes what nobody has used for the time that the options allow.
    fn close_aged(&self) {
        let Some(period) = self.greeting.options.idle_max else { return };
        let now = now_exact();
        let is_aged = |connection: &mut ServerConnection| {
            connection.idle_since().checked_add(period).is_some_and(|end| end <= now)
        };
        let aged: Vec<_> = self.idle.borrow_mut().extract_if(.., is_aged).collect();
        self.idle_changed();
        aged.into_iter().for_each(|connection| self.end(connection, CloseReason::Idle));
    }

    /// When there is something to do next, if nothing happens before.
    fn next_time(&self) -> Option<Instant> {
        let drained = self.draining.borrow().iter().filter_map(|entry| entry.until).min();
        let aged = self.greeting.options.idle_max.and_then(|period| {
            let eldest = self.idle.borrow().iter().map(ServerConnection::idle_since).min();
            // While nothing is idle, something may become so: look again after a period.
            eldest.unwrap_or_else(now_exact).checked_add(period)
        });
        let filled = self.has_minimum().then(|| now_exact() + FILL_PERIOD);
        let paused = self.refusals.until();
        drained.into_iter().chain(aged).chain(filled).chain(paused).min()
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use ringway_runtime::{block_on, now, yield_now};

    use super::super::ServerId;
    use super::*;
    use crate::connection::Greeting;
    use crate::options::ClientOptions;
    use crate::test_support::fake::{Answer, Fake};

    /// However long its operation has taken.
    #[test]
    fn a_connection_is_without_use_from_its_return_on() {
        let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
        let test = async move {
            let options = ClientOptions::parse(&fake.address).expect("an address");
            let greeting = Rc::new(Greeting::alone(options));
            let place = fake.place.parse().expect("an address");
            let pool = Pool::start(ServerId(0), place, &greeting, |_, _, _| {});
            let lease = pool.lease().await.expect("a connection");
            let leased_at = now();
            while now() == leased_at {
                yield_now().await;
            }
            let returned_at = now();
            drop(lease);
            assert!(pool.idle.borrow()[0].idle_since() >= returned_at);
        };
        block_on(test).expect("a core");
    }
}
