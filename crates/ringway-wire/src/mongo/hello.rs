//! The first command of a connection.

use std::time::Duration;

use bson::RawDocument;
use bson::oid::ObjectId;

use super::command::{CommandTemplate, CommandWriter};
use super::compressor::MongoCompressor;
use super::metadata::ClientMetadata;
use super::op_msg::MsgFlags;

/// What a client asks and says when it greets a server, and later when it asks how the server is.
#[derive(Debug, Clone, Copy, Default)]
pub struct HelloRequest<'a> {
    /// Whether the server is asked by the older name `isMaster`, which each one knows.
    pub is_legacy: bool,
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
    /// Fields of the declared version of the server's interface.
    pub api: Option<&'a RawDocument>,
    /// What the server waits for before it answers; it answers at once without this.
    pub awaited: Option<AwaitedChange>,
}

/// The view of a server that the client knows. The server answers when it has another one, or after a time, and again
/// and again without being asked.
///
/// Specification: Server Discovery and Monitoring, "Awaitable hello".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwaitedChange {
    /// The process that had the view.
    pub process: ObjectId,
    /// The number of changes that the process had seen.
    pub counter: i64,
    /// How long the server waits.
    pub time_max: Duration,
}

impl HelloRequest<'_> {
    /// Begins the command at the end of `out`. It is not compressed, and in no session.
    pub fn begin<'o>(&self, request_id: i32, out: &'o mut Vec<u8>) -> CommandWriter<'o> {
        let name = if self.is_legacy { "isMaster" } else { "hello" };
        let mut hello = CommandTemplate::new(name, 1, "admin").begin(request_id, None, out);
        hello.bool("helloOk", true);
        if self.is_load_balanced {
            hello.bool("loadBalanced", true);
        }
        self.api.iter().for_each(|api| hello.fields(api));
        if let Some(metadata) = self.metadata {
            // Specification: MongoDB Handshake, which sets the version of "Client Backpressure".
            hello.str("backpressure", "2");
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
        if let Some(awaited) = self.awaited {
            hello.nested("topologyVersion", |version| {
                version.object_id("processId", awaited.process);
                version.i64("counter", awaited.counter);
            });
            let millis = i64::try_from(awaited.time_max.as_millis()).unwrap_or(i64::MAX);
            hello.i64("maxAwaitTimeMS", millis);
            hello.flags(MsgFlags::EXHAUST_ALLOWED);
        }
        hello
    }
}
