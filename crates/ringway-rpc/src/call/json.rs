//! JSON forms of messages, for protocols that only know JSON.

use std::any::Any;
use std::fmt;

use bytes::Bytes;
use ringway_runtime::drop_contained;
use ringway_wire::grpc::{parse_base64, put_base64};
use ringway_wire::native::Piece;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::call::codec::MESSAGE;
use crate::call::json_schema::schema_of;
use crate::call::json_shape::Shape;
use crate::call::status::Status;

/// The JSON form of messages of type `T`: serde's, or a base64 string for bytes.
pub struct Json<T> {
    pub(crate) encode: fn(T, &mut Vec<u8>) -> Result<Option<Bytes>, Status>,
    pub(crate) decode: fn(Piece<'_>) -> Result<T, Status>,
    pub(crate) shape: fn() -> Shape,
    /// The JSON Schema.
    pub(crate) schema: fn() -> Value,
}

impl<T: Serialize + DeserializeOwned + 'static> Json<T> {
    pub(crate) const fn by_serde() -> Self {
        Self { encode, decode, shape: Shape::of::<T>, schema: schema_of::<T> }
    }
}

impl Json<Bytes> {
    pub(crate) const fn in_base64() -> Self {
        Self {
            encode: |bytes, out| {
                put_bytes(&bytes, out);
                Ok(None)
            },
            decode: |piece| parse_bytes(&piece).map(Bytes::from),
            shape: || Shape::Scalar,
            schema: || json!({"type": "string", "contentEncoding": "base64"}),
        }
    }
}

fn encode<T: Serialize + 'static>(message: T, out: &mut Vec<u8>) -> Result<Option<Bytes>, Status> {
    // Bytes are base64, as in protobuf's JSON. The compiler resolves the check.
    if let Some(bytes) = (&message as &dyn Any).downcast_ref::<Vec<u8>>() {
        put_bytes(bytes, out);
        return Ok(None);
    }
    let written = serde_json::to_writer(out, &message);
    drop_contained(MESSAGE, message);
    match written {
        Ok(()) => Ok(None),
        Err(error) => {
            let text = format!("the {} cannot be encoded as JSON: {error}", short::<T>());
            Err(Status::internal(text).with_source(error))
        }
    }
}

fn decode<T: DeserializeOwned + 'static>(piece: Piece<'_>) -> Result<T, Status> {
    let mut message: Option<T> = None;
    if let Some(message) = (&mut message as &mut dyn Any).downcast_mut::<Option<Vec<u8>>>() {
        *message = Some(parse_bytes(&piece)?);
    }
    match message {
        Some(message) => Ok(message),
        None => serde_json::from_slice(&piece).map_err(|error| unreadable::<T>("JSON", error)),
    }
}

/// Writes bytes as a string in base64 with padding (RFC 4648, section 4).
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4 + 2);
    out.push(b'"');
    let start = out.len();
    put_base64(bytes, out);
    while !(out.len() - start).is_multiple_of(4) {
        out.push(b'=');
    }
    out.push(b'"');
}

fn parse_bytes(json: &[u8]) -> Result<Vec<u8>, Status> {
    let content = json.strip_prefix(b"\"").and_then(|json| json.strip_suffix(b"\""));
    let mut bytes = Vec::new();
    match content.is_some_and(|content| parse_base64(content, &mut bytes)) {
        true => Ok(bytes),
        false => Err(Status::invalid_argument("the message is not a string in base64")),
    }
}

#[cold]
pub(crate) fn unreadable<T>(
    form: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Status {
    let text = format!("the message is not a valid {} in {form}: {error}", short::<T>());
    Status::invalid_argument(text).with_source(error)
}

/// Returns the type's name without its path, which does not concern the peer.
fn short<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let end = name.find('<').unwrap_or(name.len());
    name[..end].rfind(':').map_or(name, |colon| &name[colon + 1..])
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Json<T> {}

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Json").field(&(self.shape)()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_base64_strings() {
        for (bytes, json) in
            [(&b""[..], r#""""#), (b"a", r#""YQ==""#), (b"ab", r#""YWI=""#), (b"abc", r#""YWJj""#)]
        {
            let mut out = Vec::new();
            (Json::by_serde().encode)(bytes.to_vec(), &mut out).expect("bytes");
            assert_eq!(out, json.as_bytes());
            let json = || Piece::Borrowed(json.as_bytes());
            assert_eq!((Json::<Vec<u8>>::by_serde().decode)(json()).expect("bytes"), bytes);
            assert_eq!((Json::in_base64().decode)(json()).expect("bytes"), bytes);
        }
        let wrong = (Json::in_base64().decode)(Piece::Borrowed(b"[1]")).expect_err("no string");
        assert!(wrong.is_invalid_argument(), "{wrong}");
    }

    #[test]
    fn decoding_errors_name_the_type() {
        let wrong =
            (Json::<u32>::by_serde().decode)(Piece::Borrowed(b"\"x\"")).expect_err("no u32");
        assert!(wrong.message().starts_with("the message is not a valid u32 in JSON"), "{wrong}");
    }
}
