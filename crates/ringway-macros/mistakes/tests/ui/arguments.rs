//! What a method takes.

use ringway_rpc::{Context, Sink, Status, Streaming, service};

#[service]
trait Market {
    async fn context_alone(&self, context: Context) -> Result<String, Status>;
    async fn context_and_sink(&self, call: Context, replies: Sink<String>) -> Result<(), Status>;
    async fn sink_first(&self, replies: Sink<String>, request: String) -> Result<(), Status>;
    async fn two_sinks(
        &self,
        request: String,
        quotes: Sink<String>,
        fills: Sink<String>,
    ) -> Result<(), Status>;
    async fn two_sinks_alone(&self, a: Sink<String>, b: Sink<String>) -> Result<(), Status>;
    async fn two_streams(
        &self,
        orders: Streaming<String>,
        ticks: Streaming<String>,
    ) -> Result<String, Status>;
    async fn after_the_sink(
        &self,
        request: String,
        replies: Sink<String>,
        limit: u64,
    ) -> Result<(), Status>;
    async fn context_last(&self, request: String, context: Context) -> Result<String, Status>;
    async fn two_contexts(
        &self,
        context: Context,
        again: Context,
        request: String,
    ) -> Result<String, Status>;
    async fn borrowed(&self, request: &str) -> Result<String, Status>;
    async fn anything(&self, request: impl Send) -> Result<String, Status>;
}

fn main() {}
