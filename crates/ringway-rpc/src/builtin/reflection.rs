//! The native reflection of a server: `ringway.reflection.v1.Reflection`.

use std::sync::{Arc, OnceLock};

use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::method::{Kind, Method};
use crate::call::status::Status;
use crate::service::{Methods, Registered, Service, ServiceDescriptor};

/// The request for the names of all services.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ListRequest {}

/// The names of all services, including reflection and health.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListResponse {
    /// Names in the form `package.Service`, sorted.
    #[prost(string, repeated, tag = "1")]
    pub services: Vec<String>,
}

/// The request for the description of one service.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DescribeRequest {
    /// `package.Service`.
    #[prost(string, tag = "1")]
    pub service: String,
}

/// The description of one service.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DescribeResponse {
    /// The methods of the service, in the order of their declaration.
    #[prost(message, repeated, tag = "1")]
    pub methods: Vec<MethodDescription>,
    /// A serialized `google.protobuf.FileDescriptorSet`; empty if the service was not made from a
    /// `.proto` file.
    #[prost(bytes = "bytes", tag = "2")]
    pub file_descriptor_set: bytes::Bytes,
}

/// The description of one method.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MethodDescription {
    /// The name of the method within its service.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Whether the client sends a stream.
    #[prost(bool, tag = "2")]
    pub streams_in: bool,
    /// Whether the server sends a stream.
    #[prost(bool, tag = "3")]
    pub streams_out: bool,
    /// The number of the codec of requests: 0 raw bytes, 1 protobuf, 2 JSON.
    #[prost(uint32, tag = "4")]
    pub codec_in: u32,
    /// The number of the codec of replies.
    #[prost(uint32, tag = "5")]
    pub codec_out: u32,
    /// Whether executing it twice is harmless.
    #[prost(bool, tag = "6")]
    pub idempotent: bool,
    /// The full name of the request's well-known protobuf message, such as
    /// `google.protobuf.StringValue`; empty for other messages.
    #[prost(string, tag = "7")]
    pub message_in: String,
    /// The full name of the reply's well-known protobuf message; empty for other messages.
    #[prost(string, tag = "8")]
    pub message_out: String,
}

static METHODS: [Method; 2] = [
    Method::new("ringway.reflection.v1.Reflection/List", Kind::Unary).idempotent(),
    Method::new("ringway.reflection.v1.Reflection/Describe", Kind::Unary).idempotent(),
];

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "ringway.reflection.v1.Reflection",
    methods: &METHODS,
    file_descriptor_set: Some(include_bytes!("reflection/reflection.binpb")), // made from the .proto beside it
};

/// Describes the services of the server; clones share the descriptions.
#[derive(Clone, Default)]
pub(crate) struct ReflectionService {
    /// Set by the first core that registers its methods.
    services: Arc<OnceLock<Vec<Described>>>,
}

struct Described {
    name: &'static str,
    response: DescribeResponse,
}

impl ReflectionService {
    /// Stores the descriptions of the services that a core serves, if no other core has.
    pub(crate) fn learn(
        &self,
        services: impl Iterator<Item = &'static ServiceDescriptor>,
        registered: &[Registered],
    ) {
        self.services.get_or_init(|| {
            let mut all: Vec<_> =
                services.map(|descriptor| describe(descriptor, registered)).collect();
            all.sort_by_key(|service| service.name);
            all
        });
    }

    /// Returns the names of all services, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all().iter().map(|service| service.name)
    }

    /// Returns the serialized `google.protobuf.FileDescriptorSet` of each service; empty where
    /// there is none.
    pub(crate) fn descriptor_sets(&self) -> impl Iterator<Item = bytes::Bytes> {
        self.all().iter().map(|service| service.response.file_descriptor_set.clone())
    }

    fn all(&self) -> &[Described] {
        self.services.get().map_or(&[], |services| services)
    }
}

fn describe(descriptor: &'static ServiceDescriptor, registered: &[Registered]) -> Described {
    // A hand-written service may register fewer methods than it describes.
    let method = |method: &Method| {
        let entry = registered.iter().find(|entry| entry.method.name() == method.name())?;
        Some(MethodDescription {
            name: method.short_name().to_owned(),
            streams_in: method.kind().streams_in(),
            streams_out: method.kind().streams_out(),
            codec_in: entry.codec_in.into(),
            codec_out: entry.codec_out.into(),
            idempotent: method.is_idempotent(),
            message_in: entry.message_in.to_owned(),
            message_out: entry.message_out.to_owned(),
        })
    };
    let file_descriptor_set = descriptor.file_descriptor_set.unwrap_or_default();
    Described {
        name: descriptor.name,
        response: DescribeResponse {
            methods: descriptor.methods.iter().filter_map(method).collect(),
            file_descriptor_set: bytes::Bytes::from_static(file_descriptor_set),
        },
    }
}

impl Service for ReflectionService {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let [list_method, describe_method] = &METHODS;
        let this = self.clone();
        methods.unary(
            list_method,
            Codec::protobuf(),
            Codec::protobuf(),
            move |_: Context, _: ListRequest| {
                let names = this.all().iter().map(|service| service.name.to_owned());
                let response = ListResponse { services: names.collect() };
                async move { Ok(response) }
            },
        );
        let this = self.clone();
        methods.unary(
            describe_method,
            Codec::protobuf(),
            Codec::protobuf(),
            move |_: Context, request: DescribeRequest| {
                let found = this.all().iter().find(|service| service.name == request.service);
                let response = found.map(|service| service.response.clone());
                async move {
                    let unknown =
                        || Status::not_found(format!("there is no service {}", request.service));
                    response.ok_or_else(unknown)
                }
            },
        );
    }
}
