//! Writing a file.

use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, RawDocumentBuf, doc};

use super::GridFs;
use crate::action::Fields;
use crate::error::{Error, Fate, Kind, Result};

/// A file that is being written, made by [`GridFs::begin`]. Without [`finish`](Self::finish) there is no file:
/// call [`abort`](Self::abort) to remove the chunks that were written.
pub struct Upload {
    bucket: GridFs,
    id: Bson,
    name: String,
    metadata: Option<Document>,
    /// Less than a chunk.
    rest: Vec<u8>,
    /// Chunks that were written.
    chunks: i32,
    length: u64,
    is_prepared: bool,
    /// The `_id` of the chunk that is being written, or could not be written: nothing can come behind it.
    open: Option<ObjectId>,
}

impl Upload {
    pub(super) fn new(bucket: &GridFs, name: &str) -> Self {
        Self {
            bucket: bucket.clone(),
            id: ObjectId::new().into(),
            name: name.to_owned(),
            metadata: None,
            rest: Vec::new(),
            chunks: 0,
            length: 0,
            is_prepared: false,
            open: None,
        }
    }

    /// Sets the `_id`, before the first part is written; a new object id by default.
    #[must_use]
    pub fn id(mut self, id: impl Into<Bson>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets what to note with the file.
    #[must_use]
    pub fn metadata(mut self, metadata: Document) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Writes a part. Each full chunk is sent. If this is given up in the middle, the upload cannot go on.
    ///
    /// # Errors
    /// Those of every operation. The upload cannot go on then, and its chunks are removed if possible.
    /// [`is_options`](Error::is_options): it cannot go on.
    pub async fn write(&mut self, mut part: &[u8]) -> Result {
        self.check()?;
        let size = self.bucket.chunk_size as usize;
        self.length += part.len() as u64;
        while self.rest.len() + part.len() >= size {
            let (head, tail) = part.split_at(size - self.rest.len());
            part = tail;
            self.rest.extend_from_slice(head);
            let chunk = std::mem::take(&mut self.rest);
            self.send(&chunk).await?;
        }
        self.rest.extend_from_slice(part);
        Ok(())
    }

    /// Writes what is left, and then the file's document. Returns its `_id`.
    ///
    /// # Errors
    /// Those of every operation. The chunks are removed then if possible, unless the file may be there all the same.
    pub async fn finish(mut self) -> Result<Bson> {
        self.check()?;
        if !self.rest.is_empty() {
            let chunk = std::mem::take(&mut self.rest);
            self.send(&chunk).await?;
        }
        if !self.is_prepared {
            self.bucket.prepare().await?;
        }
        let mut file = doc! {
            "_id": self.id.clone(),
            "length": i64::try_from(self.length).unwrap_or(i64::MAX),
            "chunkSize": i32::try_from(self.bucket.chunk_size).unwrap_or(i32::MAX),
            "uploadDate": DateTime::now(),
            "filename": &self.name,
        };
        if let Some(metadata) = self.metadata.take() {
            file.insert("metadata", metadata);
        }
        match self.bucket.files.insert_one(&file).await {
            Ok(_) => Ok(self.id),
            Err(error) => {
                // Without a clear answer, the file may be there.
                if error.is_refused_write() || !error.may_have_happened() {
                    self.remove_chunks().await;
                }
                Err(error)
            }
        }
    }

    /// Gives the file up, and removes its chunks.
    ///
    /// # Errors
    /// Those of every operation.
    pub async fn abort(self) -> Result {
        self.bucket.chunks.delete_many(self.own_chunks()).await.map(drop)
    }

    fn check(&self) -> Result {
        let what = "an upload to GridFS cannot go on behind a chunk that was not written";
        let refused = |_| Err(Error::new(Kind::Options, Fate::NotSent, what));
        self.open.map_or(Ok(()), refused)
    }

    async fn send(&mut self, chunk: &[u8]) -> Result {
        let id = ObjectId::new();
        self.open = Some(id);
        if !self.is_prepared {
            self.bucket.prepare().await?;
            self.is_prepared = true;
        }
        let document = self.chunk(id, chunk)?;
        if let Err(error) = self.bucket.chunks.insert_one(&document).await {
            self.remove_chunks().await;
            return Err(error);
        }
        self.chunks = self.chunks.checked_add(1).ok_or_else(|| {
            Error::encoding("a file of GridFS has at most 2 Gi chunks: use longer ones")
        })?;
        self.open = None;
        Ok(())
    }

    fn chunk(&self, id: ObjectId, bytes: &[u8]) -> Result<RawDocumentBuf> {
        let mut fields = Fields::default();
        fields.set_value("files_id", self.id.clone());
        fields.set("n", self.chunks);
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), id);
        for (key, value) in fields.into_document()?.iter().flatten() {
            document.append(key, value);
        }
        let data = Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() };
        document.append(cstr!("data"), &data);
        Ok(document)
    }

    /// The chunks that this upload has written, or may have. Others of the `_id` belong to a file that was there before.
    fn own_chunks(&self) -> Document {
        let written = doc! { "files_id": self.id.clone(), "n": { "$lt": self.chunks } };
        match self.open {
            None => written,
            Some(id) => doc! { "$or": [written, { "_id": id }] },
        }
    }

    async fn remove_chunks(&self) {
        let removed = self.bucket.chunks.delete_many(self.own_chunks()).await;
        if let Err(error) = removed {
            tracing::warn!(%error, id = %self.id, "chunks of a file that was not written are left");
        }
    }
}
