//! A server on the core of a test.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ringway_net::{Address, Connection};
use ringway_runtime::io::{ListenOptions, Listener, StreamLimits};
use ringway_runtime::{JoinHandle, spawn};

use super::core::ServerCore;
use super::serve_with;
use super::settings::Settings;
use super::shared::ServerShared;
use crate::builtin::reflection::ReflectionService;
use crate::service::Service;

/// A server on the core that starts it, so that it runs in [simulations](crate::testing::simulate) as
/// well: over their network, by their clock. Dropping it closes its connections.
///
/// It has the settings of a [`Server`](crate::Server) that nobody has changed. A real server listens on
/// cores of its own, which a simulation does not have.
pub struct TestServer {
    address: Address,
    serving: Rc<OnOneCore>,
    accepting: JoinHandle<()>,
}

struct OnOneCore {
    shared: Arc<ServerShared>,
    /// Made with the first connection. What a service keeps for a core is in it.
    core: RefCell<Option<Rc<ServerCore>>>,
    connections: RefCell<Vec<JoinHandle<()>>>,
}

impl TestServer {
    /// Serves `service` on a free port, until this is dropped.
    ///
    /// # Errors
    /// When the core cannot listen.
    ///
    /// # Panics
    /// On a thread that is no core.
    pub fn start(service: impl Service) -> io::Result<Self> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(&any.into(), ListenOptions::default())?;
        let bound = listener.local_addr().as_socket().expect("an address of the internet");
        let services: Vec<Box<dyn Service>> = vec![Box::new(service)];
        let reflection = ReflectionService::default();
        let shared = ServerShared::new(Settings::default(), services, reflection, Vec::new());
        let serving = Rc::new(OnOneCore {
            shared: Arc::new(shared),
            core: RefCell::default(),
            connections: RefCell::default(),
        });
        let accepting = spawn(accept(listener, Rc::clone(&serving)));
        Ok(Self { address: bound.into(), serving, accepting })
    }

    /// Where clients reach it.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Closes all connections without a word, as a server that is killed does. Clients may connect again.
    pub fn lose_connections(&self) {
        let lost = self.serving.connections.take();
        lost.iter().for_each(JoinHandle::abort);
    }

    /// Lets the server drain: clients are told, and calls that run may end. It is not served again.
    pub fn shutdown(&self) {
        self.accepting.abort();
        let core = self.serving.core.borrow().clone();
        if let Some(core) = core {
            core.drain();
        }
    }
}

async fn accept(listener: Listener, serving: Rc<OnOneCore>) {
    let limits = Rc::new(StreamLimits::default());
    loop {
        // In a simulation descriptors may run out for a moment.
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
