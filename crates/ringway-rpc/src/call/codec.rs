//! Encodings of messages, chosen by their type.

use std::any::{Any, TypeId};
use std::fmt;

use bytes::Bytes;
use ringway_runtime::drop_contained;
use ringway_wire::native::Piece;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::json::{Json, unreadable};
use crate::call::small_copy;
use crate::call::status::Status;
use crate::limits;

/// The number of raw bytes.
pub(crate) const RAW: u8 = 0;
/// The number of Protocol Buffers.
pub(crate) const PROTOBUF: u8 = 1;
/// The number of JSON.
pub(crate) const JSON: u8 = 2;
/// Numbers from here up are for applications, by agreement of both ends.
pub(crate) const BY_AGREEMENT: u8 = 128;

/// The description of sent messages for logs of their destructors' panics.
pub(crate) const MESSAGE: &str = "a message that was sent";

/// Encodes and decodes messages of type `T`.
///
/// [`codec_of!`](crate::codec_of) chooses it by type, in this order: [`Bytes`] are sent as raw
/// bytes, types with `prost::Message` as protobuf, types with serde's two traits as JSON.
pub struct Codec<T> {
    /// The number of the codec on the wire.
    pub id: u8,
    /// Appends the encoded message to the buffer, or returns bytes that are the encoded message.
    ///
    /// # Errors
    /// INTERNAL when the message cannot be encoded.
    pub encode: fn(T, &mut Vec<u8>) -> Result<Option<Bytes>, Status>,
    /// Decodes a whole message.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the bytes are not such a message.
    pub decode: fn(Piece<'_>) -> Result<T, Status>,
    /// The JSON form of the message, for protocols that only know JSON. There a type without it is
    /// served through the descriptors of its service if it is protobuf, or not at all.
    pub json: Option<Json<T>>,
}

impl<T> Codec<T> {
    /// Returns the codec, or the JSON codec of the message if `is_json` and there is one.
    #[inline]
    pub(crate) fn in_form(&self, is_json: bool) -> Self {
        match self.json {
            Some(Json { encode, decode, .. }) if is_json => {
                Self { id: JSON, encode, decode, ..*self }
            }
            _ => *self,
        }
    }
}

impl<T: 'static> Codec<T> {
    /// Returns the full name of the protobuf message for a type of `std`; empty for all other
    /// types.
    pub(crate) fn well_known(&self) -> &'static str {
        let known = WELL_KNOWN.iter().find(|(id, _)| *id == TypeId::of::<T>());
        known.filter(|_| self.id == PROTOBUF).map_or("", |(_, name)| name)
    }
}

/// Checks that a message can be carried at all: the lengths of protocols have 32 bits.
///
/// # Errors
/// RESOURCE_EXHAUSTED when it is longer than any peer may accept.
#[inline]
pub(crate) fn check_len(len: usize) -> Result<(), Status> {
    match len <= limits::MESSAGE_BYTES_MAX as usize {
        true => Ok(()),
        false => Err(too_long(len)),
    }
}

#[cold]
fn too_long(len: usize) -> Status {
    let most = limits::MESSAGE_BYTES_MAX;
    Status::resource_exhausted(format!("a message of {len} bytes is longer than {most}"))
}

/// The protobuf messages that prost uses for types of `std`.
const WELL_KNOWN: [(TypeId, &str); 10] = [
    (TypeId::of::<()>(), "google.protobuf.Empty"),
    (TypeId::of::<bool>(), "google.protobuf.BoolValue"),
    (TypeId::of::<u32>(), "google.protobuf.UInt32Value"),
    (TypeId::of::<u64>(), "google.protobuf.UInt64Value"),
    (TypeId::of::<i32>(), "google.protobuf.Int32Value"),
    (TypeId::of::<i64>(), "google.protobuf.Int64Value"),
    (TypeId::of::<f32>(), "google.protobuf.FloatValue"),
    (TypeId::of::<f64>(), "google.protobuf.DoubleValue"),
    (TypeId::of::<String>(), "google.protobuf.StringValue"),
    (TypeId::of::<Vec<u8>>(), "google.protobuf.BytesValue"),
];

/// Makes the INTERNAL status of a reply that cannot be decoded, because the caller is not at fault.
#[cold]
pub(crate) fn unreadable_reply(status: Status) -> Status {
    let text = format!("the reply cannot be read: {}", status.message());
    Status::internal(text).with_source(status)
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Codec<T> {}

impl<T> fmt::Debug for Codec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(self.id))
    }
}

/// Returns the name of a codec's number, for messages to people.
pub(crate) fn name(id: u8) -> &'static str {
    match id {
        RAW => "raw bytes",
        PROTOBUF => "protobuf",
        JSON => "JSON",
        128.. => "an application's codec",
        _ => "an unknown codec",
    }
}

impl Codec<Bytes> {
    /// Makes the codec of raw bytes. Received bytes are copied only if they are borrowed.
    pub const fn raw() -> Self {
        Self {
            id: RAW,
            encode: |bytes, _| Ok(Some(bytes)),
            decode: |piece| Ok(small_copy::keep(piece)),
            json: Some(Json::in_base64()),
        }
    }
}

impl<T: prost::Message + Default + 'static> Codec<T> {
    /// Makes the protobuf codec of a type.
    pub const fn protobuf() -> Self {
        Self {
            id: PROTOBUF,
            encode: |message, out| {
                match negative_zero(&message) {
                    Some(wrapped) => out.extend_from_slice(wrapped),
                    None => message.encode(out).expect("a vector has room"),
                }
                drop_contained(MESSAGE, message);
                Ok(None)
            },
            decode: |piece| {
                let decoded = match piece {
                    Piece::Borrowed(bytes) => T::decode(bytes),
                    Piece::Owned(bytes) => T::decode(bytes), // fields of type `Bytes` share its memory
                };
                decoded.map_err(|error| unreadable::<T>("protobuf", error))
            },
            json: None,
        }
    }
}

/// The encoding of a number that is −0.0, of which prost loses the sign: it takes it for the default. The compiler
/// resolves the types.
#[inline]
fn negative_zero<T: 'static>(message: &T) -> Option<&'static [u8]> {
    let message = message as &dyn Any;
    let double = message.downcast_ref::<f64>().is_some_and(|it| it.to_bits() == 1 << 63);
    let single = message.downcast_ref::<f32>().is_some_and(|it| it.to_bits() == 1 << 31);
    match (double, single) {
        (true, _) => Some(&[0x09, 0, 0, 0, 0, 0, 0, 0, 0x80]),
        (_, true) => Some(&[0x0d, 0, 0, 0, 0x80]),
        _ => None,
    }
}

impl<T: prost::Message + Default + Serialize + DeserializeOwned + 'static> Codec<T> {
    /// Makes the protobuf codec of a type, with serde's form for protocols that only know JSON.
    pub const fn protobuf_or_json() -> Self {
        Self { json: Some(Json::by_serde()), ..Self::protobuf() }
    }
}

impl<T: Serialize + DeserializeOwned + 'static> Codec<T> {
    /// Makes the JSON codec of a type.
    pub const fn json() -> Self {
        let json = Json::by_serde();
        Self { id: JSON, encode: json.encode, decode: json.decode, json: Some(json) }
    }
}

/// Returns the [`Codec`] of a type: raw bytes for `Bytes`, else protobuf for a `prost::Message`,
/// else JSON for a type with serde's `Serialize` and `DeserializeOwned`.
///
/// The type must be concrete: it cannot be a generic parameter.
///
/// ```
/// use ringway_rpc::codec_of;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Point { x: i32, y: i32 }
///
/// let mut out = Vec::new();
/// (codec_of!(Point).encode)(Point { x: 1, y: 2 }, &mut out)?;
/// assert_eq!(out, br#"{"x":1,"y":2}"#);
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
#[macro_export]
macro_rules! codec_of {
    ($message:ty) => {{
        // Method lookup tries the value as it is first, then dereferences it step by step.
        #[allow(unused_imports)]
        use $crate::select::{ByBoth as _, ByNothing as _, ByProst as _, BySerde as _, Raw as _};
        (&&&&$crate::select::Select::<$message>::new()).codec()
    }};
}

/// The selection behind [`codec_of!`](crate::codec_of): the method of the first trait that applies.
#[doc(hidden)]
pub mod select {
    use std::marker::PhantomData;

    use bytes::Bytes;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::Codec;

    #[derive(Clone, Copy, Debug)]
    pub struct Select<T>(PhantomData<fn() -> T>);

    impl<T> Select<T> {
        #[allow(clippy::new_without_default, reason = "only the macro uses it")]
        pub const fn new() -> Self {
            Self(PhantomData)
        }
    }

    pub trait Raw {
        fn codec(self) -> Codec<Bytes>;
    }

    impl Raw for &&&&Select<Bytes> {
        fn codec(self) -> Codec<Bytes> {
            Codec::raw()
        }
    }

    pub trait ByBoth<T> {
        fn codec(self) -> Codec<T>;
    }

    impl<T: prost::Message + Default + Serialize + DeserializeOwned + 'static> ByBoth<T>
        for &&&Select<T>
    {
        fn codec(self) -> Codec<T> {
            Codec::protobuf_or_json()
        }
    }

    pub trait ByProst<T> {
        fn codec(self) -> Codec<T>;
    }

    impl<T: prost::Message + Default + 'static> ByProst<T> for &&Select<T> {
        fn codec(self) -> Codec<T> {
            Codec::protobuf()
        }
    }

    pub trait BySerde<T> {
        fn codec(self) -> Codec<T>;
    }

    impl<T: Serialize + DeserializeOwned + 'static> BySerde<T> for &Select<T> {
        fn codec(self) -> Codec<T> {
            Codec::json()
        }
    }

    /// Applies to every type, so that an unsupported one gets a readable compile error.
    pub trait ByNothing<T> {
        fn codec(self) -> Codec<T>
        where
            T: Travels;
    }

    impl<T> ByNothing<T> for Select<T> {
        fn codec(self) -> Codec<T>
        where
            T: Travels,
        {
            unreachable!("no type implements this trait")
        }
    }

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be sent or received by an RPC method",
        label = "not a message",
        note = "use `Bytes`, a type with `prost::Message`, or one with serde's `Serialize` and `Deserialize`"
    )]
    pub trait Travels {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Point {
        x: i32,
    }

    /// A type with prost's trait and both of serde's.
    #[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
    struct Both {
        #[prost(uint32, tag = "1")]
        value: u32,
    }

    #[track_caller]
    fn check<T: Clone + PartialEq + fmt::Debug>(codec: Codec<T>, id: u8, value: T, wire: &[u8]) {
        assert_eq!(codec.id, id);
        let mut out = Vec::new();
        let whole = (codec.encode)(value.clone(), &mut out).expect("it is encoded");
        assert_eq!(whole.as_deref().unwrap_or(&out), wire);
        for piece in [Piece::Borrowed(wire), Piece::Owned(Bytes::copy_from_slice(wire))] {
            assert_eq!((codec.decode)(piece).expect("it is decoded"), value);
        }
    }

    #[test]
    fn the_type_chooses_the_codec() {
        check(codec_of!(Bytes), RAW, Bytes::from_static(b"\x00raw"), b"\x00raw");
        check(codec_of!(Both), PROTOBUF, Both { value: 3 }, b"\x08\x03");
        check(codec_of!(Point), JSON, Point { x: -1 }, br#"{"x":-1}"#);
        check(codec_of!(Vec<Point>), JSON, vec![Point { x: 1 }], br#"[{"x":1}]"#);
        check(codec_of!(()), PROTOBUF, (), b"");
        check(codec_of!(String), PROTOBUF, "hi".to_owned(), b"\x0a\x02hi");
    }

    #[test]
    fn raw_bytes_that_are_owned_are_not_copied() {
        let sent = Bytes::from(vec![7; 100]);
        let got = (codec_of!(Bytes).decode)(Piece::Owned(sent.clone())).expect("bytes");
        assert_eq!(got.as_ptr(), sent.as_ptr());
        let whole = (codec_of!(Bytes).encode)(sent.clone(), &mut Vec::new()).expect("bytes");
        assert_eq!(whole.expect("handed over").as_ptr(), sent.as_ptr());
    }

    /// A message whose destructor panics.
    #[derive(Serialize, Deserialize)]
    struct Bitter {
        x: i32,
    }

    impl Drop for Bitter {
        fn drop(&mut self) {
            panic!("as destructors may");
        }
    }

    #[derive(prost::Message)]
    struct BitterToo {
        #[prost(uint32, tag = "1")]
        value: u32,
    }

    impl Drop for BitterToo {
        fn drop(&mut self) {
            assert_eq!(self.value, 0, "as destructors may");
        }
    }

    #[test]
    fn message_whose_destructor_panics_is_encoded() {
        let mut out = Vec::new();
        (codec_of!(Bitter).encode)(Bitter { x: 1 }, &mut out).expect("it is encoded");
        (codec_of!(BitterToo).encode)(BitterToo { value: 3 }, &mut out).expect("it is encoded");
        assert_eq!(out, b"{\"x\":1}\x08\x03");
    }

    #[test]
    fn decoding_errors_name_the_type_and_the_side_at_fault() {
        let request = (codec_of!(Point).decode)(Piece::Borrowed(b"{")).expect_err("no JSON");
        assert!(request.is_invalid_argument());
        assert!(
            request.message().starts_with("the message is not a valid Point in JSON"),
            "{request}"
        );
        let reply = (codec_of!(Both).decode)(Piece::Borrowed(&[8])).map_err(unreadable_reply);
        let reply = reply.expect_err("cut");
        assert!(reply.is_internal(), "{reply}");
        assert!(std::error::Error::source(&reply).is_some());
    }
}
