//! Where prost-reflect reads another JSON of protobuf than ProtoJSON is: it refuses whole numbers in a string that has
//! an exponent, and takes a Timestamp with the second 60 or with more digits than nanoseconds have. Few texts have
//! such values, so they are looked for first.

use prost_reflect::{Kind, MessageDescriptor};
use serde_json::Value;

/// The same JSON with whole numbers as numbers that are texts like `"1e5"`; `None` if it has none.
pub(super) fn with_numbers(json: &[u8], message: &MessageDescriptor) -> Option<Value> {
    let mut value = serde_json::from_slice(json).ok()?;
    let mut has_any = false;
    each_leaf(message, &mut value, &mut |leaf, value| {
        if let (Leaf::Integer, Some(number)) = (leaf, value.as_str().and_then(whole_number)) {
            *value = number;
            has_any = true;
        }
    });
    has_any.then_some(value)
}

/// The first Timestamp in the JSON that is none.
pub(super) fn odd_time(json: &[u8], message: &MessageDescriptor) -> Option<String> {
    if !may_have_odd_times(json) {
        return None;
    }
    let mut value = serde_json::from_slice(json).ok()?;
    let mut odd = None;
    each_leaf(message, &mut value, &mut |leaf, value| {
        if let (Leaf::Time, Some(text)) = (leaf, value.as_str())
            && may_have_odd_times(text.as_bytes())
        {
            odd.get_or_insert_with(|| text.to_owned());
        }
    });
    odd
}

/// A value that is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Integer,
    Time,
}

/// Gives all values of these kinds in the JSON of a message to `on_leaf`.
fn each_leaf(
    message: &MessageDescriptor,
    value: &mut Value,
    on_leaf: &mut impl FnMut(Leaf, &mut Value),
) {
    match message.full_name() {
        "google.protobuf.Timestamp" => return on_leaf(Leaf::Time, value),
        "google.protobuf.Int32Value"
        | "google.protobuf.UInt32Value"
        | "google.protobuf.Int64Value"
        | "google.protobuf.UInt64Value" => return on_leaf(Leaf::Integer, value),
        _ => {}
    }
    for (name, value) in value.as_object_mut().into_iter().flatten() {
        let by_name = || message.get_field_by_name(name);
        let Some(field) = message.get_field_by_json_name(name).or_else(by_name) else { continue };
        let mut kind = field.kind();
        let values: Vec<&mut Value> = match value {
            Value::Array(values) if field.is_list() => values.iter_mut().collect(),
            Value::Object(entries) if field.is_map() => {
                let entry = kind.as_message().map(MessageDescriptor::map_entry_value_field);
                kind = entry.map_or(kind, |value| value.kind());
                entries.values_mut().collect()
            }
            value => vec![value],
        };
        for value in values {
            match &kind {
                Kind::Message(inner) => each_leaf(inner, value, on_leaf),
                Kind::Double | Kind::Float | Kind::Bool => {}
                Kind::String | Kind::Bytes | Kind::Enum(_) => {}
                _ => on_leaf(Leaf::Integer, value),
            }
        }
    }
}

/// A whole number in a text that has an exponent or a fraction, as far as a double holds it exactly.
fn whole_number(text: &str) -> Option<Value> {
    const EXACT_MAX: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    // The parser of JSON takes blanks on either side.
    let is_json = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit());
    let number = serde_json::from_str::<f64>(text).ok().filter(|_| is_json)?;
    let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_MAX;
    is_whole.then_some((number as i64).into())
}

/// Whether a text has `:60` in it, or more than nine digits behind a point and then the end of a time.
fn may_have_odd_times(text: &[u8]) -> bool {
    const NANOS_LEN: usize = 9;
    let has_leap_second = text.windows(3).any(|window| window == b":60");
    let mut fractions = text.split(|byte| *byte == b'.').skip(1);
    has_leap_second
        || fractions.any(|fraction| {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            digits > NANOS_LEN && matches!(fraction.get(digits), Some(b'Z' | b'z' | b'+' | b'-'))
        })
}
