//! GridFS: files of any length, in chunks.

mod download;
mod upload;

use std::fmt;

use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};

pub use self::download::Download;
pub use self::upload::Upload;
use crate::action::{DeleteResult, Find, IndexModel};
use crate::collection::Collection;
use crate::cursor::Cursor;
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{GRIDFS_CHUNK_DEFAULT, GRIDFS_CHUNK_MAX};
use crate::raw_argument::IntoRaw;
use crate::uri::{ReadMode, ReadPreference};

/// Files of a database, made by [`Database::gridfs`](crate::Database::gridfs). Clones are the same bucket.
///
/// A file is a document of `fs.files` and chunks in `fs.chunks`. Names need not be unique: files of one name are
/// its revisions. One chunk, or one batch of them, is in memory at a time.
///
/// ```no_run
/// # async fn store(shop: ringway_mongo::Database) -> ringway_mongo::Result {
/// let covers = shop.gridfs();
/// let id = covers.upload("emma.jpg", b"\xff\xd8...").await?;
/// let mut file = covers.open(id).await?;
/// while let Some(part) = file.read().await? {
///     println!("{} bytes", part.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct GridFs {
    files: Collection<Document>,
    chunks: Collection<RawDocumentBuf>,
    chunk_size: u32,
}

/// What is known of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GridFsFile {
    /// The `_id`.
    pub id: Bson,
    /// The length in bytes.
    pub length: u64,
    /// The length of all chunks but the last, in bytes.
    pub chunk_size: u32,
    /// When the upload ended.
    pub uploaded: Option<DateTime>,
    /// The name, if it has one.
    pub name: Option<String>,
    /// What the uploader noted.
    pub metadata: Option<Document>,
}

impl GridFs {
    pub(crate) fn new(files: Collection<Document>, chunks: Collection<RawDocumentBuf>) -> Self {
        Self { files, chunks, chunk_size: GRIDFS_CHUNK_DEFAULT }
    }

    /// Sets the length of chunks of new files in bytes; 255 KiB by default, at least 1 and at most 15 MiB.
    #[must_use]
    pub fn chunk_size(mut self, bytes: u32) -> Self {
        self.chunk_size = bytes.clamp(1, GRIDFS_CHUNK_MAX);
        self
    }

    /// Begins a new file, whose parts are then [written](Upload::write). Nothing is sent yet.
    pub fn begin(&self, name: &str) -> Upload {
        Upload::new(self, name)
    }

    /// Writes a whole file, and returns its `_id`.
    ///
    /// # Errors
    /// Those of every operation. Chunks that were written before an error are removed if possible.
    pub async fn upload(&self, name: &str, content: &[u8]) -> Result<Bson> {
        let mut upload = self.begin(name);
        upload.write(content).await?;
        upload.finish().await
    }

    /// Opens a file by its `_id`.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found), and those of every operation.
    pub async fn open(&self, id: impl Into<Bson>) -> Result<Download> {
        let id = id.into();
        let found = self.files.find_one(equal("_id", &id)).await?;
        Ok(Download::new(self, GridFsFile::of(found.ok_or_else(|| not_found(&id))?)?))
    }

    /// Opens a file by its name. Revisions count from 0, the first; -1 is the latest one, -2 that before it.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found), and those of every operation.
    pub async fn open_by_name(&self, name: &str, revision: i32) -> Result<Download> {
        let (order, skip) = match revision {
            0.. => (1, revision.unsigned_abs()),
            ..0 => (-1, revision.unsigned_abs() - 1),
        };
        let found = self.files.find_one(doc! { "filename": name });
        let found = found.sort(doc! { "uploadDate": order }).skip(skip).await?;
        Ok(Download::new(self, GridFsFile::of(found.ok_or_else(|| not_found(&name))?)?))
    }

    /// Reads a whole file into memory.
    ///
    /// # Errors
    /// Those of [`open`](Self::open) and [`Download::read`].
    pub async fn download(&self, id: impl Into<Bson>) -> Result<Vec<u8>> {
        self.open(id).await?.read_to_end().await
    }

    /// Finds files; their documents can be read by [`GridFsFile::of`].
    pub fn find(&self, filter: impl IntoRaw) -> Find<Document> {
        self.files.find(filter)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found), after its chunks are removed all the same; and those of every
    /// operation.
    pub async fn delete(&self, id: impl Into<Bson>) -> Result {
        let id = id.into();
        let gone = self.delete_file(&id).await?;
        if gone.deleted == 0 { Err(not_found(&id)) } else { Ok(()) }
    }

    /// Removes the document of a file, and then its chunks.
    async fn delete_file(&self, id: &Bson) -> Result<DeleteResult> {
        let gone = self.files.delete_one(equal("_id", id)).await?;
        let chunks = self.chunks.delete_many(equal("files_id", id)).await;
        chunks.map_err(Error::in_the_middle)?;
        Ok(gone)
    }

    /// Removes all files of a name.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found): there is none. Otherwise those of every operation.
    pub async fn delete_by_name(&self, name: &str) -> Result {
        let ids = self.files.find(doc! { "filename": name }).projection(doc! { "_id": 1 });
        let mut cursor: Cursor<Document> = ids.await?;
        let mut is_any = false;
        let failed =
            |is_any| move |error: Error| if is_any { error.in_the_middle() } else { error };
        while let Some(mut file) = cursor.next().await.map_err(failed(is_any))? {
            let id = file.remove("_id").unwrap_or(Bson::Null);
            self.delete_file(&id).await.map_err(failed(is_any))?;
            is_any = true;
        }
        if is_any { Ok(()) } else { Err(not_found(&name)) }
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found), and those of every operation.
    pub async fn rename(&self, id: impl Into<Bson>, name: &str) -> Result {
        let id = id.into();
        let rename = doc! { "$set": { "filename": name } };
        let renamed = self.files.update_one(equal("_id", &id), rename).await?;
        if renamed.matched == 0 { Err(not_found(&id)) } else { Ok(()) }
    }

    /// Gives all files of a name another one.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found): there is none. Otherwise those of every operation.
    pub async fn rename_by_name(&self, name: &str, to: &str) -> Result {
        let rename = doc! { "$set": { "filename": to } };
        let renamed = self.files.update_many(doc! { "filename": name }, rename).await?;
        if renamed.matched == 0 { Err(not_found(&name)) } else { Ok(()) }
    }

    /// Removes all files.
    ///
    /// # Errors
    /// Those of every operation.
    pub async fn drop(&self) -> Result {
        self.files.drop().await?;
        self.chunks.drop().await.map_err(Error::in_the_middle)
    }

    /// Makes the indexes of the bucket, before its first file.
    async fn prepare(&self) -> Result {
        let first = self.files.find_one(doc! {}).projection(doc! { "_id": 1 });
        // A secondary may not have it yet. Specification: GridFS, "Index Creation".
        let first = first.read_preference(&ReadPreference::new(ReadMode::Primary));
        if first.await?.is_some() {
            return Ok(());
        }
        let by_name = IndexModel::new(doc! { "filename": 1, "uploadDate": 1 });
        self.files.create_index(by_name).await?;
        let by_file = IndexModel::new(doc! { "files_id": 1, "n": 1 }).unique(true);
        self.chunks.create_index(by_file).await.map(drop)
    }
}

impl GridFsFile {
    /// Reads a document of the files.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): it is not one of GridFS.
    pub fn of(mut document: Document) -> Result<Self> {
        let number = |name| match document.get(name) {
            Some(Bson::Int32(number)) => Some(i64::from(*number)),
            Some(Bson::Int64(number)) => Some(*number),
            Some(Bson::Double(number)) => Some(*number as i64),
            _ => None,
        };
        let wrong = |name| Error::decoding(format!("the file of GridFS has no proper `{name}`"));
        let length = number("length").and_then(|length| u64::try_from(length).ok());
        let chunk_size = number("chunkSize").and_then(|size| u32::try_from(size).ok());
        Ok(Self {
            length: length.ok_or_else(|| wrong("length"))?,
            chunk_size: chunk_size.filter(|size| *size > 0).ok_or_else(|| wrong("chunkSize"))?,
            uploaded: document.get_datetime("uploadDate").ok().copied(),
            name: document.get_str("filename").ok().map(str::to_owned),
            metadata: document.get_document("metadata").ok().cloned(),
            id: document.remove("_id").ok_or_else(|| wrong("_id"))?,
        })
    }
}

/// A filter for one value. Written so, a document as the value is no operator.
fn equal(field: &str, value: &Bson) -> Document {
    doc! { field: { "$eq": value.clone() } }
}

fn not_found(which: &dyn fmt::Display) -> Error {
    Error::new(Kind::NotFound, Fate::Answered, format!("GridFS has no file {which}"))
}

impl fmt::Debug for GridFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GridFs({:?})", self.files)
    }
}
