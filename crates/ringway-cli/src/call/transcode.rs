//! Converts between the text of people and the messages of a method.

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor};
use ringway_rpc::ProtobufJson;
use ringway_rpc::reflection::MethodDescription;
use serde::de::IgnoredAny;

use super::grpc_reflection::pool;

/// The forms of one method's messages.
pub(crate) struct Transcoder {
    request: Form,
    reply: Form,
}

pub(super) enum Form {
    Raw,
    Json,
    Protobuf(MessageDescriptor),
}

impl Transcoder {
    /// Messages are raw bytes.
    pub(super) fn raw() -> Self {
        Self { request: Form::Raw, reply: Form::Raw }
    }

    /// # Errors
    /// This program does not know the codec, or the server has no descriptors of its protobuf
    /// messages.
    pub(super) fn new(
        service: &str,
        method: &MethodDescription,
        descriptors: &[u8],
    ) -> Result<Self, String> {
        let form = |codec: u32, name: &str, side: fn(&MethodDescriptor) -> MessageDescriptor| {
            match codec {
                0 => Ok(Form::Raw),
                1 => match DescriptorPool::global().get_message_by_name(name) {
                    Some(well_known) => Ok(Form::Protobuf(well_known)),
                    None => described(service, method, descriptors)
                        .map(|method| Form::Protobuf(side(&method))),
                },
                2 => Ok(Form::Json),
                other => Err(format!(
                    "{} has codec {other}, which is an application's own: use --binary",
                    method.name
                )),
            }
        };
        Ok(Self {
            request: form(method.codec_in, &method.message_in, MethodDescriptor::input)?,
            reply: form(method.codec_out, &method.message_out, MethodDescriptor::output)?,
        })
    }

    pub(super) fn reply_form(&self) -> &Form {
        &self.reply
    }

    /// Encodes a request from `text`. Empty text stands for an empty message.
    ///
    /// # Errors
    /// The text is not JSON, or not of the request's type.
    pub(crate) fn request(&self, text: &[u8]) -> Result<Bytes, String> {
        let as_text = || {
            std::str::from_utf8(text)
                .map_err(|error| format!("the request is not text: {error}; use --binary"))
        };
        match &self.request {
            Form::Raw => Ok(Bytes::copy_from_slice(text)),
            Form::Json => {
                let text = if text.is_empty() { "null" } else { as_text()? };
                let parsed: Result<IgnoredAny, _> = serde_json::from_str(text);
                parsed.map_err(|error| format!("the request is not JSON: {error}"))?;
                Ok(Bytes::copy_from_slice(text.as_bytes()))
            }
            Form::Protobuf(_) if text.is_empty() => Ok(Bytes::new()),
            Form::Protobuf(descriptor) => {
                let message = message(descriptor, as_text()?);
                let message = message.map_err(|error| format!("the request is {error}"))?;
                Ok(message.encode_to_vec().into())
            }
        }
    }

    /// Formats a reply.
    ///
    /// # Errors
    /// The reply is not of its type.
    pub(crate) fn reply(&self, bytes: &Bytes) -> Result<Vec<u8>, String> {
        match &self.reply {
            Form::Raw | Form::Json => Ok(bytes.to_vec()),
            Form::Protobuf(descriptor) => {
                let message = DynamicMessage::decode(descriptor.clone(), bytes.clone());
                let wrong = |error: &dyn std::fmt::Display| {
                    format!("the reply is not {}: {error}", descriptor.full_name())
                };
                let message = message.map_err(|error| wrong(&error))?;
                let mut out = Vec::new();
                serde_json::to_writer(&mut out, &ProtobufJson::new(&message))
                    .map_err(|error| wrong(&error))?;
                Ok(out)
            }
        }
    }
}

/// Returns the method as the server's files declare it.
fn described(
    service: &str,
    method: &MethodDescription,
    descriptors: &[u8],
) -> Result<MethodDescriptor, String> {
    let pool = pool(descriptors)
        .map_err(|error| format!("the server's descriptors cannot be read: {error}"))?;
    let service = pool.get_service_by_name(service);
    let found = service.and_then(|service| service.methods().find(|it| it.name() == method.name));
    found.ok_or_else(|| {
        let known_request = DescriptorPool::global().get_message_by_name(&method.message_in);
        let takes_unknown = method.codec_in == 1 && known_request.is_none();
        let what = if takes_unknown { "takes" } else { "answers" };
        format!(
            "{} {what} a protobuf message that the server has no descriptors of: generate the service \
             from its .proto file, send bytes with --binary, or call it from a program",
            method.name
        )
    })
}

/// Parses a message written as JSON; a string may stand without quotes.
pub(super) fn message(
    descriptor: &MessageDescriptor,
    text: &str,
) -> Result<DynamicMessage, String> {
    let wrong = |error| format!("not {} as JSON: {error}", descriptor.full_name());
    if descriptor.full_name() == STRING && !text.trim_start().starts_with('"') {
        let word = serde_json::Value::String(text.to_owned());
        return DynamicMessage::deserialize(descriptor.clone(), word).map_err(wrong);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let message = DynamicMessage::deserialize(descriptor.clone(), &mut json);
    message.and_then(|message| json.end().map(|()| message)).map_err(wrong)
}

const STRING: &str = "google.protobuf.StringValue";

#[cfg(test)]
mod tests {
    use super::*;

    fn transcoder(codec: u32, descriptors: &[u8]) -> Result<Transcoder, String> {
        let method = MethodDescription {
            name: "Say".to_owned(),
            codec_in: codec,
            codec_out: codec,
            ..MethodDescription::default()
        };
        Transcoder::new("a.Echo", &method, descriptors)
    }

    /// The messages of a method that has one of this name both ways.
    fn of(name: &str) -> Transcoder {
        let descriptor = DescriptorPool::global().get_message_by_name(name).expect(name);
        Transcoder {
            request: Form::Protobuf(descriptor.clone()),
            reply: Form::Protobuf(descriptor),
        }
    }

    #[test]
    fn raw_text_travels_as_it_is() {
        let raw = transcoder(0, &[]).expect("no descriptors are needed");
        assert_eq!(raw.request(b"{no json\n\xff").as_deref(), Ok(&b"{no json\n\xff"[..]));
        assert_eq!(raw.reply(&Bytes::from_static(b"\xff")), Ok(vec![0xff]));
    }

    #[test]
    fn json_is_checked_before_it_is_sent() {
        let json = transcoder(2, &[]).expect("no descriptors are needed");
        assert_eq!(json.request(b"").as_deref(), Ok(&b"null"[..]));
        assert_eq!(json.request(b"{\"a\":1}").as_deref(), Ok(&b"{\"a\":1}"[..]));
        let error = json.request(b"{a:1}").expect_err("keys need quotes");
        assert!(error.contains("not JSON"), "{error}");
        let error = json.request(b"\"\xff\"").expect_err("no UTF-8");
        assert!(error.contains("--binary"), "{error}");
    }

    #[test]
    fn protobuf_needs_descriptors() {
        let error = transcoder(1, &[]).err().expect("there are none");
        assert!(error.starts_with("Say takes") && error.contains(".proto"), "{error}");
        let reply_alone = MethodDescription {
            name: "Say".to_owned(),
            codec_in: 1,
            message_in: STRING.to_owned(),
            codec_out: 1,
            ..MethodDescription::default()
        };
        let error = Transcoder::new("a.Echo", &reply_alone, &[]).err().expect("there are none");
        assert!(error.starts_with("Say answers"), "{error}");
        let error = transcoder(200, &[]).err().expect("nobody knows it");
        assert!(error.contains("application"), "{error}");
    }

    /// Text in both directions; protobuf's JSON writes 64-bit numbers as strings.
    #[test]
    fn what_people_write_becomes_protobuf_and_back() {
        let check = |name: &str, written: &str, printed: &str| {
            let both = of(name);
            let bytes = both.request(written.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
            let text = both.reply(&bytes).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(String::from_utf8_lossy(&text), printed, "{written}");
        };
        check(STRING, r#""Ada \u00fc\n""#, r#""Ada ü\n""#);
        check(STRING, "Ada said \"hi\"", r#""Ada said \"hi\"""#);
        check(STRING, "5", r#""5""#);
        check(STRING, "null", r#""null""#);
        check(STRING, "", r#""""#);
        check("google.protobuf.UInt64Value", "18446744073709551615", r#""18446744073709551615""#);
        check("google.protobuf.UInt64Value", r#""7""#, r#""7""#);
        check("google.protobuf.Int64Value", "-7", r#""-7""#);
        check("google.protobuf.UInt64Value", "", r#""0""#);
        check("google.protobuf.DoubleValue", "1.5", "1.5");
        check("google.protobuf.DoubleValue", r#""1e3""#, "1000.0");
        check("google.protobuf.BoolValue", "true", "true");
        check("google.protobuf.BytesValue", r#""AP8=""#, r#""AP8=""#);
        check("google.protobuf.Empty", "", "{}");
        check(
            "google.protobuf.Timestamp",
            r#""1970-01-01T00:00:01Z""#,
            r#""1970-01-01T00:00:01Z""#,
        );
        let option = of("google.protobuf.UninterpretedOption");
        let written = r#"{"stringValue": "AP8=", "positive_int_value": 1, "name": [{"namePart": "ü", "isExtension": true}]}"#;
        let bytes = option.request(written.as_bytes()).expect("a message");
        let text = String::from_utf8(option.reply(&bytes).expect("a message")).expect("text");
        for part in [r#""stringValue":"AP8=""#, r#""positiveIntValue":"1""#, r#""namePart":"ü""#] {
            assert!(text.contains(part), "{text}");
        }
        let field = of("google.protobuf.FieldDescriptorProto");
        for label in [r#"{"label": "LABEL_REPEATED"}"#, r#"{"label": 3}"#] {
            assert_eq!(field.request(label.as_bytes()).as_deref(), Ok(&[0x20, 3][..]));
        }
    }

    #[test]
    fn what_is_not_of_the_type_is_told_by_its_name() {
        let check = |name: &str, written: &str, part: &str| {
            let error = of(name).request(written.as_bytes()).expect_err(written);
            let start = format!("the request is not {name} as JSON: ");
            assert!(error.starts_with(&start) && error.contains(part), "{error}");
        };
        check("google.protobuf.UInt64Value", "-1", "out of range");
        check("google.protobuf.UInt32Value", "4294967296", "out of range");
        check("google.protobuf.BoolValue", "yes", "line 1");
        check("google.protobuf.BytesValue", r#""no base64!""#, "base64");
        check("google.protobuf.FieldDescriptorProto", r#"{"label": "NONE"}"#, "NONE");
        check("google.protobuf.FieldDescriptorProto", r#"{"lable": 3}"#, "lable");
        check("google.protobuf.Empty", "{} {}", "trailing");
        check(STRING, "\"open", "EOF");
    }
}
