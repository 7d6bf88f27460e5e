//! What calls need that are more than one frame each way, in reused places.

use super::receive_side::{Assembled, Piecemeal, ReceiveSide};
use super::send_side::SendSide;
use super::window::Window;
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
    /// Bytes of all messages that readers have not taken.
    untaken: usize,
    /// Bytes by which windows are larger than they were at first.
    grown: usize,
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
        let (assembled, untaken) = (receive.assembled(), receive.untaken());
        let outcome = receive.fragment(fragment);
        self.assembled = self.assembled - assembled + receive.assembled();
        self.untaken = self.untaken - untaken + receive.untaken();
        outcome
    }

    /// Takes a message of one frame, if that is all there is to it.
    #[inline]
    pub(super) fn whole(&mut self, index: u32, cost: u32) -> bool {
        let is_taken = self.places[index as usize].receive.whole(cost);
        if is_taken {
            self.untaken += cost as usize;
        }
        is_taken
    }

    /// The reader of a stream took messages.
    #[inline]
    pub(super) fn taken(&mut self, index: u32, messages: usize) {
        let gone = self.places[index as usize].receive.taken(messages);
        self.untaken -= gone as usize;
    }

    /// Nobody will tell that the messages of a stream were taken.
    pub(super) fn hand_over(&mut self, index: u32) {
        let receive = &mut self.places[index as usize].receive;
        self.untaken -= receive.untaken();
        receive.hand_over();
    }

    /// Delivers nothing more of a stream that nobody reads.
    pub(super) fn ignore(&mut self, index: u32) {
        let receive = &mut self.places[index as usize].receive;
        self.assembled -= receive.assembled();
        self.untaken -= receive.untaken();
        receive.ignore();
    }

    /// Delivers nothing more of a stream, and drops what was assembled.
    pub(super) fn abandon(&mut self, index: u32) {
        let receive = &mut self.places[index as usize].receive;
        self.assembled -= receive.assembled();
        self.untaken -= receive.untaken();
        receive.abandon();
    }

    /// Changes the window of a stream.
    pub(super) fn with_window<R>(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Window) -> R,
    ) -> R {
        let window = &mut self.places[index as usize].receive.window;
        let before = window.grown() as usize;
        let outcome = change(window);
        self.grown = self.grown - before + window.grown() as usize;
        outcome
    }

    /// Bytes of all messages that readers have not taken.
    pub(super) fn untaken(&self) -> usize {
        self.untaken
    }

    /// The stream for which most bytes are kept, and how many; `None` if none are.
    pub(super) fn largest(&self) -> Option<(StreamId, usize)> {
        let kept = self.places.iter().map(|stream| {
            let receive = &stream.receive;
            (stream.id, receive.assembled() + receive.untaken())
        });
        kept.max_by_key(|&(_, len)| len).filter(|&(_, len)| len > 0)
    }

    /// Bytes by which windows are larger than they were at first.
    pub(super) fn grown(&self) -> usize {
        self.grown
    }

    /// Bytes of all messages that are not whole.
    pub(super) fn assembled(&self) -> usize {
        self.assembled
    }

    /// Gives the place back; one that stands in a line is free when the line has come to it.
    pub(super) fn release(&mut self, index: u32) {
        let stream = &mut self.places[index as usize];
        stream.send.clear();
        self.assembled -= stream.receive.assembled();
        self.untaken -= stream.receive.untaken();
        self.grown -= stream.receive.window.grown() as usize;
        stream.receive.reset(0);
        if stream.is_queued {
            stream.is_released = true;
        } else {
            self.free.push(index);
        }
    }

    /// Drops what all streams hold and will send. The connection has failed: nothing follows.
    pub(super) fn drop_contents(&mut self) {
        for stream in &mut self.places {
            stream.send = SendSide::default();
            stream.receive.abandon();
        }
        self.assembled = 0;
        self.untaken = 0;
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
