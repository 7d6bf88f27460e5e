//! JSON for methods whose messages are protobuf: by the descriptors of their service, or of the well-known
//! message that a type of std is.

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};

use crate::call::codec;
use crate::call::method::Method;
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

    /// The request that `json` stands for, as its method takes it.
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
        let mut text = serde_json::Deserializer::from_slice(&json);
        let read = DynamicMessage::deserialize(message.clone(), &mut text);
        let read = read.and_then(|read| text.end().map(|()| read)).map_err(|error| {
            let text =
                format!("the message is not a valid {} in JSON: {error}", message.full_name());
            Status::invalid_argument(text)
        });
        Ok(read?.encode_to_vec().into())
    }

    /// A reply as JSON, or as it is where it is bytes of the program's own, with its codec.
    ///
    /// # Errors
    /// UNIMPLEMENTED when nothing is known of the message, INTERNAL when the handler's reply is none.
    pub(super) fn reply(&self, reply: Bytes) -> Result<(Bytes, u8), Status> {
        self.reply_by(reply, &SerializeOptions::new().skip_default_fields(false))
    }

    /// The same with the names of the .proto file, and without members that have their default.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub(super) fn named_reply(&self, reply: Bytes) -> Result<(Bytes, u8), Status> {
        self.reply_by(reply, &SerializeOptions::new().use_proto_field_name(true))
    }

    fn reply_by(&self, reply: Bytes, options: &SerializeOptions) -> Result<(Bytes, u8), Status> {
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
        read.serialize_with_options(&mut serde_json::Serializer::new(&mut json), options)
            .map_err(|error| wrong(&error))?;
        Ok((json.into(), codec::JSON))
    }
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
