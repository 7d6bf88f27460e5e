//! Which reply belongs to which command.

use std::collections::VecDeque;
use std::ops::Range;

use bson::RawDocument;

use super::compressor::unpack;
use super::cutter::{Cut, Cutter};
use super::fault::MongoFault;
use super::limits::MONGO_IN_FLIGHT_MAX;
use super::op_header::{MongoOpcode, OpHeader};
use super::op_msg::{MsgFlags, OpMsg, document_at};

/// The commands of one connection that wait for their replies, and the bytes of replies.
///
/// Replies are matched by `responseTo`, in whatever order they come. The reply of a command that was given up is passed
/// over and takes no memory. One that answers no command is a fault: who waits for it would wait in vain.
#[derive(Debug)]
pub struct MongoReplies {
    cutter: Cutter,
    len_max: usize,
    /// In the order in which they were begun, which is that of replies nearly always.
    waiting: VecDeque<WaitingCommand>,
    in_flight_max: usize,
    id_last: i32,
    fault: Option<MongoFault>,
}

#[derive(Debug)]
struct WaitingCommand {
    /// The number of the command.
    id: i32,
    /// The number that the next reply answers: of the command, or of the last reply of a stream of them.
    answers: i32,
    is_abandoned: bool,
}

/// A whole reply, uncompressed.
#[derive(Debug)]
pub struct MongoReply<'i> {
    request_id: i32,
    flags: MsgFlags,
    body: Range<usize>,
    message: Cut<'i>,
}

impl MongoReplies {
    /// Makes the state of a new connection. At most `in_flight_max` commands wait at a time, and replies
    /// have at most `len_max` bytes.
    #[must_use]
    pub fn new(in_flight_max: usize, len_max: usize) -> Self {
        Self {
            cutter: Cutter::new(len_max),
            len_max,
            waiting: VecDeque::new(),
            in_flight_max: in_flight_max.clamp(1, MONGO_IN_FLIGHT_MAX),
            id_last: 0,
            fault: None,
        }
    }

    /// Sets how many commands wait at a time from now on; those that wait already stay.
    pub fn set_in_flight_max(&mut self, count: usize) {
        self.in_flight_max = count.clamp(1, MONGO_IN_FLIGHT_MAX);
    }

    /// Notes a command that is about to be sent, and gives its number; `None` if too many wait.
    pub fn begin(&mut self) -> Option<i32> {
        if self.waiting.len() >= self.in_flight_max {
            return None;
        }
        let id = self.next_id();
        self.waiting.push_back(WaitingCommand { id, answers: id, is_abandoned: false });
        Some(id)
    }

    /// The number of a command that gets no reply, because [`MsgFlags::MORE_TO_COME`] is set in it.
    pub fn begin_unanswered(&mut self) -> i32 {
        self.next_id()
    }

    /// Takes back a command of which nothing was sent.
    pub fn take_back(&mut self, id: i32) {
        self.waiting.retain(|waiting| waiting.id != id);
    }

    /// Gives up a command that was sent. Its reply will be passed over, its one reply: a command that
    /// allowed several ([`MsgFlags::EXHAUST_ALLOWED`]) is given up by closing the connection.
    pub fn abandon(&mut self, id: i32) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
            waiting.is_abandoned = true;
        }
    }

    /// Gives up every command that waits, like [`abandon`](Self::abandon).
    pub fn abandon_all(&mut self) {
        for waiting in &mut self.waiting {
            waiting.is_abandoned = true;
        }
    }

    /// Takes the next reply off the front of `input`, or all of `input` if there is none.
    ///
    /// # Errors
    /// The first fault of the server, again and again.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<MongoReply<'i>>, MongoFault> {
        if let Some(fault) = &self.fault {
            *input = &[];
            return Err(fault.clone());
        }
        let reply = self.read(input);
        if let Err(fault) = &reply {
            *input = &[];
            self.fault = Some(fault.clone());
            self.cutter = Cutter::new(self.len_max);
        }
        reply
    }

    /// Commands whose reply is to come, those that were given up among them.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no reply is to come and none has begun, so that the connection may be used again.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.cutter.is_inside() && self.fault.is_none()
    }

    /// Memory that it holds for a reply that is not whole, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cutter.capacity()
    }

    fn read<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<MongoReply<'i>>, MongoFault> {
        loop {
            let waiting = &mut self.waiting;
            let wants = |header: &OpHeader| is_wanted(waiting, header);
            let Some((header, cut)) = self.cutter.next(input, wants)? else { return Ok(None) };
            // It may have been given up since its header came.
            if !is_wanted(&mut self.waiting, &header)? {
                continue;
            }
            let message = match header.opcode {
                MongoOpcode::Msg => cut,
                MongoOpcode::Compressed => unpack(&header, &cut, self.len_max)?,
            };
            let read = OpMsg::read(&message)?;
            let (flags, body) = (read.flags(), read.body_range());
            let at = position(&self.waiting, &header).expect("it is wanted");
            let request_id = self.waiting[at].id;
            match flags.has(MsgFlags::MORE_TO_COME) {
                true => self.waiting[at].answers = header.request_id,
                false => drop(self.waiting.remove(at)),
            }
            return Ok(Some(MongoReply { request_id, flags, body, message }));
        }
    }

    /// Numbers are positive and come around after two thousand million commands.
    fn next_id(&mut self) -> i32 {
        self.id_last = self.id_last.checked_add(1).unwrap_or(1);
        self.id_last
    }
}

fn position(waiting: &VecDeque<WaitingCommand>, header: &OpHeader) -> Option<usize> {
    waiting.iter().position(|waiting| waiting.answers == header.response_to)
}

/// Whether somebody wants the reply with this header. If the command was given up, the reply is accounted for.
///
/// # Errors
/// It answers no command.
fn is_wanted(
    waiting: &mut VecDeque<WaitingCommand>,
    header: &OpHeader,
) -> Result<bool, MongoFault> {
    let at = position(waiting, header).ok_or(MongoFault::ResponseTo(header.response_to))?;
    let is_abandoned = waiting[at].is_abandoned;
    if is_abandoned {
        waiting.remove(at);
    }
    Ok(!is_abandoned)
}

impl<'i> MongoReply<'i> {
    /// The number of the command that it answers.
    #[must_use]
    pub fn request_id(&self) -> i32 {
        self.request_id
    }

    /// Whether another reply follows without being asked for.
    #[must_use]
    pub fn has_more_to_come(&self) -> bool {
        self.flags.has(MsgFlags::MORE_TO_COME)
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &RawDocument {
        document_at(&self.message, &self.body)
    }

    /// The bytes of the message, and where the body lies in them.
    #[must_use]
    pub fn into_parts(self) -> (Cut<'i>, Range<usize>) {
        (self.message, self.body)
    }
}
