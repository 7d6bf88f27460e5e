//! Names that are taken.

use ringway_rpc::{Status, service};

#[service]
trait Duplicate {
    async fn place_order(&self, request: String) -> Result<String, Status>;
    async fn placeOrder(&self, request: String) -> Result<String, Status>;
}

#[service]
trait Renamed {
    async fn quote(&self, request: String) -> Result<String, Status>;
    #[method(name = "Quote")]
    async fn price(&self, request: String) -> Result<String, Status>;
}

#[service]
trait Client {
    async fn new(&self, request: String) -> Result<String, Status>;
}

fn main() {}
