//! Where a command is written, and the fields that belong to no command in particular.

use bson::{RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandTemplate, CommandWriter, MsgFlags, SessionId};

use crate::error::Result;
use crate::transaction::TransactionFields;

/// Where a command is to be written.
pub(crate) struct Slot<'a> {
    pub(crate) id: i32,
    pub(crate) session: Option<&'a SessionId>,
    /// `txnNumber` of a write that may be repeated.
    pub(super) number: Option<i64>,
    pub(super) transaction: Option<&'a TransactionFields>,
    /// `$readPreference`
    pub(super) read_preference: Option<&'a RawDocumentBuf>,
    pub(super) is_unanswered: bool,
    pub(crate) out: &'a mut Vec<u8>,
}

impl<'a> Slot<'a> {
    /// Begins a command of a cursor, which has the session and the transaction only.
    pub(crate) fn begin_more(self, name: &str, cursor: i64) -> CommandWriter<'a> {
        let mut writer = CommandWriter::new(self.out, self.id);
        writer.i64(name, cursor);
        put_general(&mut writer, self.session, None, None);
        put_transaction(&mut writer, self.transaction);
        writer
    }

    /// Begins a command by its template, with the session if there is one.
    pub(crate) fn begin(self, template: &CommandTemplate) -> CommandWriter<'a> {
        let mut writer = template.begin(self.id, None, self.out);
        if self.is_unanswered {
            writer.flags(MsgFlags::MORE_TO_COME);
        }
        put_general(&mut writer, self.session, self.number, self.read_preference);
        put_transaction(&mut writer, self.transaction);
        writer
    }

    /// Writes a command that has no template: `document`, whose first field is its name.
    pub(crate) fn write_any(self, document: &RawDocument, database: &str) -> Result {
        let mut writer = CommandWriter::new(self.out, self.id);
        writer.fields(document);
        writer.str("$db", database);
        let preference = self.read_preference.filter(|_| !has_preference(document));
        put_general(&mut writer, self.session, self.number, preference);
        put_transaction(&mut writer, self.transaction);
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
    session: Option<&SessionId>,
    number: Option<i64>,
    read_preference: Option<&RawDocumentBuf>,
) {
    if let Some(session) = session {
        writer.nested("lsid", |lsid| lsid.uuid("id", session));
    }
    if let Some(number) = number {
        writer.i64("txnNumber", number);
    }
    if let Some(preference) = read_preference {
        writer.document("$readPreference", preference);
    }
}

/// Writes the fields that a transaction adds to a command.
fn put_transaction(writer: &mut CommandWriter<'_>, transaction: Option<&TransactionFields>) {
    let Some(fields) = transaction else { return };
    writer.i64("txnNumber", fields.number);
    if fields.is_first {
        writer.bool("startTransaction", true);
    }
    writer.bool("autocommit", false);
    if let Some(concern) = &fields.read_concern {
        writer.document("readConcern", concern);
    }
}
