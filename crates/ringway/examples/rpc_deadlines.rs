//! Deadlines and cancelling: a deadline holds for the calls made inside of a handler as well, and a
//! handler whose caller has gone is dropped where it waits.
//!
//! Run it: `cargo run --release --example rpc_deadlines`. It calls itself three times and ends.

use std::time::Duration;

use ringway::rpc::{Client, Context, Server, Sink, Status};
use ringway::runtime::{block_on, timeout};

/// What people ask. It passes their questions on.
#[ringway::service]
trait Desk {
    async fn ask(&self, question: String) -> Result<String, Status>;
}

/// Who never comes to an end.
#[ringway::service]
trait Oracle {
    async fn ponder(&self, context: Context, question: String) -> Result<String, Status>;
    async fn murmur(
        &self,
        context: Context,
        question: String,
        words: Sink<String>,
    ) -> Result<(), Status>;
}

struct Clerk {
    oracle: OracleClient,
}

impl Desk for Clerk {
    async fn ask(&self, question: String) -> Result<String, Status> {
        self.oracle.ponder(question).await // until the caller's deadline, if that is the earlier one
    }
}

struct Pythia;

impl Oracle for Pythia {
    async fn ponder(&self, context: Context, question: String) -> Result<String, Status> {
        let remaining = context.remaining().expect("calls with one reply have a deadline");
        println!("pondering for {} ms at most", remaining.as_millis());
        let _told = Told { question, context };
        std::future::pending().await
    }

    async fn murmur(
        &self,
        context: Context,
        question: String,
        mut words: Sink<String>,
    ) -> Result<(), Status> {
        let _told = Told { question, context };
        words.send("hm".into()).await?;
        std::future::pending().await
    }
}

/// Says why a handler was dropped. What it must undo, it undoes in a destructor like this.
struct Told {
    question: String,
    context: Context,
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(reason) = self.context.cancel_reason() {
            println!("\"{}\" ended: {reason}", self.question);
        }
    }
}

fn main() -> ringway::Result {
    let server = Server::bind("tcp://127.0.0.1:0")?;
    let client = Client::connect(&server.addresses()[0])?; // connects when a call is made
    let clerk = Clerk { oracle: OracleClient::new(client.clone()) };
    let server = server.service(DeskServer::new(clerk)).service(OracleServer::new(Pythia));
    let server = server.start()?;
    println!("listening on {}", server.addresses()[0]);
    block_on(ask(DeskClient::new(client.clone()), OracleClient::new(client)))??;
    server.shutdown();
    server.wait()
}

async fn ask(desk: DeskClient, oracle: OracleClient) -> Result<(), Status> {
    let answer = desk.ask("when?".into()).timeout(Duration::from_millis(200)).await;
    println!("answer: {}", answer.unwrap_err());

    // Whoever drops a call cancels it; here the time limit does.
    let patience = timeout(Duration::from_millis(50), desk.ask("why?".into()));
    println!("answer: {}", patience.await.unwrap_err());

    let mut words = oracle.murmur("how?".into());
    println!("answer: {:?}", words.next().await?);
    words.cancel("I know enough");
    Ok(())
}
