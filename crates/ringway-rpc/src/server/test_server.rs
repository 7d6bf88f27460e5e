//! A server on the core that runs the test.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ringway_net::{Address, Connection, ToAddresses};
use ringway_runtime::io::{ListenOptions, Listener, StreamLimits};
use ringway_runtime::{JoinHandle, spawn};

use super::Server;
use super::core::ServerCore;
use super::protocols::serve_with;
use super::shared::ServerShared;
use crate::builtin::health::Health;
use crate::call::status::Status;
use crate::client::Client;
use crate::service::Service;

/// A server on the core that starts it. It also runs in [simulations](crate::testing::simulate), on their
/// network and clock, where a [`Server`] cannot: that one listens on cores of its own. Dropping it closes
/// its connections.
pub struct TestServer {
    address: Address,
    health: Health,
    serving: Rc<OnOneCore>,
    accepting: JoinHandle<()>,
}

/// An empty list of addresses: a simulation cannot bind the machine's.
struct NoAddresses;

impl ToAddresses for NoAddresses {
    fn to_addresses(self) -> ringway_net::Result<Vec<Address>> {
        Ok(Vec::new())
    }
}

struct OnOneCore {
    shared: Arc<ServerShared>,
    /// The core's state, made with the first connection. Services that are made once a core live in it.
    core: RefCell<Option<Rc<ServerCore>>>,
    connections: RefCell<Vec<JoinHandle<()>>>,
}

impl TestServer {
    /// Serves `service` on a free port with the default settings of a [`Server`], until this is dropped.
    ///
    /// # Errors
    /// When the core cannot listen.
    ///
    /// # Panics
    /// Panics on a thread that is not a Ringway core.
    pub fn start(service: impl Service) -> Result<Self, Status> {
        Self::start_with(|server| server.service(service))
    }

    /// Serves with the services, interceptors, limits and health of the [`Server`] that `set_up` returns.
    /// Its settings for cores, sockets and TLS have no effect.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ringway_rpc::testing::{TestServer, simulate};
    /// use ringway_rpc::{Status, service};
    ///
    /// #[service(crate = "ringway_rpc")]
    /// trait Slow {
    ///     #[method(concurrency = 1)]
    ///     async fn wait(&self, seconds: u64) -> Result<(), Status>;
    /// }
    ///
    /// impl Slow for () {
    ///     async fn wait(&self, seconds: u64) -> Result<(), Status> {
    ///         ringway_runtime::sleep(Duration::from_secs(seconds)).await;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// simulate(1, async {
    ///     let server = TestServer::start_with(|it| it.service(SlowServer::new(())).queue_room(0))?;
    ///     let [ann, bob] = server.clients(SlowClient::new)?;
    ///     let first = ringway_runtime::spawn(ann.wait(5));
    ///     ringway_runtime::sleep(Duration::from_secs(1)).await;
    ///     assert!(bob.wait(5).await.is_err_and(|status| status.is_resource_exhausted()));
    ///     first.await?
    /// })?;
    /// # Ok::<(), Status>(())
    /// ```
    ///
    /// # Errors
    /// When the core cannot listen, and when the settings are refused as by [`Server::start`].
    ///
    /// # Panics
    /// Panics on a thread that is not a Ringway core.
    pub fn start_with(set_up: impl FnOnce(Server) -> Server) -> Result<Self, Status> {
        let server = set_up(Server::bind(NoAddresses)?);
        let health = server.health.clone();
        let (_sockets, shared) = server.prepare()?;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(&any.into(), ListenOptions::default())?;
        let bound = listener.local_addr().as_socket().expect("an address of the internet");
        let serving = Rc::new(OnOneCore {
            shared,
            core: RefCell::default(),
            connections: RefCell::default(),
        });
        let accepting = spawn(accept(listener, Rc::clone(&serving)));
        Ok(Self { address: bound.into(), health, serving, accepting })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Makes clients of this server, each with its own connections:
    /// `server.clients(CounterClient::new)?`.
    ///
    /// # Errors
    /// Fails as [`Client::connect`] does.
    pub fn clients<C, const N: usize>(&self, make: impl Fn(Client) -> C) -> Result<[C; N], Status> {
        let one = |_| Client::connect(&self.address).map(&make);
        let clients = (0..N).map(one).collect::<Result<Vec<C>, Status>>()?;
        Ok(clients.try_into().ok().expect("there are N of them"))
    }

    /// The server's health.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Closes all connections without notice, as a killed server does. Clients may connect again. A call
    /// that a client makes before it has noticed fails as lost, or is repeated if it is idempotent.
    pub fn lose_connections(&self) {
        let lost = self.serving.connections.take();
        lost.iter().for_each(JoinHandle::abort);
    }

    /// Drains the server: clients are told, and running calls may end. It accepts no connections
    /// afterwards.
    pub fn shutdown(&self) {
        self.accepting.abort();
        self.health.shut_down();
        let core = self.serving.core.borrow().clone();
        if let Some(core) = core {
            core.drain();
        }
    }
}

async fn accept(listener: Listener, serving: Rc<OnOneCore>) {
    let limits = Rc::new(StreamLimits::default());
    loop {
        // In a simulation, `accept` may fail for a moment for want of descriptors.
        let Ok(accepted) = listener.accept().await else { continue };
        let Ok(stream) = accepted.into_stream(&limits) else { continue };
        let connection = Connection::adopt(stream, Rc::clone(&limits));
        let core = ServerCore::of(&serving.shared, &connection);
        serving.core.replace(Some(core));
        let serve = serve_with(Arc::clone(&serving.shared));
        let served = spawn(async move {
            let _the_peer_may_have_failed = serve(connection).await;
        });
        let mut connections = serving.connections.borrow_mut();
        connections.retain(|connection| !connection.is_finished());
        connections.push(served);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.lose_connections();
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestServer").field(&self.address).finish()
    }
}
