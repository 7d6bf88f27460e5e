//! The commands that pass through the proxy.

use std::io::Read;

use bson::{Bson, Document, RawDocumentBuf};
use ringway_wire::mongo::OpMsg;

use super::super::fake;

const MORE_TO_COME: u8 = 2;

pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    pub(super) id: i32,
    pub(super) is_unanswered: bool,
    pub(super) body: Document,
}

impl Request {
    /// Whether it is to see the data of one moment: FerretDB has no such thing, and shows what it has.
    pub(super) fn reads_snapshot(&self) -> bool {
        let concern = self.body.get_document("readConcern");
        concern.is_ok_and(|concern| concern.get_str("level").is_ok_and(|it| it == "snapshot"))
    }

    pub(super) fn is_greeting(&self) -> bool {
        matches!(self.name(), "hello" | "isMaster" | "ismaster")
    }

    pub(super) fn name(&self) -> &str {
        self.body.keys().next().map_or("", String::as_str)
    }

    /// The session and the number of a numbered write.
    pub(super) fn number(&self) -> Option<(Vec<u8>, i64)> {
        if self.body.contains_key("autocommit") {
            return None; // It is of a whole transaction.
        }
        Some((self.session()?, self.body.get_i64("txnNumber").ok()?))
    }

    pub(super) fn session(&self) -> Option<Vec<u8>> {
        match self.body.get_document("lsid").ok()?.get("id")? {
            Bson::Binary(session) => Some(session.bytes.clone()),
            _ => None,
        }
    }
}

pub(super) fn message(id: i32, to: i32, body: &Document) -> Vec<u8> {
    fake::message(id, to, &RawDocumentBuf::try_from(body).expect("BSON"))
}

/// The next message, with documents of sequences in its body.
pub(super) fn read(mut stream: impl Read) -> Option<Request> {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).ok()?;
    let len = u32::from_le_bytes(bytes[..4].try_into().expect("four")) as usize;
    bytes.resize(len, 0);
    stream.read_exact(&mut bytes[4..]).ok()?;
    let id = i32::from_le_bytes(bytes[4..8].try_into().expect("four"));
    let read = OpMsg::read(&bytes).expect("a whole message");
    let mut body = Document::try_from(read.body()).expect("BSON");
    for sequence in read.sequences() {
        let documents = sequence.documents().map(|it| Document::try_from(it).expect("BSON"));
        body.insert(sequence.identifier(), documents.collect::<Vec<_>>());
    }
    let is_unanswered = bytes[16] & MORE_TO_COME != 0;
    Some(Request { id, is_unanswered, body, bytes })
}
