//! Which messages of a client are compressed.

use ringway_wire::grpc::{self, accepted_names};

use crate::call::status::Status;
use crate::limits;

/// Compression of messages in calls over gRPC, for
/// [`ClientBuilder::compression`](super::ClientBuilder::compression). Servers may compress their replies by gzip
/// and zstd; requests are compressed if that is said, for servers that are known to take it.
///
/// ```
/// use ringway_rpc::{Client, ClientCompression};
///
/// let client = Client::builder()
///     .address("grpc://127.0.0.1:50051")
///     .compression(ClientCompression::of_replies().gzip_requests())
///     .build()?;
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClientCompression {
    requests: grpc::Compression,
    request_bytes_min: usize,
}

impl ClientCompression {
    /// Takes compressed replies, and sends requests as they are.
    #[must_use]
    pub fn of_replies() -> Self {
        let requests = grpc::Compression::Identity;
        Self { requests, request_bytes_min: limits::COMPRESSED_BYTES_MIN }
    }

    /// Compresses requests by gzip, which most servers take that take any.
    #[must_use]
    pub fn gzip_requests(self) -> Self {
        Self { requests: grpc::Compression::Gzip, ..self }
    }

    /// Compresses requests by zstd.
    #[must_use]
    pub fn zstd_requests(self) -> Self {
        Self { requests: grpc::Compression::Zstd, ..self }
    }

    /// Bytes of the shortest request that is compressed. The default is 1,024.
    #[must_use]
    pub fn request_bytes_min(self, bytes: usize) -> Self {
        Self { request_bytes_min: bytes, ..self }
    }

    /// Whether it can be had.
    ///
    /// # Errors
    /// INVALID_ARGUMENT without the feature for it.
    pub(super) fn check() -> Result<(), Status> {
        if accepted_names(true) == accepted_names(false) {
            let why = "compression needs the feature `compression` of ringway";
            return Err(Status::invalid_argument(why));
        }
        Ok(())
    }

    /// The same for a connection.
    pub(super) fn of_connection(self) -> grpc::ClientCompression {
        grpc::ClientCompression { requests: self.requests, request_min: self.request_bytes_min }
    }
}
