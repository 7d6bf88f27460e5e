//! What the attribute stands on, and what is in there.

use ringway_rpc::{Status, service};

#[service]
struct Market;

#[service]
impl Market {
    async fn quote(&self, request: String) -> Result<String, Status> {
        Ok(request)
    }
}

#[service]
unsafe trait Careless {}

#[service]
trait Generic<T> {
    async fn quote(&self, request: T) -> Result<T, Status>;
}

#[service]
trait Members {
    const LIMIT: usize;
    type Request;
    async fn quote(&self, request: String) -> Result<String, Status> {
        Ok(request)
    }
    #[cfg(test)]
    async fn trade(&self, request: String) -> Result<String, Status>;
}

fn main() {}
