//! What stands in the parentheses.

use ringway_rpc::{Sink, Status, service};

#[service(pakage = "market.v1")]
trait Misspelt {}

#[service(package = "market..v1")]
trait BadPackage {}

#[service(package = "market", package = "v1")]
trait Twice {}

#[service(name = "the market")]
trait BadName {}

#[service(package)]
trait NoValue {}

#[service]
trait Methods {
    #[method(retry)]
    async fn misspelt(&self, request: String) -> Result<String, Status>;
    #[method]
    async fn empty(&self, request: String) -> Result<String, Status>;
    #[method(idempotent, idempotent)]
    async fn twice(&self, request: String) -> Result<String, Status>;
    #[method(timeout_ms = 0)]
    async fn never_in_time(&self, request: String) -> Result<String, Status>;
    #[method(timeout_ms = "1s")]
    async fn not_a_number(&self, request: String) -> Result<String, Status>;
    #[method(concurrency = 5_000_000_000)]
    async fn too_many(&self, request: String) -> Result<String, Status>;
    #[method(name = "a/b")]
    async fn bad_name(&self, request: String) -> Result<String, Status>;
    #[method(offload)]
    async fn stream(&self, request: String, replies: Sink<String>) -> Result<(), Status>;
    #[method(offload, tokio)]
    async fn both(&self, request: String) -> Result<String, Status>;
}

fn main() {}
