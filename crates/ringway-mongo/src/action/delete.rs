//! `delete`

use std::sync::Arc;

use bson::RawDocumentBuf;
use ringway_wire::mongo::CommandWriter;

use super::explain::{Explain, Verbosity};
use super::settings::{Fields, Settings, awaitable, option};
use super::write_reply;
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::Answer;
use crate::error::Result;
use crate::raw_argument::{IntoRaw, array};
use crate::running::{OnCore, Operation};

/// A removal of documents, made by [`Collection::delete_one`](crate::Collection::delete_one) and
/// [`delete_many`](crate::Collection::delete_many). Await it to have it done.
#[must_use = "an action does nothing until it is awaited"]
pub struct Delete {
    settings: Settings,
    statement: Fields,
    purpose: Purpose,
}

/// What a removal has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteResult {
    /// Documents that are gone.
    pub deleted: u64,
}

impl Delete {
    pub(crate) fn new(
        shared: &Arc<CollectionShared>,
        filter: Result<RawDocumentBuf>,
        is_multi: bool,
    ) -> Self {
        let purpose = if is_multi { Purpose::WriteOnce } else { Purpose::Write };
        let statement = delete_statement(filter, is_multi);
        Self { settings: Settings::new(shared), statement, purpose }
    }

    /// Has the server tell how it would execute this, instead of doing it.
    pub fn explain(self, verbosity: Verbosity) -> Explain {
        let mut own = Fields::default();
        own.set_raw("deletes", self.statement.into_document().and_then(|it| array([it])));
        Explain::new(self.settings, CommandKind::Delete, own, verbosity)
    }

    option!(statement.collation);
    option!(statement.hint);
    option!(settings.let_vars);
    option!(settings.comment);
    option!(settings.write_concern);
    option!(settings.session);
    option!(settings.timeout);
}

/// One entry of `deletes`.
pub(crate) fn delete_statement(filter: Result<RawDocumentBuf>, is_multi: bool) -> Fields {
    let mut statement = Fields::default();
    statement.set_document("q", filter);
    statement.set("limit", i32::from(!is_multi));
    statement
}

impl Operation for Delete {
    type Output = DeleteResult;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<DeleteResult> {
        let statement = self.statement.into_document()?;
        let write = |mut delete: CommandWriter<'_>| {
            delete.bool("ordered", true);
            let mut sequence = delete.sequence("deletes");
            sequence.document(&statement);
            sequence.finish()
        };
        let read = |answer: Answer<'_>| {
            write_reply::check(answer.body())?;
            Ok(DeleteResult { deleted: write_reply::count(answer.body(), "n") })
        };
        self.settings.run(&core, (CommandKind::Delete, self.purpose), write, read).await
    }
}

awaitable!(Delete);
