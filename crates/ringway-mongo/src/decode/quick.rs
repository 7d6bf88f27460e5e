//! A deserializer for numbers, strings, times, ids, bytes, and documents and arrays of them.
//!
//! It gives a visitor exactly what bson's [`RawDeserializer`](bson::RawDeserializer) gives it, and gives up where it cannot.
//! That it gave up is noted beside the errors, because a type of the user may take an error for an answer.

use std::cell::Cell;
use std::fmt;
use std::iter::once;

use bson::oid::ObjectId;
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, EnumAccess, MapAccess, SeqAccess};
use serde::de::{VariantAccess, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

/// Decodes a document, whose nesting has been checked. `None`: ask bson.
pub(super) fn decode<T: DeserializeOwned>(document: &[u8]) -> Option<T> {
    let gave_up = Cell::new(false);
    let decoded = T::deserialize(Value { kind: DOCUMENT, bytes: document, gave_up: &gave_up });
    decoded.ok().filter(|_| !gave_up.get())
}

/// Specification: BSON 1.1, "element".
const DOUBLE: u8 = 0x01;
const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const BINARY: u8 = 0x05;
const OBJECT_ID: u8 = 0x07;
const BOOLEAN: u8 = 0x08;
const DATE_TIME: u8 = 0x09;
const NULL: u8 = 0x0a;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;

/// Something does not fit. What it is, bson will say.
#[derive(Debug)]
struct Unfit;

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the document does not fit the type")
    }
}

impl std::error::Error for Unfit {}

impl serde::de::Error for Unfit {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// A value, whose bytes are as many as its type has.
#[derive(Clone, Copy)]
struct Value<'de, 'f> {
    kind: u8,
    bytes: &'de [u8],
    gave_up: &'f Cell<bool>,
}

impl<'de, 'f> Value<'de, 'f> {
    fn give_up(self) -> Unfit {
        self.gave_up.set(true);
        Unfit
    }

    fn number<const N: usize>(self) -> Result<[u8; N], Unfit> {
        self.bytes.try_into().map_err(|_| self.give_up())
    }

    /// Its length and its end are not a part of it.
    fn string(self) -> Result<&'de str, Unfit> {
        let text = self.bytes.get(4..).and_then(|text| text.strip_suffix(&[0]));
        let text = text.and_then(|text| str::from_utf8(text).ok());
        text.ok_or_else(|| self.give_up())
    }

    fn elements(self) -> Result<Elements<'de, 'f>, Unfit> {
        let len = self.bytes.first_chunk().map(|len| i32::from_le_bytes(*len));
        let is_whole = len.and_then(|len| usize::try_from(len).ok()) == Some(self.bytes.len())
            && self.bytes.last() == Some(&0);
        match self.bytes.get(4..).filter(|_| is_whole) {
            Some(rest) => Ok(Elements { rest, next: None, document: self }),
            None => Err(self.give_up()),
        }
    }
}

impl<'de> Deserializer<'de> for Value<'de, '_> {
    type Error = Unfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        match self.kind {
            INT32 => visitor.visit_i32(i32::from_le_bytes(self.number()?)),
            INT64 => visitor.visit_i64(i64::from_le_bytes(self.number()?)),
            DOUBLE => visitor.visit_f64(f64::from_le_bytes(self.number()?)),
            STRING => visitor.visit_borrowed_str(self.string()?),
            BOOLEAN => match self.bytes {
                [0] => visitor.visit_bool(false),
                [1] => visitor.visit_bool(true),
                _ => Err(self.give_up()),
            },
            NULL => visitor.visit_unit(),
            DOCUMENT => visitor.visit_map(self.elements()?),
            ARRAY => visitor.visit_seq(self.elements()?),
            OBJECT_ID => {
                let text = ObjectId::from_bytes(self.number()?).to_hex();
                visitor.visit_map(MapDeserializer::new(once((name("$oid"), text))))
            }
            DATE_TIME => {
                let text = i64::from_le_bytes(self.number()?).to_string();
                let time = MapDeserializer::new(once((name("$numberLong"), text)));
                visitor.visit_map(MapDeserializer::new(once((name("$date"), time))))
            }
            // Behind the length and the generic subtype.
            BINARY => match self.bytes.get(4..) {
                Some([0, bytes @ ..]) => visitor.visit_borrowed_bytes(bytes),
                _ => Err(self.give_up()),
            },
            _ => Err(self.give_up()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        match self.kind {
            NULL => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unfit> {
        match self.kind {
            STRING => visitor.visit_enum(BorrowedStrDeserializer::new(self.string()?)),
            DOCUMENT => visitor.visit_enum(self.elements()?),
            _ => Err(Unfit),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        match self.kind {
            OBJECT_ID => visitor.visit_borrowed_bytes(self.bytes),
            _ => self.deserialize_any(visitor),
        }
    }

    /// Some names are bson's own, which ask for more than a value.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unfit> {
        match name.starts_with("$__") {
            true => Err(self.give_up()),
            false => visitor.visit_newtype_struct(self),
        }
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The name of a field that bson makes of an id or a time.
fn name(name: &'static str) -> BorrowedStrDeserializer<'static, Unfit> {
    BorrowedStrDeserializer::new(name)
}

/// The elements of a document or an array that are left.
struct Elements<'de, 'f> {
    rest: &'de [u8],
    /// The value whose name was read.
    next: Option<Value<'de, 'f>>,
    document: Value<'de, 'f>,
}

impl<'de, 'f> Elements<'de, 'f> {
    /// The name of the next element, whose value is `next` then.
    fn read_name(&mut self) -> Result<Option<&'de [u8]>, Unfit> {
        match self.rest {
            [0] => Ok(None),
            [kind, rest @ ..] => {
                let read = name_and_value(*kind, rest);
                let (name, bytes, rest) = read.ok_or_else(|| self.document.give_up())?;
                self.next = Some(Value { kind: *kind, bytes, gave_up: self.document.gave_up });
                self.rest = rest;
                Ok(Some(name))
            }
            [] => Err(self.document.give_up()),
        }
    }

    fn read_key(&mut self) -> Result<Option<&'de str>, Unfit> {
        let Some(name) = self.read_name()? else { return Ok(None) };
        str::from_utf8(name).map(Some).map_err(|_| self.document.give_up())
    }

    fn take_value(&mut self) -> Result<Value<'de, 'f>, Unfit> {
        self.next.ok_or_else(|| self.document.give_up())
    }
}

/// The name, the value, and what is behind it. `None` if something is wrong or seldom.
fn name_and_value(kind: u8, element: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let name_len = element.iter().position(|byte| *byte == 0)?;
    let (name, rest) = (&element[..name_len], &element[name_len + 1..]);
    let len = match kind {
        INT32 => 4,
        INT64 | DOUBLE | DATE_TIME => 8,
        STRING => length(rest)?.checked_add(4)?,
        BOOLEAN => 1,
        NULL => 0,
        OBJECT_ID => 12,
        DOCUMENT | ARRAY => length(rest)?,
        BINARY => length(rest)?.checked_add(5)?,
        _ => return None,
    };
    let (value, behind) = rest.split_at_checked(len)?;
    Some((name, value, behind))
}

/// The length that a value begins with.
fn length(value: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*value.first_chunk()?)).ok()
}

impl<'de> MapAccess<'de> for Elements<'de, '_> {
    type Error = Unfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Unfit> {
        match self.read_key()? {
            Some(key) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unfit> {
        seed.deserialize(self.take_value()?)
    }
}

impl<'de> SeqAccess<'de> for Elements<'de, '_> {
    type Error = Unfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Unfit> {
        match self.read_key()? {
            Some(_) => seed.deserialize(self.take_value()?).map(Some),
            None => Ok(None),
        }
    }
}

impl<'de> EnumAccess<'de> for Elements<'de, '_> {
    type Error = Unfit;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(mut self, seed: V) -> Result<(V::Value, Self), Unfit> {
        let key = self.read_key()?.ok_or(Unfit)?;
        let key: BorrowedStrDeserializer<'_, Unfit> = BorrowedStrDeserializer::new(key);
        Ok((seed.deserialize(key)?, self))
    }
}

impl<'de> VariantAccess<'de> for Elements<'de, '_> {
    type Error = Unfit;

    fn unit_variant(self) -> Result<(), Unfit> {
        Err(Unfit)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Unfit> {
        seed.deserialize(self.take_value()?)
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, _: usize, visitor: V) -> Result<V::Value, Unfit> {
        self.take_value()?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unfit> {
        self.take_value()?.deserialize_any(visitor)
    }
}
