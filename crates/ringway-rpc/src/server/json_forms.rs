//! JSON for methods whose messages are protobuf: by the descriptors of their service, or of the well-known
//! message that a type of std is.

use std::str::FromStr;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use ringway_wire::native::Piece;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::json_oddities;
use crate::call::codec::{self, Codec};
use crate::call::json::Json;
use crate::call::method::Method;
use crate::call::protobuf_json::ProtobufJson;
use crate::call::status::Status;
use crate::service::ServiceDescriptor;

/// How the messages of one method are read and written as JSON.
#[derive(Debug)]
pub(super) struct JsonForms {
    request: Form,
    reply: Form,
}

#[derive(Debug)]
enum Form {
    /// JSON already, or bytes of the program's own.
    AsItIs(u8),
    Protobuf(MessageDescriptor),
    /// Protobuf of which nobody has told the descriptors.
    Untold,
}

impl JsonForms {
    /// For requests and replies of these codecs, and of the well-known messages named beside them.
    pub(super) fn of(
        method: &Method,
        request: (u8, &str),
        reply: (u8, &str),
        service: Option<&ServiceDescriptor>,
    ) -> Self {
        let files = service.and_then(|service| service.file_descriptor_set);
        let pool = files.and_then(|files| DescriptorPool::decode(files).ok());
        let described = pool.and_then(|pool| {
            let service = pool.get_service_by_name(method.service())?;
            service.methods().find(|it| it.name() == method.short_name())
        });
        let form =
            |(codec, well_known): (u8, &str), described: Option<MessageDescriptor>| match codec {
                codec::PROTOBUF => DescriptorPool::global()
                    .get_message_by_name(well_known)
                    .or(described)
                    .map_or(Form::Untold, Form::Protobuf),
                other => Form::AsItIs(other),
            };
        let described = described.as_ref();
        Self {
            request: form(request, described.map(|it| it.input())),
            reply: form(reply, described.map(|it| it.output())),
        }
    }

    /// The names of the members of a request, in the order of its description; none if it is no plain message.
    pub(super) fn request_fields(&self) -> Vec<String> {
        match &self.request {
            Form::Protobuf(message) if message.package_name() != "google.protobuf" => {
                message.fields().map(|field| field.json_name().to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The message of protobuf that a request is.
    pub(super) fn request_message(&self) -> Option<&MessageDescriptor> {
        self.request.message()
    }

    /// The message of protobuf that a reply is.
    pub(super) fn reply_message(&self) -> Option<&MessageDescriptor> {
        self.reply.message()
    }

    /// Whether a reply is bytes of the program's own.
    pub(super) fn replies_bytes(&self) -> bool {
        matches!(self.reply, Form::AsItIs(_))
    }

    /// The request that `json` stands for, as its method takes it. Members that the message does not have are
    /// skipped: its client may be newer.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it is no JSON of the message; UNIMPLEMENTED when nothing is known of that.
    pub(super) fn request(&self, json: Bytes) -> Result<Bytes, Status> {
        let message = match &self.request {
            Form::AsItIs(codec::JSON) => return Ok(json),
            Form::Protobuf(message) => message,
            Form::AsItIs(_) => {
                let takes = "the method takes bytes as they are: send application/octet-stream";
                return Err(Status::unimplemented(takes));
            }
            Form::Untold => return Err(untold()),
        };
        if json.is_empty() {
            return Ok(Bytes::new());
        }
        match message.full_name() {
            "google.protobuf.DoubleValue" => return number::<f64>(&json),
            "google.protobuf.FloatValue" => return number::<f32>(&json),
            _ => {}
        }
        let mut text = serde_json::Deserializer::from_slice(&json);
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        let read = DynamicMessage::deserialize_with_options(message.clone(), &mut text, &options);
        let read = read.and_then(|read| text.end().map(|()| read)).or_else(|error| {
            let mended = json_oddities::with_numbers(&json, message).ok_or(error)?;
            DynamicMessage::deserialize_with_options(message.clone(), mended, &options)
        });
        let wrong = |why: &dyn std::fmt::Display| {
            let what = format!("the message is not a valid {} in JSON", message.full_name());
            Status::invalid_argument(format!("{what}: {why}"))
        };
        let read = read.map_err(|error| wrong(&error))?;
        match json_oddities::odd_time(&json, message) {
            Some(time) => Err(wrong(&format_args!("{time} is no time"))),
            None => Ok(read.encode_to_vec().into()),
        }
    }

    /// A reply as JSON, or as it is where it is bytes of the program's own, with its codec.
    ///
    /// # Errors
    /// UNIMPLEMENTED when nothing is known of the message, INTERNAL when the handler's reply is none.
    pub(super) fn reply(&self, reply: Bytes) -> Result<(Bytes, u8), Status> {
        self.reply_by(reply, |message, json| {
            serde_json::to_writer(json, &ProtobufJson::new(message))
        })
    }

    /// The same with the names of the .proto file, and without members that have their default.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub(super) fn named_reply(&self, reply: Bytes) -> Result<(Bytes, u8), Status> {
        self.reply_by(reply, |message, json| {
            serde_json::to_writer(json, &ProtobufJson::named(message))
        })
    }

    fn reply_by(
        &self,
        reply: Bytes,
        write: impl FnOnce(&DynamicMessage, &mut Vec<u8>) -> serde_json::Result<()>,
    ) -> Result<(Bytes, u8), Status> {
        let message = match &self.reply {
            Form::AsItIs(codec) => return Ok((reply, *codec)),
            Form::Protobuf(message) => message,
            Form::Untold => return Err(untold()),
        };
        let wrong = |error: &dyn std::fmt::Display| {
            Status::internal(format!("the reply is not a valid {}: {error}", message.full_name()))
        };
        let read = DynamicMessage::decode(message.clone(), reply).map_err(|error| wrong(&error))?;
        let mut json = Vec::new();
        write(&read, &mut json).map_err(|error| wrong(&error))?;
        Ok((json.into(), codec::JSON))
    }
}

/// The wrapper of a number, whose JSON is a number or its text. prost-reflect would lose the sign of −0.0.
///
/// # Errors
/// INVALID_ARGUMENT when it is neither.
fn number<T>(json: &[u8]) -> Result<Bytes, Status>
where
    T: Message + Default + Serialize + DeserializeOwned + FromStr + 'static,
{
    let read = (Json::<T>::by_serde().decode)(Piece::Borrowed(json)).or_else(|no_number| {
        let text = serde_json::from_slice::<String>(json).ok();
        text.and_then(|text| text.parse().ok()).ok_or(no_number)
    });
    let mut message = Vec::new();
    (Codec::<T>::protobuf().encode)(read?, &mut message)?;
    Ok(message.into())
}

impl Form {
    fn message(&self) -> Option<&MessageDescriptor> {
        match self {
            Self::Protobuf(message) => Some(message),
            Self::AsItIs(_) | Self::Untold => None,
        }
    }
}

fn untold() -> Status {
    Status::unimplemented(
        "the server has no descriptors of this protobuf message: generate the service from its \
         .proto file, or send application/proto",
    )
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
    use prost_reflect::prost_types::{
        Any, DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
        MethodDescriptorProto, ServiceDescriptorProto,
    };

    use super::*;
    use crate::call::method::Kind;

    static ECHO: Method = Method::new("t.Echo/Say", Kind::Unary);

    fn field(name: &str, number: i32, of: Type, message: Option<&str>) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(name.to_owned()),
            number: Some(number),
            label: Some(Label::Optional.into()),
            r#type: Some(of.into()),
            type_name: message.map(|name| format!(".google.protobuf.{name}")),
            ..FieldDescriptorProto::default()
        }
    }

    /// A method with a message that has a double, wrappers of numbers, anything, a time, and whole numbers.
    fn forms() -> JsonForms {
        let fields = vec![
            field("plain", 1, Type::Double, None),
            field("double", 2, Type::Message, Some("DoubleValue")),
            field("float", 3, Type::Message, Some("FloatValue")),
            field("any", 4, Type::Message, Some("Any")),
            field("when", 5, Type::Message, Some("Timestamp")),
            FieldDescriptorProto {
                label: Some(Label::Repeated.into()),
                ..field("counts", 6, Type::Int32, None)
            },
            field("count", 7, Type::Message, Some("Int64Value")),
        ];
        let say = MethodDescriptorProto {
            name: Some("Say".into()),
            input_type: Some(".t.All".into()),
            output_type: Some(".t.All".into()),
            ..MethodDescriptorProto::default()
        };
        let file = FileDescriptorProto {
            name: Some("t.proto".into()),
            package: Some("t".into()),
            syntax: Some("proto3".into()),
            dependency: ["any", "timestamp", "wrappers"]
                .map(|name| format!("google/protobuf/{name}.proto"))
                .into(),
            message_type: vec![DescriptorProto {
                name: Some("All".into()),
                field: fields,
                ..DescriptorProto::default()
            }],
            service: vec![ServiceDescriptorProto {
                name: Some("Echo".into()),
                method: vec![say],
                ..ServiceDescriptorProto::default()
            }],
            ..FileDescriptorProto::default()
        };
        let known = DescriptorPool::global();
        let known = known.files().map(|file| file.file_descriptor_proto().clone());
        let set = FileDescriptorSet { file: known.chain([file]).collect() }.encode_to_vec();
        let service = ServiceDescriptor {
            name: "t.Echo",
            methods: std::slice::from_ref(&ECHO),
            file_descriptor_set: Some(set.leak()),
        };
        let protobuf = (codec::PROTOBUF, "");
        JsonForms::of(&ECHO, protobuf, protobuf, Some(&service))
    }

    #[track_caller]
    fn echo(forms: &JsonForms, json: &str) -> String {
        let message = forms.request(Bytes::copy_from_slice(json.as_bytes())).expect(json);
        let (json, codec) = forms.reply(message).expect("it was read");
        assert_eq!(codec, codec::JSON);
        String::from_utf8(json.into()).expect("text")
    }

    #[test]
    fn numbers_come_back_bit_for_bit() {
        let forms = forms();
        for number in ["0.9452706955539223", "5e-324", "1.7976931348623157e+308", "0.1"] {
            let json = format!(r#"{{"plain":{number},"double":{number},"counts":[]}}"#);
            assert_eq!(echo(&forms, &json), json);
        }
        let json = r#"{"plain":0.0,"float":0.1,"counts":[]}"#;
        assert_eq!(echo(&forms, json), json);
    }

    #[test]
    fn numbers_that_json_does_not_have_are_texts_in_wrappers_too() {
        let forms = forms();
        for name in ["NaN", "Infinity", "-Infinity"] {
            let json =
                format!(r#"{{"plain":"{name}","double":"{name}","float":"{name}","counts":[]}}"#);
            assert_eq!(echo(&forms, &json), json);
            let inner = r#"{"@type":"type.googleapis.com/google.protobuf.DoubleValue","value":"#;
            let json = format!(r#"{{"plain":0.0,"any":{inner}"{name}"}},"counts":[]}}"#);
            assert_eq!(echo(&forms, &json), json);
        }
    }

    #[test]
    fn wrapper_alone_keeps_every_number() {
        for (of, number) in [("DoubleValue", "0.9452706955539223"), ("FloatValue", "0.1")] {
            let message = (codec::PROTOBUF, &*format!("google.protobuf.{of}").leak());
            let forms = JsonForms::of(&ECHO, message, message, None);
            for json in [number, "-0.0", "\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "0.0"] {
                assert_eq!(echo(&forms, json), json, "{of}");
            }
            assert_eq!(echo(&forms, "\"1.5\""), "1.5");
            for wrong in ["null", "[1]", "\"x\"", "1 2"] {
                let refused = forms.request(Bytes::from_static(wrong.as_bytes()));
                assert!(refused.expect_err(wrong).is_invalid_argument());
            }
        }
    }

    #[test]
    fn whole_numbers_may_have_an_exponent_in_a_text() {
        let json = r#"{"counts":["1e5","7",8,1e2,"-2.50e1"],"count":"3e3"}"#;
        let expected = r#"{"plain":0.0,"counts":[100000,7,8,100,-25],"count":"3000"}"#;
        assert_eq!(echo(&forms(), json), expected);
        for wrong in ["1.5", "1e99", "e5", "1 ", " 1", "1e2\\n"] {
            let json = format!(r#"{{"counts":["{wrong}"]}}"#);
            let refused = forms().request(json.into()).expect_err(wrong);
            assert!(refused.is_invalid_argument(), "{refused}");
        }
    }

    #[test]
    fn times_have_sixty_seconds_and_nine_digits_of_fraction() {
        let json = r#"{"plain":1234.12345678901,"when":"1970-01-01T00:00:59.123456789Z"}"#;
        let expected =
            r#"{"plain":1234.12345678901,"when":"1970-01-01T00:00:59.123456789Z","counts":[]}"#;
        assert_eq!(echo(&forms(), json), expected);
        for wrong in ["1970-01-01T00:00:60Z", "1970-01-01T00:00:00.1234567890+01:00"] {
            let json = format!(r#"{{"when":"{wrong}"}}"#);
            let refused = forms().request(json.into()).expect_err(wrong);
            assert!(
                refused.is_invalid_argument() && refused.message().contains(wrong),
                "{refused}"
            );
        }
    }

    #[test]
    fn messages_in_messages_are_written_as_deep_as_they_are_read_elsewhere() {
        let forms = forms();
        let any = |inner: Vec<u8>| Any { type_url: "/google.protobuf.Any".into(), value: inner };
        for (levels, is_written) in [(1, true), (90, true), (200, false), (5_000, false)] {
            let mut message = vec![4 << 3 | 2]; // the member `any`
            let inner = (1..levels).fold(Vec::new(), |inner, _| any(inner).encode_to_vec());
            any(inner).encode_length_delimited(&mut message).expect("a vector has room");
            for reply in [JsonForms::reply, JsonForms::named_reply] {
                let written = reply(&forms, message.clone().into());
                assert_eq!(written.is_ok(), is_written, "{levels} levels");
            }
        }
    }

    #[test]
    fn named_replies_have_numbers_that_json_does_not_have_as_texts() {
        let json = r#"{"double":"NaN","float":"-Infinity","count":"3"}"#;
        let message = forms().request(Bytes::from_static(json.as_bytes())).expect("well-formed");
        let (named, _) = forms().named_reply(message).expect("it was read");
        assert_eq!(named, json);
    }

    #[test]
    fn members_that_a_message_does_not_have_are_skipped() {
        let json = r#"{"plain":1.5,"newer":[{"a":1}],"any":null}"#;
        assert_eq!(echo(&forms(), json), r#"{"plain":1.5,"counts":[]}"#);
    }
}
