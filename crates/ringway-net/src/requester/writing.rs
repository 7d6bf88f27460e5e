//! The encoder of requests.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use ringway_wire::{Codec, RequestId};

use super::waiting::WriteId;
use crate::error::{Error, Kind, Result};
use crate::framed::Scratch;
use crate::limits::SCRATCH_BYTES_KEPT;

pub(super) struct Writing<C> {
    encoder: C,
    write_id: Option<WriteId>,
    /// A buffer that joins id and request.
    payload: Vec<u8>,
}

/// A [`Writing`] that was taken out of its cell; drop puts it back.
pub(super) struct Lent<'a, C> {
    cell: &'a Cell<Option<Writing<C>>>,
    writing: Option<Writing<C>>,
}

impl<C> Writing<C> {
    pub(super) fn new(encoder: C, write_id: Option<WriteId>) -> Self {
        Self { encoder, write_id, payload: Vec::new() }
    }

    /// Takes it out of `cell` for one request.
    ///
    /// # Errors
    /// Fails while another request is being written: code of the program has started a request
    /// inside.
    pub(super) fn lend(cell: &Cell<Option<Self>>) -> Result<Lent<'_, C>> {
        match cell.take() {
            Some(writing) => Ok(Lent { cell, writing: Some(writing) }),
            None => {
                let what =
                    "a request was started by code that writes another one: `write_id` or a codec";
                Err(Error::new(Kind::Misuse, what))
            }
        }
    }

    pub(super) fn has_ids(&self) -> bool {
        self.write_id.is_some()
    }
}

impl<C: Codec> Writing<C> {
    pub(super) fn encode(&mut self, request: &[u8]) -> Result<Scratch> {
        Scratch::encode(&mut self.encoder, request)
    }

    pub(super) fn encode_with_id(&mut self, id: RequestId, request: &[u8]) -> Result<Scratch> {
        let Some(write_id) = &mut self.write_id else { return self.encode(request) };
        self.payload.clear();
        self.payload.shrink_to(SCRATCH_BYTES_KEPT);
        write_id(id, request, &mut self.payload);
        Scratch::encode(&mut self.encoder, &self.payload)
    }
}

impl<C> Deref for Lent<'_, C> {
    type Target = Writing<C>;

    fn deref(&self) -> &Writing<C> {
        self.writing.as_ref().expect("taken only by drop")
    }
}

impl<C> DerefMut for Lent<'_, C> {
    fn deref_mut(&mut self) -> &mut Writing<C> {
        self.writing.as_mut().expect("taken only by drop")
    }
}

impl<C> Drop for Lent<'_, C> {
    fn drop(&mut self) {
        self.cell.set(self.writing.take());
    }
}
