//! What servers are given.

use ringway_rpc::{Server, Status, service};

#[service(crate = "ringway_rpc")]
trait Greeter {
    async fn greet(&self, name: String) -> Result<String, Status>;
}

struct English;

impl Greeter for English {
    async fn greet(&self, name: String) -> Result<String, Status> {
        Ok(name)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Server::bind("tcp://127.0.0.1:0")?.service(English).serve()?;
    Ok(())
}
