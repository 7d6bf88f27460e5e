//! Messages of protobuf in their JSON form (ProtoJSON).
//!
//! prost-reflect knows the form as well, but writes `null` for a wrapper of NaN or an infinity, and loses the sign of
//! −0.0 in one. The other well-known messages are left to it.

use prost_reflect::{DynamicMessage, Kind, MapKey, ReflectMessage, SerializeOptions, Value};
use serde::ser::{Error, Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::call::json::base64;
use crate::limits;

/// A message that serde writes as JSON.
#[derive(Debug)]
pub struct ProtobufJson<'a> {
    message: &'a DynamicMessage,
    level: Level,
}

/// How the members of a message are written, and how deep it is in others.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Whether names are those of the .proto file, and members that have their default are left out.
    is_named: bool,
    depth: usize,
}

impl<'a> ProtobufJson<'a> {
    /// With the names of JSON, fields without presence with their defaults, too.
    pub fn new(message: &'a DynamicMessage) -> Self {
        Self { message, level: Level { is_named: false, depth: 0 } }
    }

    /// With the names of the .proto file, and without fields that have their default.
    pub fn named(message: &'a DynamicMessage) -> Self {
        Self { message, level: Level { is_named: true, depth: 0 } }
    }
}

impl Level {
    /// The level of a message in one of this level. What is in an `Any` is decoded only when it is written, so the
    /// decoder bounds no depth here, and each level takes stack.
    fn deeper<E: Error>(self) -> Result<Self, E> {
        match self.depth < limits::PROTOBUF_JSON_DEPTH {
            true => Ok(Self { depth: self.depth + 1, ..self }),
            false => Err(E::custom("its messages are nested too deep")),
        }
    }
}

/// The number of a wrapper's field.
const WRAPPED: u32 = 1;

impl Serialize for ProtobufJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { message, level } = *self;
        let descriptor = message.descriptor();
        match descriptor.full_name() {
            "google.protobuf.FloatValue" | "google.protobuf.DoubleValue" => {
                match message.get_field_by_number(WRAPPED).as_deref() {
                    Some(Value::F32(number)) => put_f32(*number, serializer),
                    Some(Value::F64(number)) => put_f64(*number, serializer),
                    _ => Err(S::Error::custom("the wrapper has no number")),
                }
            }
            "google.protobuf.Any" => put_any(message, level, serializer),
            name if is_well_known(name) => {
                let options = SerializeOptions::new().skip_default_fields(false);
                message.serialize_with_options(serializer, &options)
            }
            _ => {
                let mut object = serializer.serialize_map(None)?;
                put_members(message, level, &mut object)?;
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

fn put_members<M: SerializeMap>(
    message: &DynamicMessage,
    level: Level,
    object: &mut M,
) -> Result<(), M::Error> {
    for field in message.descriptor().fields() {
        let is_there = message.has_field(&field);
        if is_there || !level.is_named && !field.supports_presence() {
            let value = message.get_field(&field);
            let name = if level.is_named { field.name() } else { field.json_name() };
            object.serialize_entry(name, &Member { value: &value, kind: &field.kind(), level })?;
        }
    }
    for (extension, value) in message.extensions() {
        let member = Member { value, kind: &extension.kind(), level };
        object.serialize_entry(extension.json_name(), &member)?;
    }
    Ok(())
}

/// An `Any` is the message in it, beside its type.
fn put_any<S: Serializer>(
    any: &DynamicMessage,
    level: Level,
    serializer: S,
) -> Result<S::Ok, S::Error> {
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
    let level = level.deeper()?;
    let inner = DynamicMessage::decode(descriptor, content).map_err(S::Error::custom)?;
    match is_well_known(name) {
        true => object.serialize_entry("value", &ProtobufJson { message: &inner, level })?,
        false => put_members(&inner, level, &mut object)?,
    }
    object.end()
}

/// The value of a field.
struct Member<'a> {
    value: &'a Value,
    kind: &'a Kind,
    /// The level of the message that the field belongs to.
    level: Level,
}

impl Serialize for Member<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { value, kind, level } = *self;
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
            Value::Message(message) => {
                ProtobufJson { message, level: level.deeper()? }.serialize(serializer)
            }
            Value::List(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(&Member { value, kind, level })?;
                }
                list.end()
            }
            Value::Map(entries) => {
                let entry = kind.as_message().ok_or_else(|| S::Error::custom("no map"))?;
                let kind = entry.map_entry_value_field().kind();
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&EntryKey(key), &Member { value, kind: &kind, level })?;
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
