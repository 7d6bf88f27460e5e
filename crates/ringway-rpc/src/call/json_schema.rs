//! The JSON Schema of a type, found by what its `Deserialize` asks for when it is given made-up values.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::value::{Error as Refused, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use serde_json::{Map, Value, json};

use crate::limits;

/// The schema of values that `T` reads, as far as it can be found: `{}` allows everything. Members of an object
/// without which `T` cannot be read are `required`.
pub(crate) fn schema_of<T: DeserializeOwned>() -> Value {
    let (mut schema, is_whole) = sketch::<T>(None);
    let members = schema.get("properties").and_then(Value::as_object).filter(|_| is_whole);
    if let Some(members) = members {
        let names = members.keys().take(limits::SCHEMA_MEMBERS_TRIED);
        let mut required: Vec<&String> = names.filter(|name| !sketch::<T>(Some(name)).1).collect();
        // The order of a map's names depends on a feature of serde_json that others may have turned on.
        required.sort();
        let required = json!(required);
        if required != json!([]) {
            schema["required"] = required;
        }
    }
    schema
}

/// Reads a `T` of made-up values, without this member. Returns what `T` asked for, and whether it could be read.
fn sketch<T: DeserializeOwned>(without: Option<&str>) -> (Value, bool) {
    let (mut found, budget) = (json!({}), Cell::new(limits::SCHEMA_NODES_MAX));
    let sketch = Sketch { found: &mut found, budget: &budget, depth: 0, without };
    let read = catch_unwind(AssertUnwindSafe(|| T::deserialize(sketch).is_ok()));
    (found, read.unwrap_or(false))
}

/// A deserializer that records what a type asks for, and makes up values.
struct Sketch<'a> {
    found: &'a mut Value,
    /// How many more values may be made up.
    budget: &'a Cell<u32>,
    depth: u32,
    without: Option<&'a str>,
}

impl<'a> Sketch<'a> {
    fn is(self, schema: Value) -> Result<(), Refused> {
        *self.found = schema;
        match self.budget.get().checked_sub(1) {
            Some(left) if self.depth <= limits::SCHEMA_DEPTH_MAX => {
                self.budget.set(left);
                Ok(())
            }
            _ => Err(refused()),
        }
    }

    fn again(&mut self) -> Sketch<'_> {
        Sketch { found: self.found, budget: self.budget, depth: self.depth, without: self.without }
    }

    fn elements(&self, left: usize) -> Elements<'a> {
        let left = if self.is_deepest() { 0 } else { left };
        Elements { found: Vec::new(), left, budget: self.budget, depth: self.depth + 1 }
    }

    fn is_deepest(&self) -> bool {
        self.depth >= limits::SCHEMA_DEPTH_MAX
    }
}

fn refused() -> Refused {
    de::Error::custom("no value is made up")
}

/// Defines functions that record a schema and give one value.
macro_rules! values {
    ($($function:ident: $schema:tt $visit:ident $value:expr;)*) => {
        $(fn $function<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
            self.again().is(json!($schema))?;
            visitor.$visit($value)
        })*
    };
}

impl<'de> Deserializer<'de> for Sketch<'_> {
    type Error = Refused;

    values! {
        deserialize_bool: {"type": "boolean"} visit_bool false;
        deserialize_i8: {"type": "integer"} visit_u64 1;
        deserialize_i16: {"type": "integer"} visit_u64 1;
        deserialize_i32: {"type": "integer"} visit_u64 1;
        deserialize_i64: {"type": "integer"} visit_u64 1;
        deserialize_i128: {"type": "integer"} visit_u64 1;
        deserialize_u8: {"type": "integer", "minimum": 0} visit_u64 1;
        deserialize_u16: {"type": "integer", "minimum": 0} visit_u64 1;
        deserialize_u32: {"type": "integer", "minimum": 0} visit_u64 1;
        deserialize_u64: {"type": "integer", "minimum": 0} visit_u64 1;
        deserialize_u128: {"type": "integer", "minimum": 0} visit_u64 1;
        deserialize_f32: {"type": "number"} visit_f64 1.0;
        deserialize_f64: {"type": "number"} visit_f64 1.0;
        deserialize_char: {"type": "string", "minLength": 1} visit_char 'a';
        deserialize_str: {"type": "string"} visit_str "a";
        deserialize_string: {"type": "string"} visit_str "a";
        deserialize_identifier: {"type": "string"} visit_str "a";
        deserialize_bytes: {} visit_bytes b"a";
        deserialize_byte_buf: {} visit_bytes b"a";
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.is(json!({"type": "null"}))?;
        visitor.visit_unit()
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.is(json!({}))?;
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_any(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        match self.is_deepest() {
            true => Err(refused()),
            false => visitor.visit_newtype_struct(Self { depth: self.depth + 1, ..self }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.is_deepest() {
            *self.found = json!({});
            return visitor.visit_none();
        }
        let mut inner = json!({});
        let value = Sketch { found: &mut inner, depth: self.depth + 1, ..self };
        let read = visitor.visit_some(value);
        *self.found = match inner == json!({}) {
            true => inner,
            false => json!({"anyOf": [inner, {"type": "null"}]}),
        };
        read
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.again().is(json!({"type": "array"}))?;
        let mut elements = self.elements(1);
        let read = visitor.visit_seq(&mut elements);
        if let Some(element) = elements.found.pop() {
            self.found["items"] = element;
        }
        read
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        mut self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.again().is(json!({"type": "array", "minItems": len, "maxItems": len}))?;
        let mut elements = self.elements(len);
        let read = visitor.visit_seq(&mut elements);
        self.found["items"] = elements.found.into();
        read
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.again().is(json!({"type": "object"}))?;
        let mut entry = self.elements(1);
        let read = visitor.visit_map(&mut entry);
        if let (Ok(_), Some(value)) = (&read, entry.found.pop()) {
            self.found["additionalProperties"] = value;
        }
        read
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.again().is(json!({"type": "object"}))?;
        if self.is_deepest() {
            return Err(refused());
        }
        let left = fields.iter().filter(|name| self.without != Some(**name)).copied();
        let mut members = Members {
            left: left.collect::<Vec<_>>().into_iter(),
            name: "",
            found: Map::new(),
            budget: self.budget,
            depth: self.depth + 1,
        };
        let read = visitor.visit_map(&mut members);
        let mut found = members.found;
        for name in fields {
            found.entry(*name).or_insert_with(|| json!({}));
        }
        self.found["properties"] = found.into();
        read
    }

    /// One variant of several is tried; the others may have any form.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let schema = json!({"description": format!("one of {}", variants.join(", "))});
        let (budget, depth) = (self.budget, self.depth + 1);
        self.is(schema)?;
        visitor.visit_enum(Variant { name: variants.first().ok_or_else(refused)?, budget, depth })
    }
}

/// Elements of a list, or entries of a map.
struct Elements<'a> {
    found: Vec<Value>,
    left: usize,
    budget: &'a Cell<u32>,
    depth: u32,
}

impl Elements<'_> {
    fn value<'de, T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refused> {
        let mut found = json!({});
        let value =
            Sketch { found: &mut found, budget: self.budget, depth: self.depth, without: None };
        let read = seed.deserialize(value);
        self.found.push(found);
        read
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        self.value(seed).map(Some)
    }
}

impl<'de> MapAccess<'de> for &mut Elements<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let mut found = json!({});
        let key =
            Sketch { found: &mut found, budget: self.budget, depth: self.depth, without: None };
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refused> {
        self.value(seed)
    }
}

/// The members of a struct.
struct Members<'a> {
    left: std::vec::IntoIter<&'static str>,
    /// The one whose value is next.
    name: &'static str,
    found: Map<String, Value>,
    budget: &'a Cell<u32>,
    depth: u32,
}

impl<'de> MapAccess<'de> for &mut Members<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        let Some(name) = self.left.next() else { return Ok(None) };
        self.name = name;
        let name: StrDeserializer<'_, Refused> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refused> {
        let mut found = json!({});
        let value =
            Sketch { found: &mut found, budget: self.budget, depth: self.depth, without: None };
        let read = seed.deserialize(value);
        self.found.insert(self.name.to_owned(), found);
        read
    }
}

/// The first variant of an enum.
struct Variant<'a> {
    name: &'static str,
    budget: &'a Cell<u32>,
    depth: u32,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Refused> {
        let name: StrDeserializer<'_, Refused> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'a> Variant<'a> {
    fn with<T>(self, look: impl FnOnce(Sketch<'_>) -> Result<T, Refused>) -> Result<T, Refused> {
        let mut found = json!({});
        look(Sketch { found: &mut found, budget: self.budget, depth: self.depth, without: None })
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refused> {
        self.with(|value| seed.deserialize(value))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        self.with(|value| value.deserialize_tuple(len, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.with(|value| value.deserialize_struct("", fields, visitor))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU16;

    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Order {
        id: NonZeroU16,
        #[serde(rename = "customerName")]
        customer: String,
        #[serde(default)]
        lines: Vec<Line>,
        price: Option<f64>,
        side: Side,
        more: BTreeMap<String, bool>,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Line(u8, char);

    #[derive(Deserialize)]
    #[allow(dead_code)]
    enum Side {
        Buy,
        Sell,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Tree {
        left: Option<Box<Tree>>,
        right: Option<Box<Tree>>,
        all: Vec<Tree>,
    }

    /// A type that no made-up value pleases.
    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Strict {
        address: std::net::IpAddr,
        port: u16,
    }

    struct Panics;

    impl<'de> Deserialize<'de> for Panics {
        fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("it reads nothing")
        }
    }

    #[test]
    fn a_struct_is_an_object_with_its_members() {
        let integer = json!({"type": "integer", "minimum": 0});
        assert_eq!(
            schema_of::<Order>(),
            json!({
                "type": "object",
                "properties": {
                    "id": integer,
                    "customerName": {"type": "string"},
                    "lines": {"type": "array", "items": {
                        "type": "array", "minItems": 2, "maxItems": 2,
                        "items": [integer, {"type": "string", "minLength": 1}],
                    }},
                    "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                    "side": {"description": "one of Buy, Sell"},
                    "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
                },
                "required": ["customerName", "id", "more", "side"],
            })
        );
    }

    #[test]
    fn what_cannot_be_found_allows_everything() {
        let schema = schema_of::<Strict>();
        assert_eq!(schema["properties"], json!({"address": {"type": "string"}, "port": {}}));
        assert_eq!(schema.get("required"), None, "nothing is known of it");
        assert_eq!(schema_of::<Value>(), json!({}));
        assert_eq!(schema_of::<Box<RawValue>>(), json!({}));
        assert_eq!(schema_of::<Panics>(), json!({}));
        assert_eq!(schema_of::<()>(), json!({"type": "null"}));
    }

    #[test]
    fn types_that_contain_themselves_end() {
        let schema = schema_of::<Tree>();
        let text = schema.to_string();
        assert!(text.len() < 64 * limits::SCHEMA_NODES_MAX as usize, "{}", text.len());
        assert!(schema["properties"]["left"]["anyOf"][0]["properties"]["all"].is_object());
    }
}
