//! The messages of `grpc.reflection.v1`, which are those of `v1alpha`.

use bytes::Bytes;

/// A question about a host's services.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ReflectionRequest {
    #[prost(string, tag = "1")]
    pub(crate) host: String,
    #[prost(oneof = "request::Question", tags = "3, 4, 5, 6, 7")]
    pub(crate) question: Option<request::Question>,
}

pub(crate) mod request {
    /// The question of a request.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Question {
        #[prost(string, tag = "3")]
        FileByFilename(String),
        #[prost(string, tag = "4")]
        FileContainingSymbol(String),
        #[prost(message, tag = "5")]
        FileContainingExtension(super::ExtensionRequest),
        #[prost(string, tag = "6")]
        AllExtensionNumbersOfType(String),
        #[prost(string, tag = "7")]
        ListServices(String),
    }
}

/// An extension of a message.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExtensionRequest {
    #[prost(string, tag = "1")]
    pub(crate) containing_type: String,
    #[prost(int32, tag = "2")]
    pub(crate) extension_number: i32,
}

/// The answer to one request.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ReflectionResponse {
    #[prost(string, tag = "1")]
    pub(crate) valid_host: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) original_request: Option<ReflectionRequest>,
    #[prost(oneof = "response::MessageResponse", tags = "4, 5, 6, 7")]
    pub(crate) answer: Option<response::MessageResponse>,
}

pub(crate) mod response {
    /// The requested data, or an error.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum MessageResponse {
        #[prost(message, tag = "4")]
        Files(super::FileDescriptors),
        #[prost(message, tag = "5")]
        Extensions(super::ExtensionNumbers),
        #[prost(message, tag = "6")]
        Services(super::ListServices),
        #[prost(message, tag = "7")]
        Error(super::ErrorResponse),
    }
}

/// Serialized `google.protobuf.FileDescriptorProto`s.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FileDescriptors {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) file_descriptor_proto: Vec<Bytes>,
}

/// The extension numbers of a message.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExtensionNumbers {
    #[prost(string, tag = "1")]
    pub(crate) base_type_name: String,
    #[prost(int32, repeated, tag = "2")]
    pub(crate) extension_number: Vec<i32>,
}

/// The names of all services.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListServices {
    #[prost(message, repeated, tag = "1")]
    pub(crate) service: Vec<ServiceName>,
}

/// The name of one service.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ServiceName {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// Why a question has no answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ErrorResponse {
    #[prost(int32, tag = "1")]
    pub(crate) error_code: i32,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}
