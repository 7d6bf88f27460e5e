//! The first command of a connection.

use bson::RawDocument;

use super::command::{CommandTemplate, CommandWriter};
use super::compressor::MongoCompressor;
use super::metadata::ClientMetadata;

/// What a client asks and says when it greets a server, and later when it asks how the server is.
#[derive(Debug, Clone, Copy, Default)]
pub struct HelloRequest<'a> {
    /// Who the client is; only in the first command of a connection.
    pub metadata: Option<&'a ClientMetadata>,
    /// Compressors that the client has, the preferred one first.
    pub compressors: &'a [MongoCompressor],
    /// `database.user` whose mechanisms are asked for.
    pub mechanisms_of: Option<&'a str>,
    /// The beginning of an authentication, which saves a round trip: see
    /// [`ScramClient::speculate`](super::ScramClient::speculate).
    pub speculative_authenticate: Option<&'a RawDocument>,
    /// Whether the client reaches the server through a load balancer.
    pub is_load_balanced: bool,
}

impl HelloRequest<'_> {
    /// Begins the command at the end of `out`. It is not compressed, and in no session.
    pub fn begin<'o>(&self, request_id: i32, out: &'o mut Vec<u8>) -> CommandWriter<'o> {
        let mut hello = CommandTemplate::new("hello", 1, "admin").begin(request_id, None, out);
        hello.bool("helloOk", true);
        if self.is_load_balanced {
            hello.bool("loadBalanced", true);
        }
        if let Some(metadata) = self.metadata {
            hello.document("client", metadata.document());
        }
        if !self.compressors.is_empty() {
            hello.strs("compression", self.compressors.iter().map(|compressor| compressor.name()));
        }
        if let Some(user) = self.mechanisms_of {
            hello.str("saslSupportedMechs", user);
        }
        if let Some(first) = self.speculative_authenticate {
            hello.document("speculativeAuthenticate", first);
        }
        hello
    }
}
