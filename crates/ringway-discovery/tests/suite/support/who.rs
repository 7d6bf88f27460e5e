//! A service that says which server has answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringway_rpc::{Console, Server, ServerHandle, Status};

/// A service; its method may be called once only.
#[ringway_rpc::service(crate = "ringway_rpc", package = "test")]
pub(crate) trait Who {
    async fn who(&self) -> Result<String, Status>;
}

/// A server with a name, which counts its calls.
#[derive(Clone)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) calls: Arc<AtomicUsize>,
}

impl Who for Named {
    async fn who(&self) -> Result<String, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        // The call is under way for some turns, as most are.
        ringway_runtime::yield_now().await;
        Ok(self.name.to_owned())
    }
}

impl Named {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, calls: Arc::default() }
    }

    /// A server of it on a free port.
    pub(crate) fn server(&self) -> Server {
        self.server_at("tcp://127.0.0.1:0")
    }

    /// A server of it at a free address.
    pub(crate) fn server_at(&self, address: &str) -> Server {
        let server = Server::bind(address).expect("a free address");
        server.threads(1).service(WhoServer::new(self.clone())).console(Console::local())
    }

    pub(crate) fn start(&self) -> ServerHandle {
        self.server().start().expect("the server starts")
    }
}

/// The address of a server.
pub(crate) fn address(handle: &ServerHandle) -> String {
    handle.addresses()[0].to_string()
}
