//! The servers: one core each, which sleeps at once when there is nothing to do.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use ringway_discovery::Registry;
use ringway_http::{Router, serve, text};
use ringway_net::{Connection, Server, ServerHandle};
use ringway_rpc as rpc;
use ringway_runtime::{Backend, Runtime};

use crate::double::MongoDouble;
use crate::echo::{EchoServer, EchoService};
use crate::rows::Work;

const ANY_PORT: &str = "tcp://127.0.0.1:0";

/// Starts the server for `work`, which may keep its data in `folder`.
///
/// # Errors
/// The system refuses a socket, a ring or the folder.
pub(crate) fn start(
    work: Work,
    backend: Backend,
    folder: &Path,
) -> Result<ServerHandle, Box<dyn Error>> {
    let net = || Ok::<_, ringway_net::Error>(one_core(Server::bind(ANY_PORT)?, backend));
    let rpc = || {
        Ok::<_, ringway_net::Error>(
            rpc::Server::bind(ANY_PORT)?.net(|server| one_core(server, backend)),
        )
    };
    Ok(match work {
        Work::Echo { .. } => net()?.start(echo)?,
        Work::Get => net()?.start(serve(greeter()))?,
        Work::FindOne | Work::InsertOne => net()?.start_with(MongoDouble::default)?,
        Work::Put { folder: is_kept } => registry(rpc()?, backend, is_kept.then_some(folder))?,
        Work::Range => registry(rpc()?, backend, None)?,
        Work::Calls { .. } | Work::Greetings { .. } | Work::Frames { .. } | Work::Connect => {
            rpc()?.service(EchoServer::new(EchoService)).start()?.net().clone()
        }
    })
}

/// A core that spins sees more or fewer of its events in one turn, as the time goes.
fn one_core(server: Server, backend: Backend) -> Server {
    server.threads(1).backend(backend).spin(Duration::ZERO)
}

fn registry(
    server: rpc::Server,
    backend: Backend,
    folder: Option<&Path>,
) -> Result<ServerHandle, Box<dyn Error>> {
    let builder = Registry::builder();
    let builder = match folder {
        Some(folder) => builder.data(folder),
        None => builder,
    };
    let core = Runtime::builder().threads(1).backend(backend);
    let registry = core.block_on(async { builder.open().await })??;
    Ok(registry.serve_on(server).start()?.net().clone())
}

fn greeter() -> Router {
    Router::new().get("/greet/{name}", async |_| Ok(text("Hello!")))
}

async fn echo(mut connection: Connection) -> ringway_net::Result {
    while let Some(view) = connection.recv().await? {
        connection.send(view);
    }
    Ok(())
}
