//! What a method looks like before its arguments.

use ringway_rpc::{Status, service};

#[service]
trait Market {
    fn not_async(&self, request: String) -> Result<String, Status>;
    async fn generic<T>(&self, request: T) -> Result<T, Status>;
    async fn lifetime<'a>(&self, request: String) -> Result<String, Status>;
    async fn bounded(&self, request: String) -> Result<String, Status>
    where
        Self: Send;
    async unsafe fn careless(&self, request: String) -> Result<String, Status>;
    async extern "C" fn foreign(&self, request: String) -> Result<String, Status>;
    async fn no_self(request: String) -> Result<String, Status>;
    async fn nothing() -> Result<String, Status>;
    async fn exclusive(&mut self, request: String) -> Result<String, Status>;
    async fn consuming(self, request: String) -> Result<String, Status>;
    async fn boxed(self: Box<Self>, request: String) -> Result<String, Status>;
}

fn main() {}
