//! What arrives on a connection, and which call it is for.

use std::task::Waker;

use ringway_net::View;
use ringway_wire::native::{ClientEvent, Piece, StreamId};

use super::{Kind, State};
use crate::call::metadata::Metadata;
use crate::call::small_copy;
use crate::call::status::{Code, Status};
use crate::call::zero_copy;
use crate::client::pending_calls::Cells;
use crate::connection::table::Unread;
use crate::waiters::HasErrands;

impl State {
    /// How many calls have ended by it.
    #[inline]
    pub(super) fn on_event(
        &mut self,
        event: ClientEvent<'_>,
        cells: &mut Cells,
        woken: &mut Vec<Waker>,
    ) -> u32 {
        match event {
            ClientEvent::Response { stream, status, meta, message } => {
                let Some(kind) = self.kind(stream) else {
                    return 0;
                };
                self.entries[stream.slot() as usize].stream = None;
                let outcome = match status == 0 && meta.is_empty() {
                    true => Ok(None),
                    false => Status::of_response(status, &meta).map(Some),
                };
                match kind {
                    Kind::Unary(cell) => {
                        woken.extend(end_unary(cells, cell, outcome, message));
                    }
                    Kind::Stream => self.end_stream(stream, outcome, message),
                }
                return 1;
            }
            ClientEvent::Message { stream, message } => {
                return self.message(stream, message, cells, woken);
            }
            ClientEvent::Initial { stream, meta } => {
                // What cannot be read is left out: the reply decides how the call ends.
                let metadata = Metadata::of_wire(&meta).unwrap_or_default();
                match self.kind(stream) {
                    Some(Kind::Unary(cell)) => cells.meta(cell).initial = metadata,
                    Some(Kind::Stream) => self.streams.initial(stream, metadata),
                    None => {}
                }
            }
            ClientEvent::Writable { stream } => self.streams.writable(stream),
            ClientEvent::Leaving { accepted, reason, .. } => {
                self.accepted = Some(accepted);
                let printable = |char: char| if char.is_control() { ' ' } else { char };
                self.farewell = String::from_utf8_lossy(&reason).chars().map(printable).collect();
            }
            ClientEvent::Capacity => {}
        }
        0
    }

    /// The messages that come next, with as little ado as possible.
    #[inline]
    pub(super) fn take_messages(
        &mut self,
        input: &mut &[u8],
        view: Option<&View>,
        cells: &mut Cells,
        woken: &mut Vec<Waker>,
    ) -> u32 {
        let mut ended = 0;
        while let Some((stream, message)) = self.machine.receive_message(input) {
            let message = zero_copy::in_place(message, view);
            if self.streams.push(stream, message.clone()).is_err() {
                ended += self.message(stream, message, cells, woken);
            }
        }
        ended
    }

    fn message(
        &mut self,
        stream: StreamId,
        message: Piece<'_>,
        cells: &mut Cells,
        woken: &mut Vec<Waker>,
    ) -> u32 {
        match self.kind(stream) {
            Some(Kind::Unary(cell)) => {
                self.machine.taken(stream, 1);
                if cells.message(cell, small_copy::keep(message)) {
                    return 0;
                }
                let status = Status::unimplemented("the reply has more than one message");
                woken.extend(cells.end(cell, Err(status)));
                self.leave(stream);
                self.machine.cancel(stream, Code::Cancelled.number(), "one message was expected");
                1
            }
            Some(Kind::Stream) => match self.streams.push(stream, message) {
                Ok(()) | Err(Unread::NoReader) => 0,
                Err(Unread::Full) => {
                    let why = "too many messages wait for their reader";
                    let errands = self.streams.errands();
                    self.lives.given_up(stream.slot(), Code::ResourceExhausted, errands);
                    self.streams.finish(stream, Err(Status::resource_exhausted(why)));
                    self.leave(stream);
                    self.machine.cancel(stream, Code::ResourceExhausted.number(), why);
                    1
                }
            },
            None => 0,
        }
    }

    fn end_stream(
        &mut self,
        stream: StreamId,
        outcome: Result<Option<Metadata>, Status>,
        message: Option<Piece<'_>>,
    ) {
        let mut outcome = outcome.map(Option::unwrap_or_default);
        if let (Ok(_), Some(message)) = (&outcome, message)
            && self.streams.push(stream, message) == Err(Unread::Full)
        {
            let why = "too many messages wait for their reader";
            outcome = Err(Status::resource_exhausted(why));
        }
        self.lives.ended(stream.slot(), outcome.as_ref().err(), self.streams.errands());
        self.streams.finish(stream, outcome);
    }
}

#[inline]
fn end_unary(
    cells: &mut Cells,
    cell: u32,
    outcome: Result<Option<Metadata>, Status>,
    message: Option<Piece<'_>>,
) -> Option<Waker> {
    let ended = match outcome {
        Ok(trailers) => {
            if let Some(trailers) = trailers {
                cells.meta(cell).trailers = trailers;
            }
            Ok(message.map(small_copy::keep))
        }
        Err(status) => Err(status),
    };
    cells.end(cell, ended)
}
