//! What calls need that are more than one frame each way, in reused places.

use super::StreamId;
use super::receive_side::ReceiveSide;
use super::send_side::SendSide;

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

    /// Gives the place back; one that stands in a line is free when the line has come to it.
    pub(super) fn release(&mut self, index: u32) {
        let stream = self.at(index);
        stream.send.clear();
        stream.receive.reset(0);
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
