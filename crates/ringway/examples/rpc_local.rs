//! Who may call over a Unix socket: the kernel tells the user of the process at the other end, so a service of one
//! machine needs neither passwords nor certificates.
//!
//! Run it: `cargo run --release --example rpc_local`. It calls itself, over a Unix socket and over TCP, and ends.

use std::os::unix::fs::MetadataExt;

use ringway::rpc::{Context, Next, Reply, Server, Status};

#[ringway::service(package = "admin.v1")]
trait Admin {
    async fn restart(&self, context: Context, service: String) -> Result<String, Status>;
}

struct Machine;

impl Admin for Machine {
    async fn restart(&self, context: Context, service: String) -> Result<String, Status> {
        let caller = context.peer().credentials().ok_or_else(|| Status::internal("no check"))?;
        let is_self = caller.pid == Some(std::process::id());
        Ok(format!("{service} is restarted for user {}, this process: {is_self}", caller.uid))
    }
}

/// Lets root and one user pass.
async fn check(user: u32, context: Context, next: Next) -> Result<Reply, Status> {
    match context.peer().credentials() {
        Some(caller) if caller.uid == 0 || caller.uid == user => next.run(context).await,
        Some(caller) => Err(Status::permission_denied(format!("user {} may not", caller.uid))),
        None => Err(Status::unauthenticated("this is served over the Unix socket only")),
    }
}

fn main() -> ringway::Result {
    let user = std::fs::metadata("/proc/self")?.uid(); // who runs this
    let socket = format!("unix://@ringway-rpc-local-{}", std::process::id());
    let server = Server::bind([&*socket, "tcp://127.0.0.1:0"])?
        .service(
            AdminServer::new(Machine)
                .intercept(async move |context, next| check(user, context, next).await),
        )
        .start()?;
    for address in server.addresses() {
        println!("listening on {address}");
    }
    for address in server.addresses() {
        match AdminClient::connect(address)?.restart("cron".into()).wait() {
            Ok(reply) => println!("{reply}"),
            Err(status) => println!("{status}"),
        }
    }
    server.shutdown();
    server.wait()
}
