//! The content of a file, in pieces.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use ringway_runtime::fs::File;

use crate::error::{Error, Result};
use crate::limits;

/// A part of a file. The next piece is read on request, while the pieces before it are still being sent, so the
/// disk and the network work at the same time.
pub(super) struct Content {
    file: File,
    rest: Range<u64>,
    reading: Option<Reading>,
}

type Reading = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>>>>;

impl Content {
    pub(super) fn new(file: File, part: Range<u64>) -> Self {
        Self { file, rest: part, reading: None }
    }

    fn read(&self) -> Reading {
        let (file, at) = (self.file.clone(), self.rest.start);
        let bytes = (self.rest.end - at).min(limits::FILE_PIECE_BYTES as u64) as usize;
        Box::pin(async move { file.read_at(at, bytes, Vec::new()).await })
    }
}

impl Stream for Content {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let mut reading = self.reading.take().unwrap_or_else(|| self.read());
        let Poll::Ready(piece) = reading.as_mut().poll(cx) else {
            self.reading = Some(reading);
            return Poll::Pending;
        };
        let piece = match piece {
            Ok(piece) if !piece.is_empty() => piece,
            Ok(_) => return Poll::Ready(Some(Err(Error::internal("the file has become shorter")))),
            Err(error) => {
                tracing::warn!(%error, "a file cannot be read to its end");
                return Poll::Ready(Some(Err(Error::internal("the file cannot be read"))));
            }
        };
        self.rest.start += piece.len() as u64;
        Poll::Ready(Some(Ok(piece.into())))
    }
}
