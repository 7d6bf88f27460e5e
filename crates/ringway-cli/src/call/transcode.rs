//! Between what people write and what a method takes.

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use ringway_rpc::reflection::MethodDescription;
use serde_json::Value;

/// The forms of one method's messages.
pub(super) struct Transcoder {
    request: Form,
    reply: Form,
}

enum Form {
    Raw,
    Json,
    Protobuf(MessageDescriptor),
}

impl Transcoder {
    /// # Errors
    /// A codec that this program does not know; protobuf of which the server tells no descriptors.
    pub(super) fn new(
        service: &str,
        method: &MethodDescription,
        descriptors: &[u8],
    ) -> Result<Self, String> {
        let typed = || {
            let pool = DescriptorPool::decode(descriptors)
                .map_err(|error| format!("the server's descriptors cannot be read: {error}"))?;
            let service = pool.get_service_by_name(service);
            let found = service.and_then(|service| {
                service.methods().find(|described| described.name() == method.name)
            });
            found.ok_or_else(|| {
                format!(
                    "{} takes protobuf, and the server has no descriptors of it: generate the service \
                     from its .proto file, or call it from a program",
                    method.name
                )
            })
        };
        let form = |codec: u32, is_request: bool| match codec {
            0 => Ok(Form::Raw),
            1 => typed().map(|method| {
                Form::Protobuf(if is_request { method.input() } else { method.output() })
            }),
            2 => Ok(Form::Json),
            other => {
                Err(format!("{} has codec {other}, which is an application's own", method.name))
            }
        };
        Ok(Self { request: form(method.codec_in, true)?, reply: form(method.codec_out, false)? })
    }

    /// What is sent for `text`. Nothing stands for an empty message.
    ///
    /// # Errors
    /// Text that is no JSON, or not of the request's type.
    pub(super) fn request(&self, text: &str) -> Result<Bytes, String> {
        match &self.request {
            Form::Raw => Ok(Bytes::copy_from_slice(text.as_bytes())),
            Form::Json => {
                let text = if text.is_empty() { "null" } else { text };
                let parsed: Result<Value, _> = serde_json::from_str(text);
                parsed.map_err(|error| format!("the request is not JSON: {error}"))?;
                Ok(Bytes::copy_from_slice(text.as_bytes()))
            }
            Form::Protobuf(descriptor) => {
                let text = if text.is_empty() { "{}" } else { text };
                let mut json = serde_json::Deserializer::from_str(text);
                let message = DynamicMessage::deserialize(descriptor.clone(), &mut json);
                let message = message.and_then(|message| json.end().map(|()| message));
                let wrong = |error| {
                    format!("the request is not {} as JSON: {error}", descriptor.full_name())
                };
                Ok(message.map_err(wrong)?.encode_to_vec().into())
            }
        }
    }

    /// What is printed for a reply.
    ///
    /// # Errors
    /// A reply that is not of its type.
    pub(super) fn reply(&self, bytes: &Bytes) -> Result<Vec<u8>, String> {
        match &self.reply {
            Form::Raw | Form::Json => Ok(bytes.to_vec()),
            Form::Protobuf(descriptor) => {
                let message = DynamicMessage::decode(descriptor.clone(), bytes.clone());
                let wrong = |error: &dyn std::fmt::Display| {
                    format!("the reply is not {}: {error}", descriptor.full_name())
                };
                let message = message.map_err(|error| wrong(&error))?;
                let mut out = Vec::new();
                let mut json = serde_json::Serializer::new(&mut out);
                let options = SerializeOptions::new().skip_default_fields(false);
                message
                    .serialize_with_options(&mut json, &options)
                    .map_err(|error| wrong(&error))?;
                Ok(out)
            }
        }
    }
}

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

    #[test]
    fn raw_text_travels_as_it_is() {
        let raw = transcoder(0, &[]).expect("no descriptors are needed");
        assert_eq!(raw.request("{no json").as_deref(), Ok(&b"{no json"[..]));
        assert_eq!(raw.reply(&Bytes::from_static(b"\xff")), Ok(vec![0xff]));
    }

    #[test]
    fn json_is_checked_before_it_is_sent() {
        let json = transcoder(2, &[]).expect("no descriptors are needed");
        assert_eq!(json.request("").as_deref(), Ok(&b"null"[..]));
        assert_eq!(json.request("{\"a\":1}").as_deref(), Ok(&b"{\"a\":1}"[..]));
        let error = json.request("{a:1}").expect_err("keys need quotes");
        assert!(error.contains("not JSON"), "{error}");
    }

    #[test]
    fn protobuf_needs_descriptors() {
        let error = transcoder(1, &[]).err().expect("there are none");
        assert!(error.contains(".proto"), "{error}");
        let error = transcoder(200, &[]).err().expect("nobody knows it");
        assert!(error.contains("application"), "{error}");
    }
}
