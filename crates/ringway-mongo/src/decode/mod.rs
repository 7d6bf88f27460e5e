//! Documents as types of the user.
//!
//! Most documents are decoded by [`quick`](mod@quick), which knows the values that nearly all of them are made of. Whatever it
//! does not know, or finds wrong, is decoded again by bson's own deserializer, whose result or error is the one that
//! counts.

mod quick;

#[cfg(test)]
mod tests;

use std::any::Any;

use bson::{Document, RawDeserializer, RawDocument};
use ringway_wire::mongo::check_nesting;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Decodes a document, unless it is nested so deeply that decoding would use up the stack.
pub(crate) fn decode<T: DeserializeOwned + 'static>(document: &RawDocument) -> Result<T> {
    check_nesting(document).map_err(Error::decoding)?;
    // Serde is a long way around for what needs no type of the user.
    let mut decoded: Option<T> = None;
    let place: &mut dyn Any = &mut decoded;
    if let Some(place) = place.downcast_mut() {
        *place = Some(document.to_owned());
    } else if let Some(place) = place.downcast_mut() {
        *place = Some(Document::try_from(document).map_err(Error::decoding)?);
    }
    match decoded.or_else(|| quick::decode(document.as_bytes())) {
        Some(decoded) => Ok(decoded),
        None => by_serde(document.as_bytes()),
    }
}

/// Noting the path to each field costs more than decoding it, so it is noted when an error has to name it.
fn by_serde<T: DeserializeOwned>(document: &[u8]) -> Result<T> {
    let decoded = RawDeserializer::new(document).and_then(T::deserialize);
    decoded.or_else(|_| bson::deserialize_from_slice(document)).map_err(Error::decoding)
}
