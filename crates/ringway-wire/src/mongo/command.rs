//! Commands, written straight into the send buffer.

use bson::oid::ObjectId;
use bson::spec::{BinarySubtype, ElementType};
use bson::{RawDocument, RawDocumentBuf};

use super::fault::MongoFault;
use super::limits::MONGO_MESSAGE_MAX;
use super::op_header::{HEADER_LEN, MongoOpcode, OpHeader};
use super::op_msg::MsgFlags;

/// The number of a session, a UUID of version 4.
pub type SessionId = [u8; 16];

/// The part of a command that is the same each time, encoded once.
///
/// It begins with the command's name, as servers demand, and names the database. A command made from it
/// is that part with a request id and a session id patched in, and its arguments behind.
#[derive(Debug, Clone)]
pub struct CommandTemplate {
    /// A message up to where the arguments begin.
    bytes: Vec<u8>,
    /// Where the number of the session lies.
    session_at: Option<usize>,
}

/// Where the flags of a message lie.
const FLAGS_AT: usize = HEADER_LEN;

/// Where the body of a message lies: behind the flags and the kind of its section.
const BODY_AT: usize = FLAGS_AT + 4 + 1;

impl CommandTemplate {
    /// A command whose name has the value `argument`: the name of a collection, or 1.
    ///
    /// # Panics
    /// Panics if `command` contains a zero byte.
    #[must_use]
    pub fn new<'a>(
        command: &str,
        argument: impl Into<CommandArgument<'a>>,
        database: &str,
    ) -> Self {
        let mut bytes = Vec::new();
        let mut writer = CommandWriter::new(&mut bytes, 0);
        match argument.into() {
            CommandArgument::Text(text) => writer.str(command, text),
            CommandArgument::Number(number) => writer.i32(command, number),
        }
        writer.str("$db", database);
        Self { bytes, session_at: None }
    }

    /// The same command in a session, whose number each use gives.
    #[must_use]
    pub fn with_session(mut self) -> Self {
        let mut writer = CommandWriter { start: 0, out: &mut self.bytes };
        let at = writer.nested("lsid", |lsid| lsid.uuid("id", &[0; 16]));
        // The number is the last thing of a document, which ends with a zero byte.
        debug_assert_eq!(at, self.bytes.len());
        self.session_at = Some(at - 1 - size_of::<SessionId>());
        self
    }

    /// The same command with a field that is always the same.
    #[must_use]
    pub fn with(mut self, write: impl FnOnce(&mut CommandWriter<'_>)) -> Self {
        write(&mut CommandWriter { start: 0, out: &mut self.bytes });
        self
    }

    /// Begins a command at the end of `out`, which is whole with [`CommandWriter::finish`].
    pub fn begin<'o>(
        &self,
        request_id: i32,
        session: Option<&SessionId>,
        out: &'o mut Vec<u8>,
    ) -> CommandWriter<'o> {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        out[start + 4..start + 8].copy_from_slice(&request_id.to_le_bytes());
        if let (Some(at), Some(session)) = (self.session_at, session) {
            out[start + at..][..session.len()].copy_from_slice(session);
        }
        CommandWriter { out, start }
    }
}

/// The value of a command's name.
#[derive(Debug, Clone, Copy)]
pub enum CommandArgument<'a> {
    /// The name of a collection.
    Text(&'a str),
    /// A number; 1 for most commands.
    Number(i32),
}

impl<'a> From<&'a str> for CommandArgument<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<i32> for CommandArgument<'_> {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// Writes one command. Fields of the body come first, then sequences of documents, then
/// [`finish`](Self::finish); a command that is not finished has to be cut off its buffer again.
///
/// Names of fields are given by the program. They contain no zero byte: each method panics on one.
#[derive(Debug)]
pub struct CommandWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Where the command begins in `out`.
    start: usize,
}

impl<'o> CommandWriter<'o> {
    /// Begins a command without a template, whose first field is its name.
    pub fn new(out: &'o mut Vec<u8>, request_id: i32) -> Self {
        let start = out.len();
        let header = OpHeader { len: 0, request_id, response_to: 0, opcode: MongoOpcode::Msg };
        header.write(out);
        out.extend_from_slice(&[0; 4]); // no flags
        out.push(0); // a section of kind 0
        out.extend_from_slice(&[0; 4]); // the length of the body
        Self { out, start }
    }

    /// Writes a document that is part of no message.
    pub fn document_of(write: impl FnOnce(&mut CommandWriter<'_>)) -> RawDocumentBuf {
        Self::document_with_capacity(0, write)
    }

    /// Writes a document that is part of no message, into so many bytes if they are enough.
    pub fn document_with_capacity(
        capacity: usize,
        write: impl FnOnce(&mut CommandWriter<'_>),
    ) -> RawDocumentBuf {
        let mut out = Vec::with_capacity(capacity);
        CommandWriter { out: &mut out, start: 0 }.within(write);
        RawDocumentBuf::from_bytes(out).expect("its length and its end were written just now")
    }

    /// Sets flags.
    pub fn flags(&mut self, flags: MsgFlags) {
        let at = self.start + FLAGS_AT;
        self.out[at..at + 4].copy_from_slice(&flags.bits().to_le_bytes());
    }

    /// Appends all fields of a document.
    pub fn fields(&mut self, document: &RawDocument) {
        let bytes = document.as_bytes();
        self.out.extend_from_slice(&bytes[4..bytes.len() - 1]);
    }

    /// Appends an integer.
    pub fn i32(&mut self, name: &str, value: i32) {
        self.name(ElementType::Int32, name);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends an integer of 64 bits.
    pub fn i64(&mut self, name: &str, value: i64) {
        self.name(ElementType::Int64, name);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a number.
    pub fn f64(&mut self, name: &str, value: f64) {
        self.name(ElementType::Double, name);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a truth value.
    pub fn bool(&mut self, name: &str, value: bool) {
        self.name(ElementType::Boolean, name);
        self.out.push(value.into());
    }

    /// Appends a string.
    pub fn str(&mut self, name: &str, value: &str) {
        self.name(ElementType::String, name);
        self.len_of(value.len() + 1);
        self.out.extend_from_slice(value.as_bytes());
        self.out.push(0);
    }

    /// Appends an object id.
    pub fn object_id(&mut self, name: &str, value: ObjectId) {
        self.name(ElementType::ObjectId, name);
        self.out.extend_from_slice(&value.bytes());
    }

    /// Appends bytes.
    pub fn binary(&mut self, name: &str, value: &[u8]) {
        self.binary_of(BinarySubtype::Generic, name, value);
    }

    /// Appends a UUID.
    pub fn uuid(&mut self, name: &str, value: &[u8; 16]) {
        self.binary_of(BinarySubtype::Uuid, name, value);
    }

    /// Appends a document.
    pub fn document(&mut self, name: &str, value: &RawDocument) {
        self.name(ElementType::EmbeddedDocument, name);
        self.out.extend_from_slice(value.as_bytes());
    }

    /// Appends an array of documents.
    pub fn documents<'d>(&mut self, name: &str, values: impl IntoIterator<Item = &'d RawDocument>) {
        self.name(ElementType::Array, name);
        self.within(|writer| {
            for (index, value) in values.into_iter().enumerate() {
                writer.document(&index.to_string(), value);
            }
        });
    }

    /// Appends an array whose elements `write` appends, named by their positions.
    pub fn array(&mut self, name: &str, write: impl FnOnce(&mut CommandWriter<'_>)) {
        self.name(ElementType::Array, name);
        self.within(write);
    }

    /// Appends an array that is encoded already: a document with its length.
    pub fn raw_array(&mut self, name: &str, array: &RawDocument) {
        self.name(ElementType::Array, name);
        self.out.extend_from_slice(array.as_bytes());
    }

    /// Appends an array of strings.
    pub fn strs<'s>(&mut self, name: &str, values: impl IntoIterator<Item = &'s str>) {
        self.name(ElementType::Array, name);
        self.within(|writer| {
            for (index, value) in values.into_iter().enumerate() {
                writer.str(&index.to_string(), value);
            }
        });
    }

    /// Appends a document whose fields `write` appends. Returns where it ends.
    pub fn nested(&mut self, name: &str, write: impl FnOnce(&mut CommandWriter<'_>)) -> usize {
        self.name(ElementType::EmbeddedDocument, name);
        self.within(write);
        self.out.len()
    }

    /// Ends the body and begins the documents of a field that is an array, which may be longer than a
    /// document can be.
    #[must_use]
    pub fn sequence(mut self, identifier: &str) -> SequenceWriter<'o> {
        self.end_body();
        begin_sequence(identifier, self.start, self.out)
    }

    /// Ends the command and fills its lengths. Returns how long it is, in bytes.
    ///
    /// # Errors
    /// [`MongoFault::TooLong`]: no server would take it. It was cut off the buffer again.
    pub fn finish(mut self) -> Result<usize, MongoFault> {
        self.end_body();
        end_message(self.start, self.out)
    }

    fn end_body(&mut self) {
        self.out.push(0);
        fill_len(self.start + BODY_AT, self.out);
    }

    fn name(&mut self, kind: ElementType, name: &str) {
        self.out.push(kind as u8);
        put_cstring(name, self.out);
    }

    fn binary_of(&mut self, subtype: BinarySubtype, name: &str, value: &[u8]) {
        self.name(ElementType::Binary, name);
        self.len_of(value.len());
        self.out.push(subtype.into());
        self.out.extend_from_slice(value);
    }

    /// A length of 32 bits. One that does not fit belongs to a message that is far too long, which
    /// `finish` refuses.
    fn len_of(&mut self, len: usize) {
        self.out.extend_from_slice(&i32::try_from(len).unwrap_or(i32::MAX).to_le_bytes());
    }

    fn within(&mut self, write: impl FnOnce(&mut CommandWriter<'_>)) {
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        write(&mut CommandWriter { out: self.out, start: self.start });
        self.out.push(0);
        fill_len(at, self.out);
    }
}

/// Writes the documents of one field of a command.
#[derive(Debug)]
pub struct SequenceWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Where the command begins in `out`.
    start: usize,
    /// Where the section's length lies in `out`.
    section: usize,
}

impl<'o> SequenceWriter<'o> {
    /// Appends a document.
    pub fn document(&mut self, value: &RawDocument) {
        self.out.extend_from_slice(value.as_bytes());
    }

    /// Appends a document whose fields `write` appends.
    pub fn with(&mut self, write: impl FnOnce(&mut CommandWriter<'_>)) {
        CommandWriter { out: self.out, start: self.start }.within(write);
    }

    /// Ends these documents, and begins those of another field.
    #[must_use]
    pub fn sequence(self, identifier: &str) -> SequenceWriter<'o> {
        fill_len(self.section, self.out);
        begin_sequence(identifier, self.start, self.out)
    }

    /// Bytes of the command until now.
    #[must_use]
    pub fn command_len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Ends the command, like [`CommandWriter::finish`].
    ///
    /// # Errors
    /// Those of [`CommandWriter::finish`].
    pub fn finish(self) -> Result<usize, MongoFault> {
        fill_len(self.section, self.out);
        end_message(self.start, self.out)
    }
}

fn begin_sequence<'o>(identifier: &str, start: usize, out: &'o mut Vec<u8>) -> SequenceWriter<'o> {
    out.push(1);
    let section = out.len();
    out.extend_from_slice(&[0; 4]);
    put_cstring(identifier, out);
    SequenceWriter { out, start, section }
}

fn end_message(start: usize, out: &mut Vec<u8>) -> Result<usize, MongoFault> {
    let len = out.len() - start;
    if len > MONGO_MESSAGE_MAX {
        out.truncate(start);
        return Err(MongoFault::TooLong { len, max: MONGO_MESSAGE_MAX });
    }
    fill_len(start, out);
    Ok(len)
}

/// Fills the length at `at`, which counts itself and all that is behind it. One that does not fit belongs
/// to a message that is refused.
fn fill_len(at: usize, out: &mut [u8]) {
    let len = i32::try_from(out.len() - at).unwrap_or(i32::MAX);
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

fn put_cstring(text: &str, out: &mut Vec<u8>) {
    assert!(!text.as_bytes().contains(&0), "the name of a field contains a zero byte");
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}
