//! Where a command is written, and the fields that belong to no command in particular.

use std::cell::Cell;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandTemplate, CommandWriter, MsgFlags, SessionId};

use crate::connection::ServerLimits;
use crate::error::Result;
use crate::limits::WIRE_VERSION_MORE_COMMENTS;
use crate::session::ClusterTime;
use crate::transaction::TransactionFields;

/// Where a command is to be written.
pub(crate) struct Slot<'a> {
    pub(crate) id: i32,
    pub(super) terms: SlotTerms<'a>,
    pub(crate) out: &'a mut Vec<u8>,
}

/// What is written besides the command itself.
#[derive(Clone, Copy)]
pub(super) struct SlotTerms<'a> {
    /// `txnNumber` of a write that may be repeated.
    pub(super) number: Option<i64>,
    /// Set by a write that turns out to be none that may be repeated.
    pub(super) is_once: &'a Cell<bool>,
    pub(super) fields: &'a SessionFields,
    /// Fields that declare a version of the server's interface.
    pub(super) api: Option<&'a RawDocumentBuf>,
    /// `$readPreference`
    pub(super) read_preference: Option<&'a RawDocumentBuf>,
    /// `maxTimeMS`, if the server is told how long it may work.
    pub(super) max_time: Option<i64>,
    pub(super) is_unanswered: bool,
    /// What the server takes.
    pub(super) limits: ServerLimits,
    /// The highest version of the protocol that it speaks.
    pub(super) wire_version: i32,
}

/// What a session adds to a command.
#[derive(Default)]
pub(super) struct SessionFields {
    pub(super) id: Option<SessionId>,
    pub(super) cluster_time: Option<Arc<ClusterTime>>,
    /// Of a command that is no part of a transaction, if its template has it not.
    pub(super) read_concern: Option<RawDocumentBuf>,
    pub(super) transaction: Option<TransactionFields>,
}

/// The read concern of a command whose template has none, because its session adds to it.
#[derive(Clone, Copy)]
pub(crate) struct ReadConcernOf<'a>(pub(crate) Option<&'a RawDocumentBuf>);

impl<'a> Slot<'a> {
    /// What the server takes.
    pub(crate) fn limits(&self) -> ServerLimits {
        self.terms.limits
    }

    /// Whether the server takes a comment with the question for more of a cursor.
    ///
    /// Specification: Find, getMore and killCursors Commands: servers before MongoDB 4.4 refuse it.
    pub(crate) fn takes_comments_of_more(&self) -> bool {
        self.terms.wire_version >= WIRE_VERSION_MORE_COMMENTS
    }

    /// Whether the server would know the write again.
    pub(crate) fn is_numbered(&self) -> bool {
        self.terms.number.is_some()
    }

    /// Gives up the number: what is written has parts that may not be repeated.
    pub(crate) fn send_once(&mut self) {
        self.terms.number = None;
        self.terms.is_once.set(true);
    }

    /// The same place for a first attempt at writing.
    pub(crate) fn reborrow(&mut self) -> Slot<'_> {
        Slot { id: self.id, terms: self.terms, out: &mut *self.out }
    }

    /// Begins a command of a cursor, which has the session and the transaction only.
    pub(crate) fn begin_more(self, name: &str, cursor: i64) -> CommandWriter<'a> {
        let mut writer = CommandWriter::new(self.out, self.id);
        writer.i64(name, cursor);
        put_general(&mut writer, &SlotTerms { read_preference: None, ..self.terms }, None);
        writer
    }

    /// Begins a command by its template, with the session if there is one.
    pub(crate) fn begin(self, template: &CommandTemplate) -> CommandWriter<'a> {
        let mut writer = template.begin(self.id, None, self.out);
        if self.terms.is_unanswered {
            writer.flags(MsgFlags::MORE_TO_COME);
        }
        put_general(&mut writer, &self.terms, None);
        put_concern(&mut writer, self.terms.fields);
        put_time(&mut writer, self.terms.max_time);
        writer
    }

    /// Writes a command that has no template: `document`, whose first field is its name. The fields that it has itself stay
    /// as they are.
    pub(crate) fn write_any(self, document: &RawDocument, database: &str) -> Result {
        let mut writer = CommandWriter::new(self.out, self.id);
        writer.fields(document);
        // A field that comes twice is refused by some servers, and is the first or the last one to others.
        if !has_field(document, "$db") {
            writer.str("$db", database);
        }
        put_general(&mut writer, &self.terms, Some(document));
        if !has_field(document, "readConcern") {
            put_concern(&mut writer, self.terms.fields);
        }
        put_time(&mut writer, self.terms.max_time.filter(|_| !has_field(document, MAX_TIME)));
        writer.finish().map(drop).map_err(crate::connection::unsendable)
    }
}

/// How long the server works on a command at most.
pub(crate) const MAX_TIME: &str = "maxTimeMS";

/// Whether a command of the user has a field of this name itself.
pub(crate) fn has_field(command: &RawDocument, name: &str) -> bool {
    matches!(command.get(name), Ok(Some(_)))
}

/// Writes the fields that belong to no command in particular, but for those that the command has itself.
fn put_general(
    writer: &mut CommandWriter<'_>,
    terms: &SlotTerms<'_>,
    command: Option<&RawDocument>,
) {
    let fields = terms.fields;
    let is_free = |name| command.is_none_or(|command| !has_field(command, name));
    if let Some(session) = fields.id.as_ref().filter(|_| is_free("lsid")) {
        writer.nested("lsid", |lsid| lsid.uuid("id", session));
    }
    if let Some(time) = fields.cluster_time.as_ref().filter(|_| is_free("$clusterTime")) {
        writer.document("$clusterTime", time.document());
    }
    let number = fields.transaction.as_ref().map(|it| it.number).or(terms.number);
    if let Some(number) = number.filter(|_| is_free("txnNumber")) {
        writer.i64("txnNumber", number);
    }
    terms.api.iter().for_each(|api| writer.fields(api));
    if let Some(preference) = terms.read_preference.filter(|_| is_free("$readPreference")) {
        writer.document("$readPreference", preference);
    }
    if let Some(transaction) = &fields.transaction {
        if transaction.is_first && is_free("startTransaction") {
            writer.bool("startTransaction", true);
        }
        if is_free("autocommit") {
            writer.bool("autocommit", false);
        }
    }
}

/// Writes the read concern that is not the command's own.
fn put_concern(writer: &mut CommandWriter<'_>, fields: &SessionFields) {
    let of_transaction = fields.transaction.as_ref().and_then(|it| it.read_concern.as_ref());
    if let Some(concern) = of_transaction.or(fields.read_concern.as_ref()) {
        writer.document("readConcern", concern);
    }
}

/// Writes how long the server may work.
fn put_time(writer: &mut CommandWriter<'_>, max_time: Option<i64>) {
    max_time.into_iter().for_each(|millis| writer.i64(MAX_TIME, millis));
}
