//! A service and its client in one file: a trait, what carries it out, a server, two calls.
//!
//! Run it: `cargo run --release --example rpc_quickstart`. It calls itself and ends.

use ringway::rpc::{Server, Status};

/// All there is to declare. Further message types: `Bytes`, those of prost, those of serde.
#[ringway::service(package = "hello.v1")]
trait Greeter {
    async fn greet(&self, name: String) -> Result<String, Status>;
}

struct English;

impl Greeter for English {
    async fn greet(&self, name: String) -> Result<String, Status> {
        if name.is_empty() {
            return Err(Status::invalid_argument("the name is empty"));
        }
        Ok(format!("Hello, {name}!"))
    }
}

fn main() -> ringway::Result {
    // `start` returns at once; a process that only serves calls `serve`, which returns on SIGTERM.
    let server = Server::bind("tcp://127.0.0.1:0")?.service(GreeterServer::new(English)).start()?;
    let address = &server.addresses()[0];
    println!("listening on {address}");

    // A call is a future. Threads that may block `wait` for it, all others `await` it.
    let greeter = GreeterClient::connect(address)?;
    println!("{}", greeter.greet("world".into()).wait()?);
    match greeter.greet(String::new()).wait() {
        Err(status) if status.is_invalid_argument() => println!("refused: {}", status.message()),
        outcome => println!("unexpected: {outcome:?}"),
    }

    server.shutdown();
    server.wait()
}
