//! The writer of requests: the codec, and the program's way to carry an id.

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
    /// Memory to join id and request in.
    payload: Vec<u8>,
}

/// Out of its place, to which it goes back.
pub(super) struct Lent<'a, C> {
    place: &'a Cell<Option<Writing<C>>>,
    writing: Option<Writing<C>>,
}

impl<C> Writing<C> {
    pub(super) fn new(encoder: C, write_id: Option<WriteId>) -> Self {
        Self { encoder, write_id, payload: Vec::new() }
    }

    /// Takes it out of its place for one request.
    ///
    /// # Errors
    /// While another request is being written: by code of the program that makes one itself.
    pub(super) fn lend(place: &Cell<Option<Self>>) -> Result<Lent<'_, C>> {
        match place.take() {
            Some(writing) => Ok(Lent { place, writing: Some(writing) }),
            None => {
                let what = "a request was made by what writes another one: `write_id` or a codec";
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
        self.place.set(self.writing.take());
    }
}
