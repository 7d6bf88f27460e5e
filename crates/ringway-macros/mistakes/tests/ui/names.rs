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

#[service]
trait Bare {
    async fn __(&self, request: String) -> Result<String, Status>;
    async fn _1(&self, request: String) -> Result<String, Status>;
    async fn größe(&self, request: String) -> Result<String, Status>;
    #[method(name = "Size")]
    async fn länge(&self, request: String) -> Result<String, Status>;
}

#[service]
trait Straße {
    async fn quote(&self, request: String) -> Result<String, Status>;
}

fn main() {}
