//! What a method returns.

use ringway_rpc::{Sink, Status, Streaming, service};

#[service]
trait Market {
    async fn nothing(&self, request: String);
    async fn no_result(&self, request: String) -> String;
    async fn not_even_a_path(&self, request: String) -> (String, Status);
    async fn other_error(&self, request: String) -> Result<String, String>;
    async fn borrowed(&self, request: String) -> Result<&str, Status>;
    async fn stream(&self, request: String) -> Result<Streaming<String>, Status>;
    async fn sink_and_reply(
        &self,
        request: String,
        replies: Sink<String>,
    ) -> Result<String, Status>;
}

fn main() {}
