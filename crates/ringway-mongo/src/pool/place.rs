//! How an operation waits for a connection.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::line::Waiter;
use super::{Lease, Pool};
use crate::error::Result;

impl Pool {
    /// Waits for a connection, behind those who came before.
    pub(super) async fn wait_in_line(self: &Rc<Self>) -> Result<Lease> {
        let place = PlaceInLine { pool: self, waiter: Rc::default() };
        self.line.join(&place.waiter);
        self.serve();
        poll_fn(|cx| place.poll(cx)).await
    }
}

/// The place of an operation in the line. Dropping it leaves the line.
struct PlaceInLine<'a> {
    pool: &'a Rc<Pool>,
    waiter: Rc<Waiter>,
}

impl PlaceInLine<'_> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Lease>> {
        loop {
            match self.waiter.take() {
                Some(Ok((mut connection, generation))) => {
                    connection.check_idle(cx);
                    if !connection.is_broken() {
                        let pool = Rc::clone(self.pool);
                        return Poll::Ready(Ok(Lease::new(pool, connection, generation)));
                    }
                    // It had ended while it was idle: the next one is for who was first.
                    if generation == self.pool.generation() {
                        self.pool.refusals.idle_ended();
                    }
                    self.pool.line.join_first(&self.waiter);
                    self.pool.give_back(connection, generation);
                }
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {
                    self.waiter.wait(cx);
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        self.pool.line.leave(&self.waiter);
        // A connection that it does not take is for the next one.
        if let Some(Ok((connection, generation))) = self.waiter.take() {
            self.pool.give_back(connection, generation);
        }
    }
}
