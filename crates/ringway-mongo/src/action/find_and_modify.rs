//! `findAndModify`

use std::marker::PhantomData;
use std::sync::Arc;

use bson::raw::RawBson;
use bson::{RawBsonRef, RawDocumentBuf};
use ringway_wire::mongo::{CommandWriter, MongoFault};
use serde::de::DeserializeOwned;

use super::settings::{Settings, awaitable, option};
use super::write_reply;
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::Answer;
use crate::decode::decode;
use crate::error::{Error, Result};
use crate::raw_argument::IntoRaw;
use crate::running::{OnCore, Operation};

/// A change of one document that returns it, made by
/// [`Collection::find_one_and_update`](crate::Collection::find_one_and_update) and its siblings. Awaiting it
/// returns the document, or `None` if none matches.
#[must_use = "an action does nothing until it is awaited"]
pub struct FindAndModify<T> {
    settings: Settings,
    documents: PhantomData<fn() -> T>,
}

/// Which state of a changed document is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnDocument {
    /// As it was before the change; the default.
    Before,
    /// As it is after the change.
    After,
}

impl<T> FindAndModify<T> {
    pub(crate) fn delete(shared: &Arc<CollectionShared>, filter: Result<RawDocumentBuf>) -> Self {
        let mut settings = Settings::new(shared);
        settings.fields.set_document("query", filter);
        settings.fields.set("remove", true);
        Self { settings, documents: PhantomData }
    }

    pub(crate) fn update(
        shared: &Arc<CollectionShared>,
        filter: Result<RawDocumentBuf>,
        update: Result<RawBson>,
    ) -> Self {
        let mut settings = Settings::new(shared);
        settings.fields.set_document("query", filter);
        settings.fields.set_raw("update", update);
        Self { settings, documents: PhantomData }
    }

    /// Sets whether the document is returned as it was or as it is; as it was by default. A removed one is
    /// always returned as it was.
    pub fn return_document(mut self, which: ReturnDocument) -> Self {
        self.settings.fields.set("new", which == ReturnDocument::After);
        self
    }

    /// Sets which fields are returned; all by default.
    pub fn projection(mut self, fields: impl IntoRaw) -> Self {
        self.settings.fields.set_document("fields", fields.into_raw());
        self
    }

    option!(settings.sort);
    option!(settings.upsert);
    option!(settings.array_filters);
    option!(settings.collation);
    option!(settings.hint);
    option!(settings.let_vars);
    option!(settings.comment);
    option!(settings.max_time);
    option!(settings.bypass_document_validation);
    option!(settings.write_concern);
    option!(settings.session);
    option!(settings.timeout);
}

impl<T: DeserializeOwned + Send + 'static> Operation for FindAndModify<T> {
    type Output = Option<T>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<Option<T>> {
        let read = |answer: Answer<'_>| {
            let body = answer.body();
            write_reply::check(body)?;
            let wrong = || Error::reply(MongoFault::Field("value"));
            match body.get("value").map_err(|_| wrong())? {
                None | Some(RawBsonRef::Null) => Ok(None),
                Some(RawBsonRef::Document(document)) => decode(document).map(Some),
                Some(_) => Err(wrong()),
            }
        };
        let command = (CommandKind::FindAndModify, Purpose::Write);
        self.settings.run(&core, command, |command: CommandWriter<'_>| command.finish(), read).await
    }
}

awaitable!(FindAndModify<T: DeserializeOwned>);
