//! Many writes to several collections at once: `bulkWrite`, which servers have from MongoDB 8.0 on.
//!
//! Specification: Bulk Write (client).

mod encode;
mod outcome;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandTemplate, MongoFault};

use self::encode::Op;
use super::bulk::WriteModel;
use super::settings::{Settings, awaitable, check_unanswered, option};
use crate::bulk_failure::{BulkFailure, BulkWriteResult};
use crate::client_core::{Attempt, ClientCore, Purpose, ReadConcernOf, Slot};
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind, Concerns};
use crate::connection::{Answer, OwnedAnswer};
use crate::cursor::{Cursor, Place};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::BATCH_WRITES_MAX;
use crate::raw_argument::IntoRaw;
use crate::running::{OnCore, Operation};
use crate::session::UsedSession;

/// Where the command is sent, and where its cursor is.
const DATABASE: &str = "admin";
const CURSOR_NAME: &str = "$cmd.bulkWrite";

/// A write with its collection, made by [`Collection::model`](crate::Collection::model) for
/// [`Client::bulk_write`](crate::Client::bulk_write).
#[must_use = "a write is done by `bulk_write`"]
pub struct NamespacedWrite {
    op: Result<Op>,
}

impl NamespacedWrite {
    pub(crate) fn new(database: &str, collection: &str, write: WriteModel) -> Self {
        let namespace = format!("{database}.{collection}");
        Self { op: write.into_statement().and_then(|statement| Op::new(namespace, statement)) }
    }
}

/// Many writes to several collections, made by [`Client::bulk_write`](crate::Client::bulk_write). Awaiting it returns what
/// they have done; an error has all that failed, and what was done all the same: [`Error::bulk`](crate::Error::bulk).
#[must_use = "an action does nothing until it is awaited"]
pub struct ClientBulkWrite {
    settings: Settings,
    ops: Result<Vec<Op>>,
    is_ordered: bool,
    is_verbose: bool,
    /// Whether nobody answers; known when it runs.
    is_unanswered: bool,
}

impl ClientBulkWrite {
    pub(crate) fn new(
        client: &Arc<ClientShared>,
        writes: impl IntoIterator<Item = NamespacedWrite>,
    ) -> Self {
        let (database, name) = (Arc::from(DATABASE), Arc::from(CURSOR_NAME));
        let concerns = Concerns::of(client);
        let shared = CollectionShared::new(Arc::clone(client), database, name, concerns);
        let ops = writes.into_iter().map(|write| write.op).collect();
        let settings = Settings::new(&Arc::new(shared));
        Self { settings, ops, is_ordered: true, is_verbose: false, is_unanswered: false }
    }

    /// Sets whether the first error ends it; true by default. Otherwise all writes are tried, and the server may do them in
    /// any order.
    pub fn ordered(mut self, is_ordered: bool) -> Self {
        self.is_ordered = is_ordered;
        self
    }

    /// Sets whether the result has what each write has done ([`BulkWriteResult::outcomes`]), and not only counts; false by
    /// default.
    pub fn verbose_results(mut self, is_verbose: bool) -> Self {
        self.is_verbose = is_verbose;
        self
    }

    option!(settings.let_vars);
    option!(settings.comment);
    option!(settings.bypass_document_validation);
    option!(settings.write_concern);
    option!(settings.session);
    option!(settings.timeout);

    /// # Errors
    /// [`Kind::Options`]: there is nothing to do, or what is asked for cannot be known.
    fn check(&mut self, ops: &[Op]) -> Result {
        self.settings.fields.check()?;
        if ops.is_empty() {
            return Err(wrong("there is nothing to write"));
        }
        let is_asked = CommandKind::Update.is_unanswered(self.settings.concerns_now());
        self.is_unanswered = is_asked && !self.settings.is_in_transaction();
        if self.is_unanswered && self.is_verbose {
            return Err(wrong(
                "Cannot request unacknowledged write concern and verbose results: nobody knows them",
            ));
        }
        if self.is_unanswered && self.is_ordered {
            return Err(wrong(
                "Cannot request unacknowledged write concern and ordered writes: call ordered(false)",
            ));
        }
        Ok(())
    }

    /// Sends as many writes as one command takes. Returns how many, and the reply in its session.
    async fn send(
        &self,
        core: &Rc<ClientCore>,
        options: &RawDocument,
        ops: &[Op],
    ) -> Result<(usize, Option<(UsedSession, OwnedAnswer)>)> {
        let mut session = self.settings.used_session(core)?;
        let template = CommandTemplate::new("bulkWrite", 1, DATABASE);
        // Of a transaction, the commit has the concern.
        let concern = self.settings.concerns_now().write.as_ref();
        let concern = concern.filter(|_| !session.transaction.is_open());
        let ops = &ops[..ops.len().min(BATCH_WRITES_MAX)];
        let purpose = if self.is_unanswered { Purpose::Unanswered } else { Purpose::Write };
        check_unanswered(purpose, &session)?;
        self.settings.check_concern(&session)?;
        // A write that is sent again has to be the same, whatever another server takes.
        let count = Cell::new(None);
        let write_in = |slot: Slot<'_>| {
            let limits = slot.limits();
            let mut command = slot.begin(&template);
            command.bool("errorsOnly", !self.is_verbose);
            command.bool("ordered", self.is_ordered);
            command.fields(options);
            concern.iter().for_each(|concern| command.document("writeConcern", concern));
            let written = encode::write(command, ops, limits, count.get())?;
            count.set(Some(written));
            Ok(written)
        };
        let write = |mut slot: Slot<'_>| {
            let begin = slot.out.len();
            let written = write_in(slot.reborrow())?;
            // How many writes fit is known when they are written, and only then whether they may be repeated.
            if slot.is_numbered() && ops[..written].iter().any(|op| op.is_multi) {
                slot.out.truncate(begin);
                slot.send_once();
                write_in(slot)?;
            }
            Ok(())
        };
        let time = self.settings.time(core);
        let concern = (!session.transaction.is_open()).then_some(ReadConcernOf(None));
        let attempt = Attempt { concern, ..Attempt::new(&mut session, time, purpose) };
        let answer =
            core.run_in(attempt, write, |answer: Answer<'_>| Ok(answer.into_owned())).await?;
        let count = count.get().expect("it was written, as it was answered");
        Ok((count, (purpose != Purpose::Unanswered).then_some((session, answer))))
    }
}

impl Operation for ClientBulkWrite {
    type Output = BulkWriteResult;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<BulkWriteResult> {
        let ops = std::mem::replace(&mut self.ops, Ok(Vec::new()))?;
        self.check(&ops)?;
        self.settings.begin();
        let options = self.settings.fields.to_document();
        let place = Place::of(&self.settings.shared);
        let (mut done, mut from) = (BulkFailure::default(), 0);
        while from < ops.len() {
            let (count, answer) = match self.send(&core, &options, &ops[from..]).await {
                Ok(sent) => sent,
                // Nothing is known of those that were sent before, but that they were.
                Err(error) if self.is_unanswered && from > 0 => return Err(error.in_the_middle()),
                Err(error) => return Err(error.with_bulk(done)),
            };
            if let Some((session, answer)) = answer {
                let batch = &ops[from..from + count];
                let cursor = Cursor::new(&core, place.clone(), session, answer);
                let added = match cursor {
                    Ok(cursor) => {
                        let time = self.settings.time(&core);
                        time.over(take(&mut done, batch, from, cursor)).await
                    }
                    Err(error) => Err(error),
                };
                if let Err(error) = added {
                    return Err(error.with_bulk(done));
                }
            }
            from += count;
            if self.is_ordered && !done.write_errors.is_empty() {
                break;
            }
        }
        match done.write_errors.is_empty() && done.write_concern_errors.is_empty() {
            true => Ok(done.result),
            false => Err(Error::bulk_write(done, ops.len())),
        }
    }
}

/// Adds what a command has done, of which its cursor tells.
async fn take(
    done: &mut BulkFailure,
    batch: &[Op],
    from: usize,
    mut cursor: Cursor<RawDocumentBuf>,
) -> Result {
    outcome::add_counts(done, cursor.reply())?;
    let mut left = batch.len();
    while cursor.advance().await? {
        // Each write has one outcome at most, whatever the server tells.
        left = left.checked_sub(1).ok_or_else(|| Error::reply(MongoFault::Field("idx")))?;
        outcome::add(done, batch, from, cursor.current())?;
    }
    Ok(())
}

fn wrong(what: &str) -> Error {
    Error::new(Kind::Options, Fate::NotSent, what)
}

awaitable!(ClientBulkWrite);
