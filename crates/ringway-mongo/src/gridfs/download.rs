//! Reading a file.

use std::fmt;
use std::ops::Range;

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::{GridFs, GridFsFile};
use crate::collection::Collection;
use crate::cursor::Cursor;
use crate::error::{Error, Result};

/// A file that is being read, made by [`GridFs::open`]. One batch of its chunks is in memory at a time.
pub struct Download {
    file: GridFsFile,
    chunks: Collection<RawDocumentBuf>,
    cursor: Option<Cursor<RawDocumentBuf>>,
    /// The number of the next chunk.
    next: u64,
    range: Range<u64>,
}

impl Download {
    pub(super) fn new(bucket: &GridFs, file: GridFsFile) -> Self {
        let range = 0..file.length;
        Self { file, chunks: bucket.chunks.clone(), cursor: None, next: 0, range }
    }

    /// What is known of the file.
    #[must_use]
    pub fn file(&self) -> &GridFsFile {
        &self.file
    }

    /// Reads only these bytes, before the first is read. What is beyond the file's end is left out.
    #[must_use]
    pub fn range(mut self, bytes: Range<u64>) -> Self {
        let end = bytes.end.min(self.file.length);
        self.range = bytes.start.min(end)..end;
        self.next = self.range.start / u64::from(self.file.chunk_size);
        self
    }

    /// The next part, which is at most a chunk; `None` at the end.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): a chunk is missing, or has another length than the file's document
    /// says. Otherwise those of every operation.
    pub async fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let size = u64::from(self.file.chunk_size);
        let start = self.next.saturating_mul(size);
        if start >= self.range.end || self.range.is_empty() {
            self.cursor = None;
            return Ok(None);
        }
        if self.cursor.is_none() {
            self.cursor = Some(self.find().await?);
        }
        let cursor = self.cursor.as_mut().expect("it was put there");
        let what = format!("chunk {} of the file {} of GridFS", self.next, self.file.id);
        match cursor.advance().await {
            Ok(true) => {}
            Ok(false) => return Err(Error::decoding(format!("{what} is missing"))),
            Err(error) => {
                self.cursor = None;
                return Err(error);
            }
        }
        let bytes = content(cursor.current(), self.next)
            .ok_or_else(|| Error::decoding(format!("{what} is missing, or has no data")))?;
        let expected = size.min(self.file.length - start);
        if bytes.len() as u64 != expected {
            let what = format!("{what} has {} bytes instead of {expected}", bytes.len());
            return Err(Error::decoding(what));
        }
        let within = self.range.start.max(start) - start..self.range.end.min(start + size) - start;
        self.next += 1;
        // Both ends lie within the chunk, which fits into memory.
        Ok(Some(bytes[within.start as usize..within.end as usize].to_vec()))
    }

    /// All that is left, in memory.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub async fn read_to_end(mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(part) = self.read().await? {
            all.extend_from_slice(&part);
        }
        Ok(all)
    }

    async fn find(&self) -> Result<Cursor<RawDocumentBuf>> {
        let size = u64::from(self.file.chunk_size);
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let last = (self.range.end - 1) / size;
        let numbers: Document = doc! { "$gte": number(self.next), "$lte": number(last) };
        let chunks =
            self.chunks.find(doc! { "files_id": { "$eq": self.file.id.clone() }, "n": numbers });
        chunks.sort(doc! { "n": 1 }).await
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Download({:?})", self.file)
    }
}

/// The data of a chunk, if it is the one with this number.
fn content(chunk: &RawDocument, number: u64) -> Option<&[u8]> {
    let n = match chunk.get("n").ok()?? {
        RawBsonRef::Int32(n) => i64::from(n),
        RawBsonRef::Int64(n) => n,
        RawBsonRef::Double(n) => n as i64,
        _ => return None,
    };
    let data = chunk.get("data").ok()??.as_binary()?;
    (u64::try_from(n) == Ok(number)).then_some(data.bytes)
}
