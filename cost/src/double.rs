//! What answers like a MongoDB server, as far as the rows ask. It is not measured.

use ringway_net::{Handler, Peer, View};
use ringway_wire::mongo::{CommandWriter, MongoFault, OpHeader, OpMsg};

/// Bytes of the longest command.
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// One connection.
#[derive(Default)]
pub(crate) struct MongoDouble {
    /// The front of a command that is not whole.
    partial: Vec<u8>,
    out: Vec<u8>,
}

impl Handler for MongoDouble {
    fn on_message(&mut self, peer: &Peer, view: View) {
        self.partial.extend_from_slice(&view);
        if let Err(fault) = self.answer_all() {
            eprintln!("ringway-cost: a client breaks MongoDB's protocol: {fault}");
            peer.close();
        }
        peer.write(&self.out);
        self.out.clear();
    }
}

impl MongoDouble {
    fn answer_all(&mut self) -> Result<(), MongoFault> {
        while let Some(header) = OpHeader::read(&self.partial, COMMAND_BYTES_MAX)? {
            let Some((message, rest)) = self.partial.split_at_checked(header.len) else { break };
            let (start, rest) = (self.out.len(), rest.to_vec());
            answer(&OpMsg::read(message)?, CommandWriter::new(&mut self.out, 1));
            self.out[start + 8..start + 12].copy_from_slice(&header.request_id.to_le_bytes());
            self.partial = rest;
        }
        Ok(())
    }
}

fn answer(command: &OpMsg<'_>, mut writer: CommandWriter<'_>) {
    let first = command.body().iter().next().and_then(Result::ok);
    match first.map_or("", |(name, _)| name.as_str()) {
        "hello" | "isMaster" | "ismaster" => {
            writer.bool("helloOk", true);
            writer.bool("isWritablePrimary", true);
            writer.bool("ismaster", true);
            writer.i32("maxBsonObjectSize", 16 << 20);
            writer.i32("maxMessageSizeBytes", 48_000_000);
            writer.i32("maxWriteBatchSize", 100_000);
            writer.i32("logicalSessionTimeoutMinutes", 30);
            writer.i32("connectionId", 1);
            writer.i32("minWireVersion", 0);
            writer.i32("maxWireVersion", 21);
            writer.bool("readOnly", false);
        }
        "find" => {
            writer.nested("cursor", |cursor| {
                cursor.i64("id", 0);
                cursor.str("ns", "cost.books");
                cursor.array("firstBatch", |batch| {
                    batch.nested("0", |book| {
                        book.i32("_id", 7);
                        book.str("title", "Emma, a novel in three volumes");
                        book.f64("price", 1.5);
                    });
                });
            });
        }
        "insert" => writer.i32("n", 1),
        _ => {}
    }
    writer.i32("ok", 1);
    writer.finish().expect("far below the bound of a message");
}
