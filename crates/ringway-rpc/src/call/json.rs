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
use crate::call::protobuf_json::not_finite;
use crate::call::status::Status;

/// The field in the head of an answer by which a server of JSON-RPC over HTTP shows that it is one of ours.
pub(crate) const OURS_FIELD: &str = "ringway-rpc";

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

/// What some programs write before a text. RFC 8259, section 8.1: "implementations that parse JSON texts MAY ignore the
/// presence of a byte order mark rather than treating it as an error".
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How many bytes of a text are a mark of its byte order.
pub(crate) fn mark_len(text: &[u8]) -> usize {
    if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
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
    // So is a number that JSON does not have, for which serde would write null.
    if let Some(name) = number_in(&message).and_then(not_finite) {
        out.extend_from_slice(format!("\"{name}\"").as_bytes());
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
    if piece.first() == Some(&b'"')
        && let Some(number) = parse_not_finite(&piece)
    {
        put_number(&mut message, number);
    }
    match message {
        Some(message) => Ok(message),
        None => serde_json::from_slice(&piece).map_err(|error| unreadable::<T>("JSON", error)),
    }
}

/// The message if it is a floating-point number.
fn number_in<T: 'static>(message: &T) -> Option<f64> {
    let message = message as &dyn Any;
    let single = message.downcast_ref::<f32>().copied().map(f64::from);
    single.or_else(|| message.downcast_ref::<f64>().copied())
}

/// Sets the message if it is a floating-point number.
fn put_number<T: 'static>(message: &mut Option<T>, number: f64) {
    let message = message as &mut dyn Any;
    if let Some(single) = message.downcast_mut::<Option<f32>>() {
        *single = Some(number as f32);
    } else if let Some(double) = message.downcast_mut::<Option<f64>>() {
        *double = Some(number);
    }
}

fn parse_not_finite(json: &[u8]) -> Option<f64> {
    Some(match json {
        b"\"NaN\"" => f64::NAN,
        b"\"Infinity\"" => f64::INFINITY,
        b"\"-Infinity\"" => f64::NEG_INFINITY,
        _ => return None,
    })
}

/// Writes bytes as a string in base64 with padding (RFC 4648, section 4).
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4 + 2);
    out.push(b'"');
    put_padded(bytes, out);
    out.push(b'"');
}

/// The same as text, without the quotes.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    put_padded(bytes, &mut text);
    String::from_utf8(text).expect("its letters are ASCII")
}

fn put_padded(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    put_base64(bytes, out);
    while !(out.len() - start).is_multiple_of(4) {
        out.push(b'=');
    }
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

/// Returns the type's name without its path and its parameters, which do not concern the peer.
fn short<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let name = name.find('<').map_or(name, |end| &name[..end]);
    name.rfind(':').map_or(name, |colon| &name[colon + 1..])
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
    use crate::call::arguments::{ArgumentNames, Arguments};

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
    fn numbers_that_json_does_not_have_are_texts() {
        fn check<T: Serialize + DeserializeOwned + 'static>(number: T, json: &str) -> T {
            let mut out = Vec::new();
            (Json::by_serde().encode)(number, &mut out).expect("a number");
            assert_eq!(String::from_utf8_lossy(&out), json);
            (Json::<T>::by_serde().decode)(Piece::Borrowed(json.as_bytes())).expect("a number")
        }
        assert!(check(f64::NAN, "\"NaN\"").is_nan() && check(f32::NAN, "\"NaN\"").is_nan());
        assert_eq!(check(f64::INFINITY, "\"Infinity\""), f64::INFINITY);
        assert_eq!(check(f32::NEG_INFINITY, "\"-Infinity\""), f32::NEG_INFINITY);
        assert_eq!(check(-0.0_f64, "-0.0").to_bits(), (-0.0_f64).to_bits());
        check("NaN".to_owned(), "\"NaN\"");
        // Of 64 bits, that the shortest text for them does not lose the last one.
        for bits in [0x3fee_3fa4_3fa4_3fa3_u64, 1, 0x000f_ffff_ffff_ffff, 0x7fef_ffff_ffff_ffff] {
            let number = f64::from_bits(bits);
            let json = serde_json::to_string(&number).expect("a number");
            assert_eq!(check(number, &json).to_bits(), bits, "{json}");
        }
        let json = "0.9452706955539223";
        assert_eq!(check(0.9452706955539223_f64, json).to_string(), json);
    }

    #[test]
    fn errors_show_no_path_and_no_parameters_of_a_type() {
        type Pair = Arguments<Names, (String, bool)>;
        let wrong = (Json::<Pair>::by_serde().decode)(Piece::Borrowed(b"[\"latest\"]"));
        let wrong = wrong.map(drop).expect_err("one value of two");
        assert!(!wrong.message().contains("::") && !wrong.message().contains('<'), "{wrong}");
        assert!(
            wrong.message().contains("the message is not a valid Arguments in JSON"),
            "{wrong}"
        );
    }

    struct Names;

    impl ArgumentNames for Names {
        const NAMES: &'static [&'static str] = &["block", "full"];
    }

    #[test]
    fn decoding_errors_name_the_type() {
        let wrong =
            (Json::<u32>::by_serde().decode)(Piece::Borrowed(b"\"x\"")).expect_err("no u32");
        assert!(wrong.message().starts_with("the message is not a valid u32 in JSON"), "{wrong}");
    }
}
