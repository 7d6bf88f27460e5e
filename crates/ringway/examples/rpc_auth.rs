//! Who may call what: an interceptor of the client gives all its calls a token; one of the server
//! checks the token of every call and tells the handlers whose it is.
//!
//! Run it: `cargo run --release --example rpc_auth`. It calls itself and ends.

use std::collections::HashMap;
use std::sync::Arc;

use ringway::net::Address;
use ringway::rpc::{Client, Context, Next, NextCall, OutgoingCall, Reply, Server, Status};
use serde::{Deserialize, Serialize};

/// What travels, as JSON.
#[derive(Serialize, Deserialize)]
struct Transfer {
    from: String,
    to: String,
    cents: u64,
}

#[ringway::service(package = "bank.v1")]
trait Bank {
    async fn transfer(&self, context: Context, transfer: Transfer) -> Result<(), Status>;
}

struct Ledger;

impl Bank for Ledger {
    async fn transfer(&self, context: Context, transfer: Transfer) -> Result<(), Status> {
        let user = context.extension::<User>().ok_or_else(|| Status::internal("no interceptor"))?;
        if user.name != transfer.from {
            return Err(Status::permission_denied("the money is not yours"));
        }
        println!("{} gives {} {} cents", transfer.from, transfer.to, transfer.cents);
        Ok(())
    }
}

/// What the server's interceptor leaves for the handlers.
struct User {
    name: String,
}

/// Tokens and whose they are.
struct Tokens(HashMap<String, String>);

impl Tokens {
    /// Runs around every call. It may wait, and look at the outcome of the rest of the call.
    async fn check(&self, context: Context, next: Next) -> Result<Reply, Status> {
        let header = context.metadata().get("authorization");
        let Some(token) = header.and_then(|value| value.strip_prefix("Bearer ")) else {
            return Err(Status::unauthenticated("the call has no `authorization: Bearer …`"));
        };
        let Some(name) = self.0.get(token) else {
            return Err(Status::unauthenticated("the token is not valid"));
        };
        context.insert(User { name: name.clone() });
        next.run(context).await
    }
}

/// A client that shows a token with every call. It could as well wait for a fresh one here.
fn client_with(token: &'static str, address: &Address) -> Result<BankClient, Status> {
    let add_token = async move |mut call: OutgoingCall, next: NextCall| {
        call.metadata_mut().insert("authorization", format!("Bearer {token}"))?;
        next.run(call).await
    };
    Ok(BankClient::new(Client::builder().address(address).intercept(add_token).build()?))
}

fn main() -> ringway::Result {
    let tokens = Arc::new(Tokens(HashMap::from([("open sesame".into(), "ann".into())])));
    let server = Server::bind("tcp://127.0.0.1:0")?
        .intercept(async move |context, next| tokens.check(context, next).await)
        .service(BankServer::new(Ledger))
        .start()?;
    println!("listening on {}", server.addresses()[0]);

    let address = &server.addresses()[0];
    let stranger = BankClient::connect(address)?;
    let (thief, ann) = (client_with("open simsim", address)?, client_with("open sesame", address)?);
    let transfer = |from: &str| Transfer { from: from.into(), to: "carl".into(), cents: 250 };
    for outcome in [
        stranger.transfer(transfer("ann")).wait(),
        thief.transfer(transfer("ann")).wait(),
        ann.transfer(transfer("bob")).wait(),
        ann.transfer(transfer("ann")).wait(),
    ] {
        match outcome {
            Ok(()) => println!("done"),
            Err(status) => println!("{status}"),
        }
    }
    server.shutdown();
    server.wait()
}
