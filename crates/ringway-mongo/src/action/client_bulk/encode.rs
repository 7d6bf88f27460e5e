//! Writes as `bulkWrite` has them, and how many of them one command takes.

use std::collections::HashMap;

use bson::raw::cstr;
use bson::{Bson, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::CommandWriter;

use super::super::bulk_run::BulkStatement;
use crate::collection_shared::CommandKind;
use crate::connection::{ServerLimits, unsendable};
use crate::error::Result;

/// Bytes beside a write's own: its length, its kind, the number of its collection, and the name of the field.
const OP_LEN: usize = 40;

/// Bytes beside the name of a collection.
const NAMESPACE_LEN: usize = 16;

/// Bytes beside both lists: the head and the name of the second one.
const LISTS_LEN: usize = 32;

/// One write.
pub(super) struct Op {
    pub(super) kind: CommandKind,
    pub(super) is_multi: bool,
    /// Of a document to insert.
    pub(super) id: Option<Bson>,
    namespace: String,
    /// The document to insert, or the fields behind the number of the collection.
    document: RawDocumentBuf,
}

impl Op {
    pub(super) fn new(namespace: String, statement: BulkStatement) -> Result<Self> {
        let id = match statement.kind {
            CommandKind::Insert => Some(statement.id()?),
            _ => None,
        };
        let BulkStatement { kind, is_multi, document } = statement;
        let document = match kind {
            CommandKind::Insert => document,
            _ => renamed(&document, is_multi),
        };
        Ok(Self { kind, is_multi, id, namespace, document })
    }

    fn write(&self, at: i32, op: &mut CommandWriter<'_>) {
        match self.kind {
            CommandKind::Insert => {
                op.i32("insert", at);
                op.document("document", &self.document);
            }
            CommandKind::Update => {
                op.i32("update", at);
                op.fields(&self.document);
            }
            _ => {
                op.i32("delete", at);
                op.fields(&self.document);
            }
        }
    }
}

/// The fields of an entry of `updates` or `deletes`, by the names that they have here.
fn renamed(statement: &RawDocument, is_multi: bool) -> RawDocumentBuf {
    let mut fields = RawDocumentBuf::new();
    for (key, value) in statement.iter().flatten() {
        match key.as_str() {
            "q" => fields.append(cstr!("filter"), value),
            "u" => fields.append(cstr!("updateMods"), value),
            "multi" | "limit" => {}
            _ => fields.append(key, value),
        }
    }
    fields.append(cstr!("multi"), is_multi);
    fields
}

/// Ends a command with as many writes as its server takes, or with `planned` ones. Returns how many.
pub(super) fn write(
    command: CommandWriter<'_>,
    ops: &[Op],
    limits: ServerLimits,
    planned: Option<usize>,
) -> Result<usize> {
    let mut sequence = command.sequence("ops");
    let (mut namespaces, mut names) = (HashMap::new(), Vec::new());
    let (mut count, mut names_len) = (0, LISTS_LEN);
    for op in ops {
        let is_new = !namespaces.contains_key(&*op.namespace);
        let name_len = if is_new { NAMESPACE_LEN + op.namespace.len() } else { 0 };
        let op_len = OP_LEN + op.document.as_bytes().len();
        let len = sequence.command_len() + names_len + name_len + op_len;
        let is_full = match planned {
            Some(planned) => count == planned,
            // A single one that is too long is the server's to refuse.
            None => count == limits.writes_max || count > 0 && len > limits.message_len_max,
        };
        if is_full {
            break;
        }
        let at = *namespaces.entry(&*op.namespace).or_insert_with(|| {
            names.push(&*op.namespace);
            names.len() - 1
        });
        sequence.with(|writer| op.write(i32::try_from(at).unwrap_or(i32::MAX), writer));
        (count, names_len) = (count + 1, names_len + name_len);
    }
    let mut sequence = sequence.sequence("nsInfo");
    names.iter().for_each(|name| sequence.with(|writer| writer.str("ns", name)));
    sequence.finish().map_err(unsendable)?;
    Ok(count)
}
