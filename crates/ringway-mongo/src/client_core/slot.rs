//! Where a command is written, and the fields that belong to no command in particular.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandTemplate, CommandWriter, MsgFlags, SessionId};

use crate::connection::ServerLimits;
use crate::error::Result;
use crate::session::ClusterTime;
use crate::transaction::TransactionFields;

/// Where a command is to be written.
pub(crate) struct Slot<'a> {
    pub(crate) id: i32,
    /// `txnNumber` of a write that may be repeated.
    pub(super) number: Option<i64>,
    pub(super) fields: &'a SessionFields,
    /// `$readPreference`
    pub(super) read_preference: Option<&'a RawDocumentBuf>,
    pub(super) is_unanswered: bool,
    /// What the server takes.
    pub(crate) limits: ServerLimits,
    pub(crate) out: &'a mut Vec<u8>,
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
    /// Begins a command of a cursor, which has the session and the transaction only.
    pub(crate) fn begin_more(self, name: &str, cursor: i64) -> CommandWriter<'a> {
        let mut writer = CommandWriter::new(self.out, self.id);
        writer.i64(name, cursor);
        put_general(&mut writer, self.fields, None, None);
        writer
    }

    /// Begins a command by its template, with the session if there is one.
    pub(crate) fn begin(self, template: &CommandTemplate) -> CommandWriter<'a> {
        let mut writer = template.begin(self.id, None, self.out);
        if self.is_unanswered {
            writer.flags(MsgFlags::MORE_TO_COME);
        }
        put_general(&mut writer, self.fields, self.number, self.read_preference);
        put_concern(&mut writer, self.fields);
        writer
    }

    /// Writes a command that has no template: `document`, whose first field is its name.
    pub(crate) fn write_any(self, document: &RawDocument, database: &str) -> Result {
        let mut writer = CommandWriter::new(self.out, self.id);
        writer.fields(document);
        writer.str("$db", database);
        let preference = self.read_preference.filter(|_| !has_preference(document));
        put_general(&mut writer, self.fields, self.number, preference);
        put_concern(&mut writer, self.fields);
        writer.finish().map(drop).map_err(crate::connection::unsendable)
    }
}

/// Whether a command of the user says itself which servers may answer it.
pub(crate) fn has_preference(command: &RawDocument) -> bool {
    matches!(command.get("$readPreference"), Ok(Some(_)))
}

/// Writes the fields that belong to no command in particular.
fn put_general(
    writer: &mut CommandWriter<'_>,
    fields: &SessionFields,
    number: Option<i64>,
    read_preference: Option<&RawDocumentBuf>,
) {
    if let Some(session) = &fields.id {
        writer.nested("lsid", |lsid| lsid.uuid("id", session));
    }
    if let Some(time) = &fields.cluster_time {
        writer.document("$clusterTime", time.document());
    }
    if let Some(number) = number {
        writer.i64("txnNumber", number);
    }
    if let Some(preference) = read_preference {
        writer.document("$readPreference", preference);
    }
    if let Some(transaction) = &fields.transaction {
        writer.i64("txnNumber", transaction.number);
        if transaction.is_first {
            writer.bool("startTransaction", true);
        }
        writer.bool("autocommit", false);
    }
}

/// Writes the read concern that is not the command's own.
fn put_concern(writer: &mut CommandWriter<'_>, fields: &SessionFields) {
    let of_transaction = fields.transaction.as_ref().and_then(|it| it.read_concern.as_ref());
    if let Some(concern) = of_transaction.or(fields.read_concern.as_ref()) {
        writer.document("readConcern", concern);
    }
}
