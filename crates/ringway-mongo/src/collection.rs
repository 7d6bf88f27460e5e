//! Collections.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use bson::Bson;
use serde::Serialize;

use crate::action::{
    Aggregate, Count, Delete, Distinct, Find, FindOne, InsertMany, Update, insert_one,
};
use crate::client_core::ClientCore;
use crate::collection_shared::CollectionShared;
use crate::error::Result;
use crate::raw_argument::IntoRaw;

/// A collection, whose documents are read and written as `T`: a type with serde, a
/// [`Document`](bson::Document), or a [`RawDocumentBuf`](bson::RawDocumentBuf).
///
/// Methods return actions, which take options and do nothing until they are awaited. Clones share what is
/// prepared for the commands of this collection, so keep a handle that is used often.
pub struct Collection<T> {
    shared: Rc<CollectionShared>,
    documents: PhantomData<fn() -> T>,
}

impl<T> Collection<T> {
    pub(crate) fn new(core: Rc<ClientCore>, database: &Rc<str>, name: &str) -> Self {
        let shared = CollectionShared::new(core, Rc::clone(database), name.into());
        Self { shared: Rc::new(shared), documents: PhantomData }
    }

    /// The name, without that of its database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The same collection, whose documents are read and written as `U`.
    #[must_use]
    pub fn with_type<U>(&self) -> Collection<U> {
        Collection { shared: Rc::clone(&self.shared), documents: PhantomData }
    }

    /// Finds the documents that match a filter; awaiting it returns a [`Cursor`](crate::Cursor).
    pub fn find(&self, filter: impl IntoRaw) -> Find<T> {
        Find::new(Rc::clone(&self.shared), filter.into_raw())
    }

    /// Finds one document that matches a filter.
    pub fn find_one(&self, filter: impl IntoRaw) -> FindOne<T> {
        FindOne::new(Rc::clone(&self.shared), filter.into_raw())
    }

    /// Updates the first document that matches a filter, by operators such as `$set`.
    pub fn update_one(&self, filter: impl IntoRaw, update: impl IntoRaw) -> Update {
        Update::new(Rc::clone(&self.shared), filter.into_raw(), update.into_raw(), false)
    }

    /// Updates all documents that match a filter, by operators such as `$set`.
    pub fn update_many(&self, filter: impl IntoRaw, update: impl IntoRaw) -> Update {
        Update::new(Rc::clone(&self.shared), filter.into_raw(), update.into_raw(), true)
    }

    /// Deletes the first document that matches a filter.
    pub fn delete_one(&self, filter: impl IntoRaw) -> Delete {
        Delete::new(Rc::clone(&self.shared), filter.into_raw(), 1)
    }

    /// Deletes all documents that match a filter.
    pub fn delete_many(&self, filter: impl IntoRaw) -> Delete {
        Delete::new(Rc::clone(&self.shared), filter.into_raw(), 0)
    }

    /// Passes the documents through the stages of a pipeline; awaiting it returns a
    /// [`Cursor`](crate::Cursor) of its results.
    pub fn aggregate<S: IntoRaw>(&self, stages: impl IntoIterator<Item = S>) -> Aggregate<T> {
        let stages = stages.into_iter().map(IntoRaw::into_raw).collect();
        Aggregate::new(Rc::clone(&self.shared), stages)
    }

    /// Counts the documents that match a filter.
    pub fn count_documents(&self, filter: impl IntoRaw) -> Count {
        Count::new(Rc::clone(&self.shared), filter.into_raw())
    }

    /// Lists the different values of a field.
    pub fn distinct(&self, field: &str, filter: impl IntoRaw) -> Distinct {
        Distinct::new(Rc::clone(&self.shared), field, filter.into_raw())
    }
}

impl<T: Serialize> Collection<T> {
    /// Writes a document, and returns its `_id`, which it gets if it has none.
    ///
    /// # Errors
    /// [`is_duplicate_key`](crate::Error::is_duplicate_key), [`is_document`](crate::Error::is_document), and those
    /// of every operation.
    pub async fn insert_one(&self, document: &T) -> Result<Bson> {
        insert_one(&self.shared, document).await
    }

    /// Writes documents; awaiting it returns how many. What is too much for one command is sent in several.
    pub fn insert_many<'a>(&self, documents: impl IntoIterator<Item = &'a T>) -> InsertMany
    where
        T: 'a,
    {
        InsertMany::new(Rc::clone(&self.shared), documents)
    }

    /// Replaces the first document that matches a filter. The `_id` stays.
    pub fn replace_one(&self, filter: impl IntoRaw, replacement: &T) -> Update {
        let replacement = bson::serialize_to_raw_document_buf(replacement);
        let replacement = replacement.map_err(crate::Error::encoding);
        Update::new(Rc::clone(&self.shared), filter.into_raw(), replacement, false)
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
