//! The calls of one core that wait for their reply, by number.
//!
//! A call in a user's hands is `Send` and holds a [`CellKey`]. The connection that carries the call
//! knows the same cell by its index and puts the reply there. So the connection's slot is free for
//! the next call as soon as the reply has come, whenever the user looks at it.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use ringway_wire::native::StreamId;

use super::local_clients::LinkKey;
use super::outcome::{CallOutcome, RawReply, ReplyMeta};
use crate::call::status::Status;
use crate::waiters::renew;

/// Names a call of this core that was sent; of one that is over it names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CellKey {
    index: u32,
    generation: u32,
}

impl CellKey {
    /// How the connection knows the cell. It is not reused before the connection has let go.
    pub(super) fn index(self) -> u32 {
        self.index
    }
}

/// Where a call was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flight {
    pub(super) link: LinkKey,
    pub(super) stream: StreamId,
}

/// What is known of one call.
pub(super) struct Cell {
    generation: u32,
    /// Until the outcome is here.
    pub(super) flight: Option<Flight>,
    waker: Option<Waker>,
    message: Option<Bytes>,
    end: Option<Result<(), Status>>,
    /// About when that came; nobody may look at it for long.
    ended_at: Option<Instant>,
    meta: Option<Box<ReplyMeta>>,
}

/// All cells of a core, in memory that is used again.
pub(super) struct Cells {
    table: Vec<Cell>,
    free: Vec<u32>,
    /// When the task of a connection last looked at the clock.
    pub(super) looked_at: Option<Instant>,
}

impl Cells {
    pub(super) const fn new() -> Self {
        Self { table: Vec::new(), free: Vec::new(), looked_at: None }
    }

    /// A cell for a call that has just been given to a connection.
    #[inline]
    pub(super) fn insert(&mut self, flight: Flight, waker: Waker) -> CellKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.table.push(Cell::EMPTY);
            self.table.len() as u32 - 1
        });
        let cell = &mut self.table[index as usize];
        cell.flight = Some(flight);
        cell.waker = Some(waker);
        CellKey { index, generation: cell.generation }
    }

    /// Calls that hold one.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.table.len() - self.free.len()
    }

    /// Keeps the message of a reply whose end comes later. `false`: there is one already.
    pub(super) fn message(&mut self, index: u32, message: Bytes) -> bool {
        let cell = &mut self.table[index as usize];
        cell.message.replace(message).is_none()
    }

    /// What the peer says before its message or at the end.
    pub(super) fn meta(&mut self, index: u32) -> &mut ReplyMeta {
        self.table[index as usize].meta.get_or_insert_default()
    }

    /// The call is over; whom to wake.
    #[inline]
    pub(super) fn end(
        &mut self,
        index: u32,
        outcome: Result<Option<Bytes>, Status>,
    ) -> Option<Waker> {
        let cell = &mut self.table[index as usize];
        debug_assert!(cell.flight.is_some() && cell.end.is_none(), "a call ends once");
        cell.flight = None;
        cell.ended_at = self.looked_at;
        cell.end = Some(match outcome {
            Ok(None) => Ok(()),
            Ok(message) if cell.message.is_none() => {
                cell.message = message;
                Ok(())
            }
            Ok(Some(_)) => Err(Status::unimplemented("the reply has more than one message")),
            Err(status) => Err(status),
        });
        cell.waker.take()
    }

    /// The outcome, once; the cell is free then. `at` becomes the moment at which it came, where that
    /// is later. A waker that another one takes the place of is put into `former`, to be dropped when
    /// the cells are no longer borrowed.
    #[inline]
    pub(super) fn poll(
        &mut self,
        key: CellKey,
        cx: &Context<'_>,
        at: &mut Instant,
        former: &mut Option<Waker>,
    ) -> Poll<CallOutcome> {
        let Some(cell) = self.find(key) else {
            return Poll::Ready(Err(Status::internal("a call was polled after its end")));
        };
        let Some(end) = cell.end.take() else {
            *former = renew(&mut cell.waker, cx.waker());
            return Poll::Pending;
        };
        *at = cell.ended_at.map_or(*at, |ended| ended.max(*at));
        let (message, meta) = (cell.message.take(), cell.meta.take());
        self.vacate(key.index);
        Poll::Ready(match (end, message) {
            (Ok(()), Some(message)) => Ok(RawReply { message, meta }),
            (Ok(()), None) => Err(Status::unimplemented("the reply has no message")),
            (Err(status), _) => Err(status),
        })
    }

    /// The call is given up; what is left of it is to be dropped when the cells are no longer
    /// borrowed, since a waker's destructor is foreign code.
    pub(super) fn abandon(&mut self, key: CellKey) -> Option<Cell> {
        let cell = self.find(key)?;
        let generation = cell.generation;
        let left = std::mem::replace(cell, Cell { generation, ..Cell::EMPTY });
        self.vacate(key.index);
        Some(left)
    }

    #[inline]
    fn find(&mut self, key: CellKey) -> Option<&mut Cell> {
        let cell = self.table.get_mut(key.index as usize)?;
        (cell.generation == key.generation).then_some(cell)
    }

    #[inline]
    fn vacate(&mut self, index: u32) {
        let cell = &mut self.table[index as usize];
        cell.generation = cell.generation.wrapping_add(1);
        self.free.push(index);
    }
}

impl Cell {
    const EMPTY: Cell = Cell {
        generation: 0,
        flight: None,
        waker: None,
        message: None,
        end: None,
        ended_at: None,
        meta: None,
    };
}
