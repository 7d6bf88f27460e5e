//! Servers in simulations: the machines, drivers and handlers are those of any server, the network and
//! the clock are not.
//!
//! A server listens on cores of its own, which a simulation does not have. So it connects to those that
//! want to be served, which are peers that play clients, or a relay that clients connect to.

mod aged;
mod changed_texts;
mod crowd;
mod ends;
mod executed;
mod held_back;
mod http;
mod late_replies;
mod left_over;
mod listener;
pub(crate) mod mutation;
mod parts;
mod put_off;
mod queued;
mod relay;
mod slow_reader;
mod unread;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ringway_net::{Address, Client};
use ringway_runtime::io::{ListenOptions, Listener, Stream};
use ringway_runtime::{JoinHandle, spawn};
use ringway_wire::native::Server;

use super::connection::ServerConnection;
use super::connections::CoreConnection;
use super::core::ServerCore;
use super::interceptor::MakeIntercept;
use super::protocols::serve_with;
use super::settings::Settings;
use super::shared::ServerShared;
use super::side_doors::SideDoors;
use crate::builtin::reflection::ReflectionService;
use crate::service::Service;

/// A server on the core of a simulation.
pub(crate) struct SimServer {
    pub(super) shared: Arc<ServerShared>,
    core: Cell<Option<Rc<ServerCore>>>,
}

impl SimServer {
    pub(crate) fn new(settings: Settings, service: impl Service) -> Rc<Self> {
        Self::intercepted(settings, service, vec![])
    }

    pub(crate) fn intercepted(
        settings: Settings,
        service: impl Service,
        interceptors: Vec<MakeIntercept>,
    ) -> Rc<Self> {
        let services: Vec<Box<dyn Service>> = vec![Box::new(service)];
        let reflection = ReflectionService::default();
        let side_doors = SideDoors::default();
        let shared = ServerShared::new(settings, services, reflection, interceptors, side_doors);
        Rc::new(Self { shared: Arc::new(shared), core: Cell::new(None) })
    }

    /// Connects to whoever listens there, and serves them until the connection ends.
    pub(crate) fn serve(self: &Rc<Self>, peer: SocketAddr) -> JoinHandle<()> {
        let server = Rc::clone(self);
        spawn(async move {
            let address: Address = format!("tcp://{peer}").parse().expect("an address");
            let client = Client::new(address).expect("of a peer").attempts_max(1);
            let Ok(connection) = client.open().await else { return };
            server.core.set(Some(ServerCore::of(&server.shared, &connection)));
            let _peer_may_have_failed = serve_with(Arc::clone(&server.shared))(connection).await;
        })
    }

    /// What its connections share, once there was one.
    pub(crate) fn core(&self) -> Option<Rc<ServerCore>> {
        let core = self.core.take();
        self.core.set(core.clone());
        core
    }
}

/// A connection that speaks the native protocol, as it is.
fn native(connection: Rc<dyn CoreConnection>) -> Rc<ServerConnection<Server>> {
    if_native(connection).expect("it speaks the native protocol")
}

/// A connection as it is, if it speaks the native protocol.
fn if_native(connection: Rc<dyn CoreConnection>) -> Option<Rc<ServerConnection<Server>>> {
    connection.into_any().downcast().ok()
}

/// A listener on a free port.
pub(crate) fn listen() -> (Listener, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(&any.into(), ListenOptions::default()).expect("a free port");
    let address = listener.local_addr().as_socket().expect("of TCP");
    (listener, address)
}

/// The next connection; descriptors may run out for a moment.
pub(crate) async fn accept(listener: &Listener) -> Stream {
    loop {
        if let Ok(accepted) = listener.accept().await
            && let Ok(stream) = accepted.into_stream(&Rc::default())
        {
            return stream;
        }
    }
}

/// A number that the environment may give.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(default)
}
