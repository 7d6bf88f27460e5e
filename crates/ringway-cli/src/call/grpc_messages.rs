//! The messages of `grpc.reflection.v1` and `v1alpha`, with the fields used here.

use bytes::Bytes;

/// One question about a server.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReflectionRequest {
    #[prost(oneof = "request::Wanted", tags = "3, 4, 7")]
    pub(super) wanted: Option<request::Wanted>,
}

pub(super) mod request {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Wanted {
        /// A file by its name.
        #[prost(string, tag = "3")]
        File(String),
        /// The file in which something is declared.
        #[prost(string, tag = "4")]
        FileOf(String),
        /// Asks for all services; the text is ignored.
        #[prost(string, tag = "7")]
        Services(String),
    }
}

/// The answer to one question.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReflectionResponse {
    #[prost(oneof = "response::Told", tags = "4, 6, 7")]
    pub(super) told: Option<response::Told>,
}

pub(super) mod response {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Told {
        #[prost(message, tag = "4")]
        Files(super::FileSet),
        #[prost(message, tag = "6")]
        Services(super::Services),
        #[prost(message, tag = "7")]
        Failure(super::ReflectionFailure),
    }
}

/// Files as they are on the wire. A `google.protobuf.FileDescriptorSet` is written the same.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FileSet {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) files: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Services {
    #[prost(message, repeated, tag = "1")]
    pub(super) services: Vec<ServiceName>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServiceName {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

/// Why there is no other answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReflectionFailure {
    /// A code of gRPC.
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}
