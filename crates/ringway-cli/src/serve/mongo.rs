//! The responder of `bench mongo`: it parses each command, counts it, and answers at once or after a time.

mod answers;
mod tally;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Once};
use std::time::Duration;

use ringway_net::{Handler, Peer, View};
use ringway_runtime::{sleep, spawn_detached};
use ringway_wire::mongo::{MongoFault, MongoOpcode, OpHeader, OpMsg};

use crate::limits;
use crate::stderr;
use answers::Answers;

pub(super) use tally::MongoTally;

/// One connection.
pub(super) struct Responder {
    answers: Answers,
    delay: Duration,
    /// The front of a command that is not whole.
    partial: Vec<u8>,
    /// The answers to what one receive has brought.
    out: Vec<u8>,
    /// Groups of answers whose time has not come.
    delayed: Rc<Cell<usize>>,
}

impl Responder {
    pub(super) fn new(tally: Arc<MongoTally>, delay: Duration) -> Self {
        let delayed = Rc::default();
        Self { answers: Answers::new(tally), delay, partial: Vec::new(), out: Vec::new(), delayed }
    }

    /// Answers all whole commands of `input`, and keeps the rest.
    fn take(&mut self, mut input: &[u8]) -> Result<(), MongoFault> {
        while let Some(header) = OpHeader::read(input, limits::MONGO_COMMAND_BYTES_MAX)? {
            let Some((message, rest)) = input.split_at_checked(header.len) else { break };
            if header.opcode != MongoOpcode::Msg {
                return Err(MongoFault::Opcode(header.opcode.number()));
            }
            self.answers.answer(&header, &OpMsg::read(message)?, &mut self.out);
            input = rest;
        }
        self.partial = input.to_vec();
        Ok(())
    }

    fn send(&mut self, peer: &Peer) {
        if self.out.is_empty() {
            return;
        }
        if self.delay.is_zero() {
            match self.out.len() <= limits::MONGO_COPIED_MAX {
                true => peer.write(&self.out),
                false => peer.send(std::mem::take(&mut self.out)),
            };
            self.out.clear();
            return;
        }
        if self.delayed.get() == limits::MONGO_DELAYED_MAX {
            complain_once("a client does not wait for its answers; its connection is closed");
            peer.abort();
            return;
        }
        self.delayed.set(self.delayed.get() + 1);
        let (bytes, delay) = (std::mem::take(&mut self.out), self.delay);
        let (peer, delayed) = (peer.downgrade(), Rc::clone(&self.delayed));
        spawn_detached("late answer", async move {
            sleep(delay).await;
            delayed.set(delayed.get() - 1);
            if let Some(peer) = peer.upgrade() {
                peer.send(bytes);
            }
        });
    }
}

/// Logs the first fault of all clients only; otherwise one could fill a disk.
#[cold]
fn complain_once(text: &str) {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| stderr::complain(text));
}

impl Handler for Responder {
    fn on_message(&mut self, peer: &Peer, view: View) {
        let taken = if self.partial.is_empty() {
            self.take(&view)
        } else {
            let mut input = std::mem::take(&mut self.partial);
            input.extend_from_slice(&view);
            self.take(&input)
        };
        self.send(peer);
        if let Err(fault) = taken {
            complain_once(&format!("a client breaks MongoDB's protocol: {fault}"));
            peer.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use ringway_mongo::bson::{RawDocumentBuf, rawdoc};
    use ringway_wire::mongo::{CommandWriter, MongoReplies, REPLY_LEN_MAX_DEFAULT};

    use super::*;
    use crate::mongo_books::{BATCH_LEN, Book, PLANNED_CODE, is_book};

    fn responder() -> Responder {
        Responder::new(Arc::default(), Duration::ZERO)
    }

    /// The answers to commands, which arrive in pieces of `piece` bytes.
    fn talk(
        responder: &mut Responder,
        commands: &[RawDocumentBuf],
        piece: usize,
    ) -> Vec<RawDocumentBuf> {
        let mut replies = MongoReplies::new(commands.len(), REPLY_LEN_MAX_DEFAULT);
        let mut sent = Vec::new();
        for command in commands {
            let id = replies.begin().expect("room");
            let mut writer = CommandWriter::new(&mut sent, id);
            writer.fields(command);
            writer.finish().expect("short");
        }
        let mut found = Vec::new();
        for bytes in sent.chunks(piece) {
            let mut input = std::mem::take(&mut responder.partial);
            input.extend_from_slice(bytes);
            responder.take(&input).expect("well formed");
        }
        let out = std::mem::take(&mut responder.out);
        let mut input = &out[..];
        while let Some(reply) = replies.next(&mut input).expect("well formed") {
            found.push(reply.body().to_owned());
        }
        assert!(replies.is_idle(), "each command has its answer");
        found
    }

    #[test]
    fn commands_are_answered_however_they_are_cut() {
        let commands = [
            rawdoc! { "ping": 1 },
            rawdoc! { "find": "books", "filter": { "_id": 4321 }, "limit": 1_i64 },
            rawdoc! { "find": "books", "filter": { "batch": 3 }, "batchSize": 1000_i64 },
            rawdoc! { "conquer": "all" },
        ];
        for piece in [1, 7, 64, 4096] {
            let [ping, one, batch, unknown] = &talk(&mut responder(), &commands, piece)[..] else {
                panic!("four answers");
            };
            assert_eq!(ping.get_i32("ok").ok(), Some(1));
            let documents = |reply: &RawDocumentBuf| -> Vec<RawDocumentBuf> {
                let cursor = reply.get_document("cursor").expect("a cursor");
                let batch = cursor.get_array("firstBatch").expect("a batch");
                let document = |entry| -> RawDocumentBuf {
                    let entry: ringway_mongo::bson::RawBsonRef<'_> = entry;
                    entry.as_document().expect("a document").to_owned()
                };
                batch.into_iter().map(|entry| document(entry.expect("well formed"))).collect()
            };
            assert!(matches!(&documents(one)[..], [book] if is_book(book, 4321)));
            let books = documents(batch);
            assert_eq!(books.len(), BATCH_LEN as usize);
            assert!(books.iter().zip(3000..).all(|(book, id)| is_book(book, id)));
            assert_eq!(unknown.get_i32("code").ok(), Some(59));
        }
    }

    #[test]
    fn one_command_in_ten_thousand_fails_but_no_greeting() {
        let mut responder = responder();
        // As many as one connection may have under way.
        let hellos = vec![rawdoc! { "hello": 1 }; 1_000];
        let pings = vec![rawdoc! { "ping": 1 }; 1_000];
        let failed = |reply: &RawDocumentBuf| reply.get_i32("code").ok() == Some(PLANNED_CODE);
        let mut failures = |commands: &[RawDocumentBuf]| {
            let rounds = (0..20).flat_map(|_| talk(&mut responder, commands, 1 << 20));
            rounds.filter(|reply| failed(reply)).count()
        };
        assert_eq!(failures(&hellos), 0);
        assert_eq!(failures(&pings), 2);
        let replies = talk(&mut responder, &pings[..2], 1 << 20);
        assert_ne!(replies[0], replies[1], "no two answers are the same");
    }

    #[test]
    fn documents_to_write_are_counted_and_have_an_id() {
        let written = |with_id: bool| {
            let mut responder = responder();
            let mut sent = Vec::new();
            let mut writer = CommandWriter::new(&mut sent, 5);
            writer.str("insert", "written");
            let mut sequence = writer.sequence("documents");
            for id in 0..3 {
                match with_id {
                    true => sequence.with(|out| Book::write(id, out)),
                    false => sequence.with(|out| out.i32("n", id)),
                }
            }
            sequence.finish().expect("short");
            responder.take(&sent).expect("well formed");
            OpMsg::read(&responder.out).expect("an answer").body().to_owned()
        };
        assert_eq!(written(true).get_i32("n").ok(), Some(3));
        assert_eq!(written(false).get_i32("ok").ok(), Some(0));
    }

    #[test]
    fn what_is_no_command_is_a_fault() {
        let mut bytes = vec![0xFF; 16];
        bytes[..4].copy_from_slice(&(1_i32 << 30).to_le_bytes());
        responder().take(&bytes).expect_err("too long");
        bytes[..4].copy_from_slice(&20_i32.to_le_bytes());
        responder().take(&bytes).expect_err("another opcode");
    }
}
