//! Message compression in gRPC calls.

use std::collections::HashMap;
use std::sync::Arc;

use ringway_wire::grpc::{ServerCompression, accepted_names};

use crate::limits;

/// Compression of messages in gRPC calls, for [`Server::compression`](crate::Server::compression): gzip
/// and zstd, whichever the client uses and accepts.
///
/// ```
/// use ringway_rpc::{Compression, Server};
///
/// # fn main() -> ringway_net::Result {
/// let archive = Compression::of_services(["archive.v1.Archive"]).reply_bytes_min(10_000);
/// let server = Server::bind("tcp://127.0.0.1:0")?.compression(archive);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Compression {
    /// The names of the services, or `None` for all services.
    services: Option<Vec<String>>,
    reply_bytes_min: usize,
}

impl Compression {
    /// Compresses messages of all services.
    #[must_use]
    pub fn of_all_services() -> Self {
        Self { services: None, reply_bytes_min: limits::COMPRESSED_BYTES_MIN }
    }

    /// Compresses messages of the named services only; a name is `package.Service`.
    #[must_use]
    pub fn of_services<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let services = Some(names.into_iter().map(Into::into).collect());
        Self { services, ..Self::of_all_services() }
    }

    /// Sets the length of the shortest reply that is compressed. The default is 1,024 bytes: shorter
    /// replies fit one packet anyway.
    #[must_use]
    pub fn reply_bytes_min(mut self, bytes: usize) -> Self {
        self.reply_bytes_min = bytes;
        self
    }

    /// Checks that the feature is enabled and that the named services exist.
    pub(super) fn check(&self, is_service: impl Fn(&str) -> bool) -> Result<(), String> {
        if accepted_names(true) == accepted_names(false) {
            return Err(String::from("compression needs the feature `compression` of ringway"));
        }
        let unknown = self.services.iter().flatten().find(|name| !is_service(name));
        match unknown {
            Some(name) => {
                Err(format!("compression is set for {name}, but the server has no such service"))
            }
            None => Ok(()),
        }
    }

    /// The configuration by method numbers in gRPC, which are the methods' indices plus one.
    pub(super) fn of_methods(
        &self,
        method_indices: &HashMap<&'static str, usize>,
    ) -> Arc<ServerCompression> {
        let numbers = self.services.as_ref().map(|services| -> Vec<u32> {
            let is_chosen = |name: &str| {
                name.rsplit_once('/').is_some_and(|(of, _)| services.iter().any(|name| name == of))
            };
            let chosen = method_indices.iter().filter(|(name, _)| is_chosen(name));
            chosen.map(|(_, method_index)| *method_index as u32 + 1).collect()
        });
        Arc::new(ServerCompression::new(numbers.as_deref(), self.reply_bytes_min))
    }
}
