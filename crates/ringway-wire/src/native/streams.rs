//! What calls need that are more than one frame each way, in reused places.

use super::receive_side::{Assembled, Piecemeal, ReceiveSide};
use super::send_side::SendSide;
use super::{StreamId, Violation};

/// Both halves of a call that has, or may have, more than one frame in a direction.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) send: SendSide,
    pub(super) receive: ReceiveSide,
    /// It stands in a line of the outbox.
    pub(super) is_queued: bool,
    is_released: bool,
}

/// All streams of a connection. A place given back keeps its buffers, within bounds.
#[derive(Debug, Default)]
pub(super) struct Streams {
    places: Vec<Stream>,
    free: Vec<u32>,
    /// Bytes of all messages that are not whole.
    assembled: usize,
}

impl Streams {
    /// A place for `id`: so much may be sent, and so much is accepted, before any CREDIT.
    pub(super) fn open(&mut self, id: StreamId, credit: u32, window: u32) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Stream {
                id,
                send: SendSide::default(),
                receive: ReceiveSide::default(),
                is_queued: false,
                is_released: false,
            });
            (self.places.len() - 1) as u32
        });
        let stream = self.at(index);
        stream.id = id;
        stream.send.reset(credit);
        stream.receive.reset(window);
        index
    }

    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Stream {
        &mut self.places[index as usize]
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Stream {
        &self.places[index as usize]
    }

    /// Takes one fragment of a message.
    ///
    /// # Errors
    ///
    /// When the peer must not send it so.
    #[inline]
    pub(super) fn fragment<'i>(
        &mut self,
        index: u32,
        fragment: Piecemeal<'i>,
    ) -> Result<Assembled<'i>, Violation> {
        let receive = &mut self.places[index as usize].receive;
        let before = receive.assembled();
        let assembled = receive.fragment(fragment);
        self.assembled = self.assembled - before + receive.assembled();
        assembled
    }

    /// Delivers nothing more of a stream, and drops what was assembled.
    pub(super) fn abandon(&mut self, index: u32) {
        let receive = &mut self.places[index as usize].receive;
        self.assembled -= receive.assembled();
        receive.abandon();
    }

    /// Bytes of all messages that are not whole.
    pub(super) fn assembled(&self) -> usize {
        self.assembled
    }

    /// Gives the place back; one that stands in a line is free when the line has come to it.
    pub(super) fn release(&mut self, index: u32) {
        let stream = self.at(index);
        stream.send.clear();
        let assembled = stream.receive.assembled();
        stream.receive.reset(0);
        self.assembled -= assembled;
        let stream = self.at(index);
        if stream.is_queued {
            stream.is_released = true;
        } else {
            self.free.push(index);
        }
    }

    /// Takes a stream off the front of its line, and tells whether it is still there to be served.
    pub(super) fn dequeue(&mut self, index: u32) -> bool {
        let stream = self.at(index);
        stream.is_queued = false;
        let was_released = std::mem::take(&mut stream.is_released);
        if was_released {
            self.free.push(index);
        }
        !was_released
    }
}
