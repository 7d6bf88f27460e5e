//! Examples of requests, to be changed by whoever calls a method.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use crate::limits;

/// A message in JSON with each of its fields.
pub(super) fn example(message: &MessageDescriptor) -> Value {
    of_message(message, 0)
}

fn of_message(message: &MessageDescriptor, depth: usize) -> Value {
    if let Some(known) = well_known(message.full_name()) {
        return known;
    }
    if depth >= limits::CONSOLE_EXAMPLE_DEPTH {
        return json!({});
    }
    let fields = message.fields().filter(is_first_choice);
    fields
        .map(|field| (field.json_name().to_owned(), of_field(&field, depth)))
        .collect::<Map<_, _>>()
        .into()
}

/// Of the fields of a `oneof` only the first may be set.
fn is_first_choice(field: &FieldDescriptor) -> bool {
    let first = field.containing_oneof().and_then(|oneof| oneof.fields().next());
    first.is_none_or(|first| first.number() == field.number())
}

fn of_field(field: &FieldDescriptor, depth: usize) -> Value {
    if field.is_map() {
        return json!({});
    }
    let value = match field.kind() {
        Kind::Message(message) => of_message(&message, depth + 1),
        Kind::Enum(of) => of.values().next().map_or(json!(0), |value| json!(value.name())),
        Kind::String | Kind::Bytes => json!(""),
        Kind::Bool => json!(false),
        // 64 bits are text in JSON.
        Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => json!("0"),
        _ => json!(0),
    };
    if field.is_list() { json!([value]) } else { value }
}

fn well_known(name: &str) -> Option<Value> {
    Some(match name.strip_prefix("google.protobuf.")? {
        "StringValue" => json!("text"),
        "BytesValue" => json!(""),
        "BoolValue" => json!(false),
        "Int64Value" | "UInt64Value" => json!("0"),
        "Int32Value" | "UInt32Value" | "FloatValue" | "DoubleValue" => json!(0),
        "Timestamp" => json!("2026-01-01T00:00:00Z"),
        "Duration" => json!("1.5s"),
        "FieldMask" => json!(""),
        "Struct" | "Any" => json!({}),
        "ListValue" => json!([]),
        "Value" => Value::Null,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    #[test]
    fn an_example_ends_where_a_message_contains_itself() {
        let pool = DescriptorPool::global();
        let of = |name| example(&pool.get_message_by_name(name).expect("it is well known"));
        assert_eq!(of("google.protobuf.StringValue"), json!("text"));
        assert_eq!(of("google.protobuf.Timestamp"), json!("2026-01-01T00:00:00Z"));
        let message = of("google.protobuf.DescriptorProto");
        assert_eq!(message["nestedType"][0]["nestedType"][0]["nestedType"], json!([{}]));
        assert_eq!(message["field"][0]["label"], json!("LABEL_OPTIONAL"));
        assert_eq!(message["field"][0]["number"], json!(0));
    }
}
