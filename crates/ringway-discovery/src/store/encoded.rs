//! A key as etcd's API tells it, the message `mvccpb.KeyValue`. It is made when the key is put, and told as often as
//! somebody reads it.

use std::ops::Range;

use bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use super::leases::LeaseId;
use super::values::Revision;

/// What the message has beside the key and the value.
pub(super) struct Numbers {
    pub(super) create_revision: Revision,
    pub(super) mod_revision: Revision,
    pub(super) version: i64,
    pub(super) lease: LeaseId,
}

/// Encodes a key. Returns also the place of its value.
pub(super) fn encode(key: &[u8], numbers: &Numbers, value: &[u8]) -> (Bytes, Range<usize>) {
    let Numbers { create_revision, mod_revision, version, lease } = *numbers;
    let mut out = Vec::with_capacity(key.len() + value.len() + NUMBERS_MAX);
    put_bytes(1, key, &mut out);
    put_number(2, create_revision.0, &mut out);
    put_number(3, mod_revision.0, &mut out);
    put_number(4, version, &mut out);
    put_bytes(5, value, &mut out);
    let end = out.len();
    put_number(6, lease.0, &mut out);
    (Bytes::copy_from_slice(&out), end - value.len()..end)
}

/// Fields that have their default are left out.
fn put_bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        encode_key(tag, WireType::LengthDelimited, out);
        encode_varint(bytes.len() as u64, out);
        out.put_slice(bytes);
    }
}

fn put_number(tag: u32, number: i64, out: &mut Vec<u8>) {
    if number != 0 {
        encode_key(tag, WireType::Varint, out);
        encode_varint(number.cast_unsigned(), out);
    }
}

/// Appends an encoded key as the element of a list.
pub(crate) fn put_element(tag: u32, encoded: &[u8], out: &mut Vec<u8>) {
    out.reserve(encoded.len() + 2 * encoded_len_varint(u64::MAX));
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(encoded.len() as u64, out);
    out.extend_from_slice(encoded);
}

/// Bytes of the tags, of two lengths, and of four numbers that are as long as they can be.
const NUMBERS_MAX: usize = 6 + 2 * 10 + 4 * 10;

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::etcd::api::mvccpb::KeyValue;

    #[test]
    fn an_encoded_key_is_the_message_of_the_api() {
        let number = |rng: &mut fastrand::Rng| {
            let shift = rng.u32(..64);
            rng.i64(..) >> shift
        };
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..1_000 {
            let [key, value] = [(); 2].map(|()| {
                let length = rng.usize(..300);
                Bytes::from_iter((0..length).map(|_| rng.u8(..)))
            });
            let numbers = Numbers {
                create_revision: Revision(number(&mut rng)),
                mod_revision: Revision(number(&mut rng)),
                version: number(&mut rng),
                lease: LeaseId(number(&mut rng)),
            };
            let (encoded, place) = encode(&key, &numbers, &value);
            assert_eq!(encoded.slice(place), value);
            let message = KeyValue {
                key,
                create_revision: numbers.create_revision.0,
                mod_revision: numbers.mod_revision.0,
                version: numbers.version,
                value,
                lease: numbers.lease.0,
            };
            assert_eq!(encoded, message.encode_to_vec());
        }
    }
}
