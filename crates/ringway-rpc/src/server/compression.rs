//! Which services of a server take and send compressed messages.

use std::collections::HashMap;
use std::sync::Arc;

use ringway_wire::grpc::{ServerCompression, accepted_names};

use crate::limits;

/// Compression of messages in calls of gRPC, for [`Server::compression`](crate::Server::compression): gzip and
/// zstd, each where the client takes or uses it.
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
    /// `None`: all of them.
    services: Option<Vec<String>>,
    reply_bytes_min: usize,
}

impl Compression {
    /// For all services.
    #[must_use]
    pub fn of_all_services() -> Self {
        Self { services: None, reply_bytes_min: limits::COMPRESSED_BYTES_MIN }
    }

    /// For these services alone, as `package.Service`.
    #[must_use]
    pub fn of_services<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let services = Some(names.into_iter().map(Into::into).collect());
        Self { services, ..Self::of_all_services() }
    }

    /// Bytes of the shortest reply that is compressed. The default is 1,024: less hardly becomes shorter
    /// than a packet, and costs as much time.
    #[must_use]
    pub fn reply_bytes_min(mut self, bytes: usize) -> Self {
        self.reply_bytes_min = bytes;
        self
    }

    /// Whether it can be had, of services that are there.
    pub(super) fn check(&self, is_service: impl Fn(&str) -> bool) -> Result<(), String> {
        if accepted_names(true) == accepted_names(false) {
            return Err(String::from("compression needs the feature `compression` of ringway"));
        }
        let unknown = self.services.iter().flatten().find(|name| !is_service(name));
        match unknown {
            Some(name) => {
                Err(format!("compression is wanted for {name}, which is no service here"))
            }
            None => Ok(()),
        }
    }

    /// The same by the numbers that methods have in gRPC, one more than their places.
    pub(super) fn of_methods(
        &self,
        places: &HashMap<&'static str, usize>,
    ) -> Arc<ServerCompression> {
        let numbers = self.services.as_ref().map(|services| -> Vec<u32> {
            let is_chosen = |name: &str| {
                name.rsplit_once('/').is_some_and(|(of, _)| services.iter().any(|name| name == of))
            };
            let chosen = places.iter().filter(|(name, _)| is_chosen(name));
            chosen.map(|(_, place)| *place as u32 + 1).collect()
        });
        Arc::new(ServerCompression::new(numbers.as_deref(), self.reply_bytes_min))
    }
}
