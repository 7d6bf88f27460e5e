//! Messages of protobuf in their JSON form (ProtoJSON).
//!
//! prost-reflect knows the form as well, but writes `null` for a wrapper of NaN or an infinity, and loses the sign of
//! −0.0 in one. The other well-known messages are left to it.

use prost_reflect::{DynamicMessage, Kind, MapKey, ReflectMessage, SerializeOptions, Value};
use serde::ser::{Error, Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::call::json::base64;

/// A message that serde writes as JSON, fields without presence with their defaults, too.
#[derive(Debug)]
pub struct ProtobufJson<'a>(pub &'a DynamicMessage);

/// The number of a wrapper's field.
const WRAPPED: u32 = 1;

impl Serialize for ProtobufJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let descriptor = self.0.descriptor();
        let field = |number| self.0.get_field_by_number(number);
        match descriptor.full_name() {
            "google.protobuf.FloatValue" | "google.protobuf.DoubleValue" => {
                match field(WRAPPED).as_deref() {
                    Some(Value::F32(number)) => put_f32(*number, serializer),
                    Some(Value::F64(number)) => put_f64(*number, serializer),
                    _ => Err(S::Error::custom("the wrapper has no number")),
                }
            }
            "google.protobuf.Any" => put_any(self.0, serializer),
            name if is_well_known(name) => {
                let options = SerializeOptions::new().skip_default_fields(false);
                self.0.serialize_with_options(serializer, &options)
            }
            _ => {
                let mut object = serializer.serialize_map(None)?;
                put_members(self.0, &mut object)?;
                object.end()
            }
        }
    }
}

/// Whether a message has a JSON form of its own.
fn is_well_known(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "Any",
        "BoolValue",
        "BytesValue",
        "DoubleValue",
        "Duration",
        "Empty",
        "FieldMask",
        "FloatValue",
        "Int32Value",
        "Int64Value",
        "ListValue",
        "StringValue",
        "Struct",
        "Timestamp",
        "UInt32Value",
        "UInt64Value",
        "Value",
    ];
    name.strip_prefix("google.protobuf.").is_some_and(|name| NAMES.contains(&name))
}

fn put_members<M: SerializeMap>(message: &DynamicMessage, object: &mut M) -> Result<(), M::Error> {
    for field in message.descriptor().fields() {
        if !field.supports_presence() || message.has_field(&field) {
            let value = message.get_field(&field);
            object.serialize_entry(field.json_name(), &Member(&value, &field.kind()))?;
        }
    }
    for (extension, value) in message.extensions() {
        object.serialize_entry(extension.json_name(), &Member(value, &extension.kind()))?;
    }
    Ok(())
}

/// An `Any` is the message in it, beside its type.
fn put_any<S: Serializer>(any: &DynamicMessage, serializer: S) -> Result<S::Ok, S::Error> {
    let [url, content] = [1, 2].map(|number| any.get_field_by_number(number));
    let url = url.as_deref().and_then(Value::as_str).unwrap_or_default();
    let content = content.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
    let mut object = serializer.serialize_map(None)?;
    if url.is_empty() && content.is_empty() {
        return object.end();
    }
    object.serialize_entry("@type", url)?;
    let name = url.rsplit('/').next().unwrap_or_default();
    let descriptor = any.descriptor().parent_pool().get_message_by_name(name);
    let descriptor = descriptor
        .ok_or_else(|| S::Error::custom(format!("nothing is known of the message {name}")))?;
    let inner = DynamicMessage::decode(descriptor, content).map_err(S::Error::custom)?;
    match is_well_known(name) {
        true => object.serialize_entry("value", &ProtobufJson(&inner))?,
        false => put_members(&inner, &mut object)?,
    }
    object.end()
}

/// The value of a field.
struct Member<'a>(&'a Value, &'a Kind);

impl Serialize for Member<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, kind) = *self;
        match value {
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::I32(number) => serializer.serialize_i32(*number),
            Value::U32(number) => serializer.serialize_u32(*number),
            // A double, which is all that a number is to many readers, does not hold 64 bits.
            Value::I64(number) => serializer.collect_str(number),
            Value::U64(number) => serializer.collect_str(number),
            Value::F32(number) => put_f32(*number, serializer),
            Value::F64(number) => put_f64(*number, serializer),
            Value::String(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => serializer.serialize_str(&base64(bytes)),
            Value::EnumNumber(number) => put_enum(*number, kind, serializer),
            Value::Message(message) => ProtobufJson(message).serialize(serializer),
            Value::List(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(&Member(value, kind))?;
                }
                list.end()
            }
            Value::Map(entries) => {
                let entry = kind.as_message().ok_or_else(|| S::Error::custom("no map"))?;
                let kind = entry.map_entry_value_field().kind();
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&EntryKey(key), &Member(value, &kind))?;
                }
                map.end()
            }
        }
    }
}

/// The key of a map.
struct EntryKey<'a>(&'a MapKey);

impl Serialize for EntryKey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            MapKey::Bool(key) => serializer.collect_str(key),
            MapKey::I32(key) => serializer.collect_str(key),
            MapKey::I64(key) => serializer.collect_str(key),
            MapKey::U32(key) => serializer.collect_str(key),
            MapKey::U64(key) => serializer.collect_str(key),
            MapKey::String(key) => serializer.serialize_str(key),
        }
    }
}

fn put_enum<S: Serializer>(number: i32, kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(of) = kind.as_enum() else { return serializer.serialize_i32(number) };
    if of.full_name() == "google.protobuf.NullValue" {
        return serializer.serialize_none();
    }
    match of.get_value(number) {
        Some(value) => serializer.serialize_str(value.name()),
        None => serializer.serialize_i32(number),
    }
}

fn put_f32<S: Serializer>(number: f32, serializer: S) -> Result<S::Ok, S::Error> {
    match not_finite(number.into()) {
        Some(name) => serializer.serialize_str(name),
        None => serializer.serialize_f32(number),
    }
}

fn put_f64<S: Serializer>(number: f64, serializer: S) -> Result<S::Ok, S::Error> {
    match not_finite(number) {
        Some(name) => serializer.serialize_str(name),
        None => serializer.serialize_f64(number),
    }
}

/// What stands for a number that JSON does not have.
pub(crate) fn not_finite(number: f64) -> Option<&'static str> {
    match number {
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ if number.is_nan() => Some("NaN"),
        _ => None,
    }
}
