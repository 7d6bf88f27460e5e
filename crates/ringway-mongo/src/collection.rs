//! Collections.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, rawdoc};
use serde::Serialize;

use crate::action::{
    Aggregate, BulkWrite, Command, CommandCursor, Count, Delete, Distinct, EstimatedCount, Find,
    FindAndModify, FindOne, IndexModel, InsertMany, InsertOne, NamespacedWrite, Update, WriteModel,
    create_indexes, names,
};
use crate::change_stream::Watch;
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, Concerns};
use crate::error::{Error, Result};
use crate::raw_argument::{IntoRaw, IntoUpdate, replacement};
use crate::reads::Reads;
use crate::running::Running;
use crate::uri::{ReadConcern, ReadPreference, WriteConcern};

/// A collection, whose documents are read and written as `T`: a type with serde, a
/// [`Document`](bson::Document), or a [`RawDocumentBuf`](bson::RawDocumentBuf).
///
/// Methods return actions, which take options and do nothing until they are awaited. Clones share what is
/// prepared for the commands of this collection, so keep a handle that is used often.
pub struct Collection<T> {
    shared: Arc<CollectionShared>,
    documents: PhantomData<fn() -> T>,
}

impl<T> Collection<T> {
    pub(crate) fn new(
        client: Arc<ClientShared>,
        database: Arc<str>,
        name: &str,
        concerns: Concerns,
    ) -> Self {
        let shared = CollectionShared::new(client, database, name.into(), concerns);
        Self { shared: Arc::new(shared), documents: PhantomData }
    }

    /// The name, without that of its database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The same collection, whose documents are read and written as `U`.
    #[must_use]
    pub fn with_type<U>(&self) -> Collection<U> {
        Collection { shared: Arc::clone(&self.shared), documents: PhantomData }
    }

    /// Finds the documents that match a filter; awaiting it returns a [`Cursor`](crate::Cursor).
    pub fn find(&self, filter: impl IntoRaw) -> Find<T> {
        Find::new(&self.shared, filter.into_raw())
    }

    /// Finds one document that matches a filter.
    pub fn find_one(&self, filter: impl IntoRaw) -> FindOne<T> {
        FindOne::new(&self.shared, filter.into_raw())
    }

    /// Updates the first document that matches a filter, by operators such as `$set` or by the stages of a pipeline.
    pub fn update_one(&self, filter: impl IntoRaw, update: impl IntoUpdate) -> Update {
        Update::new(&self.shared, filter.into_raw(), update.into_update(), false)
    }

    /// Updates all documents that match a filter, by operators such as `$set`.
    pub fn update_many(&self, filter: impl IntoRaw, update: impl IntoUpdate) -> Update {
        Update::new(&self.shared, filter.into_raw(), update.into_update(), true)
    }

    /// Deletes the first document that matches a filter.
    pub fn delete_one(&self, filter: impl IntoRaw) -> Delete {
        Delete::new(&self.shared, filter.into_raw(), false)
    }

    /// Deletes all documents that match a filter.
    pub fn delete_many(&self, filter: impl IntoRaw) -> Delete {
        Delete::new(&self.shared, filter.into_raw(), true)
    }

    /// Passes the documents through the stages of a pipeline; awaiting it returns a
    /// [`Cursor`](crate::Cursor) of its results.
    pub fn aggregate<S: IntoRaw>(&self, stages: impl IntoIterator<Item = S>) -> Aggregate<T> {
        let stages = stages.into_iter().map(IntoRaw::into_raw).collect();
        Aggregate::new(&self.shared, stages)
    }

    /// Watches the changes of the documents, as they happen.
    pub fn watch(&self) -> Watch<Document> {
        let CollectionShared { client, database, name, .. } = &*self.shared;
        let watch = Watch::new(client, Arc::clone(database), Some(Arc::clone(name)));
        watch.concerned(self.shared.concerns())
    }

    /// Counts the documents that match a filter.
    pub fn count_documents(&self, filter: impl IntoRaw) -> Count {
        Count::new(&self.shared, filter.into_raw())
    }

    /// Lists the different values of a field.
    pub fn distinct(&self, field: &str, filter: impl IntoRaw) -> Distinct {
        Distinct::new(&self.shared, field, filter.into_raw())
    }

    /// Updates the first document that matches a filter, and returns it.
    pub fn find_one_and_update(
        &self,
        filter: impl IntoRaw,
        update: impl IntoUpdate,
    ) -> FindAndModify<T> {
        FindAndModify::update(&self.shared, filter.into_raw(), update.into_update())
    }

    /// Removes the first document that matches a filter, and returns it.
    pub fn find_one_and_delete(&self, filter: impl IntoRaw) -> FindAndModify<T> {
        FindAndModify::delete(&self.shared, filter.into_raw())
    }

    /// Does many writes in as few commands as possible.
    pub fn bulk_write(&self, writes: impl IntoIterator<Item = WriteModel>) -> BulkWrite {
        BulkWrite::new(&self.shared, writes)
    }

    /// A write to this collection, for [`Client::bulk_write`](crate::Client::bulk_write).
    pub fn model(&self, write: WriteModel) -> NamespacedWrite {
        NamespacedWrite::new(&self.shared.database, &self.shared.name, write)
    }

    /// The number of documents that the server has noted, without looking at them. It may be wrong after a
    /// crash, and on a sharded cluster.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn estimated_document_count(&self) -> EstimatedCount {
        EstimatedCount::new(&self.shared)
    }

    /// Makes an index, unless it is there; returns its name.
    ///
    /// # Errors
    /// Those of every operation. Another index of that name is one of the server's.
    pub fn create_index(
        &self,
        index: IndexModel,
    ) -> impl Future<Output = Result<String>> + Send + use<T> {
        let made = self.create_indexes([index]);
        async move { Ok(made.await?.pop().unwrap_or_default()) }
    }

    /// Makes indexes, unless they are there; returns their names.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn create_indexes<I: IntoIterator<Item = IndexModel>>(
        &self,
        indexes: I,
    ) -> impl Future<Output = Result<Vec<String>>> + Send + use<T, I> {
        let made = create_indexes(&self.shared.name, indexes)
            .map(|(command, names)| (self.command(Ok(command), Purpose::WriteOnce).reply(), names));
        async move {
            let (reply, names) = made?;
            reply.await?;
            Ok(names)
        }
    }

    /// Lists the indexes; none if the collection is not there. The primary answers, whatever the read preference.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn list_indexes(&self) -> Running<CommandCursor<Document>> {
        let list = rawdoc! { "listIndexes": &*self.shared.name, "cursor": {} };
        self.command(Ok(list), Purpose::Read).at_primary().or_empty().cursor()
    }

    /// Lists the names of the indexes; none if the collection is not there.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn list_index_names(&self) -> impl Future<Output = Result<Vec<String>>> + Send + use<T> {
        names(self.list_indexes())
    }

    /// Removes an index by its name.
    ///
    /// # Errors
    /// Those of every operation. An index that is not there is one of the server's.
    pub fn drop_index(&self, name: &str) -> impl Future<Output = Result> + Send + use<T> {
        let is_all = name == "*";
        let drop_it = rawdoc! { "dropIndexes": &*self.shared.name, "index": name };
        let dropped = self.command(Ok(drop_it), Purpose::WriteOnce).reply();
        async move {
            if is_all {
                let what = "`*` names all indexes: remove them by `drop_indexes`";
                return Err(Error::encoding(what));
            }
            dropped.await.map(drop)
        }
    }

    /// Removes all indexes but that of `_id`.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn drop_indexes(&self) -> impl Future<Output = Result> + Send + use<T> {
        let drop_all = rawdoc! { "dropIndexes": &*self.shared.name, "index": "*" };
        let dropped = self.command(Ok(drop_all), Purpose::WriteOnce).reply();
        async move { dropped.await.map(drop) }
    }

    /// Removes the collection with its documents and indexes. One that is not there is no error.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn drop(&self) -> impl Future<Output = Result> + Send + use<T> {
        let command = rawdoc! { "drop": &*self.shared.name };
        let dropped = self.command(Ok(command), Purpose::WriteOnce).reply();
        async move {
            match dropped.await {
                Err(error) if error.is_missing_namespace() => Ok(()),
                dropped => dropped.map(drop),
            }
        }
    }

    /// The same collection with another concern for its reads.
    #[must_use]
    pub fn read_concern(&self, concern: &ReadConcern) -> Self {
        let document = RawDocumentBuf::try_from(&concern.to_document());
        let read = Some(document.expect("the level of a read concern is text"));
        self.with_concerns(Concerns { read, ..self.shared.concerns().clone() })
    }

    /// The same collection, whose reads are answered by other members of a replica set.
    ///
    /// # Errors
    /// [`is_options`](Error::is_options): tags or a lag are asked of the primary.
    pub fn read_preference(&self, preference: &ReadPreference) -> Result<Self> {
        let reads = Some(Arc::new(Reads::new(preference)?));
        Ok(self.with_concerns(Concerns { reads, ..self.shared.concerns().clone() }))
    }

    /// The same collection with another concern for its writes. Writes that no member has to confirm (`w=0`) are over
    /// when the system has taken them to be sent: nobody learns whether they failed, and their counts are 0.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): the concern cannot be encoded.
    pub fn write_concern(&self, concern: &WriteConcern) -> Result<Self> {
        // That of the server is not told. Specification: Read and Write Concern, "Server's Default WriteConcern".
        let is_own = !concern.is_server_default();
        let write = is_own.then(|| crate::options::write_concern(concern)).transpose()?;
        Ok(self.with_concerns(Concerns { write, ..self.shared.concerns().clone() }))
    }

    /// The same collection, whose operations have another time than the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    #[must_use]
    pub fn timeout(&self, limit: Duration) -> Self {
        self.with_concerns(Concerns { time: Some(limit), ..self.shared.concerns().clone() })
    }

    fn with_concerns(&self, concerns: Concerns) -> Self {
        let CollectionShared { client, database, name, .. } = &*self.shared;
        Self::new(Arc::clone(client), Arc::clone(database), name, concerns)
    }

    fn command(&self, command: Result<RawDocumentBuf>, purpose: Purpose) -> Command {
        let CollectionShared { client, database, .. } = &*self.shared;
        let Concerns { write, time, .. } = self.shared.concerns();
        Command::new(client, database, command, purpose).concerned(write.as_ref()).within(*time)
    }
}

impl<T: Serialize> Collection<T> {
    /// Writes a document; awaiting it returns the document's `_id`, which it gets if it has none.
    pub fn insert_one(&self, document: &T) -> InsertOne {
        InsertOne::new(&self.shared, document)
    }

    /// Writes documents. What is too much for one command is sent in several.
    pub fn insert_many<'a>(&self, documents: impl IntoIterator<Item = &'a T>) -> InsertMany
    where
        T: 'a,
    {
        InsertMany::new(&self.shared, documents)
    }

    /// Replaces the first document that matches a filter. The `_id` stays.
    pub fn replace_one(&self, filter: impl IntoRaw, document: &T) -> Update {
        let document = bson::serialize_to_raw_document_buf(document).map_err(Error::encoding);
        let document = document.and_then(replacement);
        Update::new(&self.shared, filter.into_raw(), document, false)
    }

    /// Replaces the first document that matches a filter, and returns it.
    pub fn find_one_and_replace(&self, filter: impl IntoRaw, document: &T) -> FindAndModify<T> {
        let document = bson::serialize_to_raw_document_buf(document).map_err(Error::encoding);
        FindAndModify::update(&self.shared, filter.into_raw(), document.and_then(replacement))
    }
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        self.with_type()
    }
}

impl<T> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collection({}.{})", self.shared.database, self.shared.name)
    }
}
