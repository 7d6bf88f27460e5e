//! Compares replies with the expected one.

use bytes::Bytes;
use prost_reflect::DynamicMessage;
use serde_json::Value;

use super::transcode::{Form, Transcoder, message};

/// An expected reply, written in the form that `ringway call` prints.
#[derive(Debug)]
pub(crate) enum Expected {
    Bytes(Bytes),
    /// It is compared as JSON: spaces and the order of keys do not matter.
    Json(Value),
    /// It is compared as a message: its encoding does not matter.
    Protobuf(DynamicMessage),
}

impl Transcoder {
    /// Parses the expected reply.
    ///
    /// # Errors
    /// The text is not JSON, or not of the reply's type.
    pub(crate) fn expected(&self, text: &str) -> Result<Expected, String> {
        match self.reply_form() {
            Form::Raw => Ok(Expected::Bytes(Bytes::copy_from_slice(text.as_bytes()))),
            Form::Json => {
                let value = serde_json::from_str(text);
                value.map(Expected::Json).map_err(|error| format!("not JSON: {error}"))
            }
            Form::Protobuf(descriptor) => message(descriptor, text).map(Expected::Protobuf),
        }
    }
}

impl Expected {
    /// Whether `reply` equals the expected one.
    pub(crate) fn is(&self, reply: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => bytes == reply,
            Self::Json(value) => {
                serde_json::from_slice::<Value>(reply).is_ok_and(|found| found == *value)
            }
            Self::Protobuf(message) => {
                let found = DynamicMessage::decode(message_type(message), reply);
                found.is_ok_and(|found| found == *message)
            }
        }
    }
}

fn message_type(message: &DynamicMessage) -> prost_reflect::MessageDescriptor {
    prost_reflect::ReflectMessage::descriptor(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_compared_by_what_it_says() {
        let expected = Expected::Json(serde_json::json!({"a": 1, "b": [true]}));
        assert!(expected.is(b"{ \"b\": [true], \"a\": 1 }"));
        assert!(!expected.is(b"{\"a\":1,\"b\":[false]}"));
        assert!(!expected.is(b"{"));
    }

    #[test]
    fn protobuf_is_compared_by_its_fields() {
        let pool = prost_reflect::DescriptorPool::global();
        let api = pool.get_message_by_name("google.protobuf.UInt64Value").expect("well-known");
        let expected = Expected::Protobuf(message(&api, "\"7\"").expect("a number"));
        assert!(expected.is(&[8, 7]));
        assert!(expected.is(&[8, 6, 8, 7]), "the last one of a field counts");
        assert!(!expected.is(&[8, 6]));
        assert!(!expected.is(&[8]));
    }

    #[test]
    fn bytes_are_compared_as_they_are() {
        let expected = Transcoder::raw().expected("a ").expect("any text");
        assert!(expected.is(b"a ") && !expected.is(b"a"));
    }
}
