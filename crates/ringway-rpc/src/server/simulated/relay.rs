//! Where clients connect to that want to be served in a simulation, and where connections are cut.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::{Listener, Stream};
use ringway_runtime::{JoinHandle, spawn, timeout};

use super::{SimServer, accept, listen};

/// In this time a server has connected that is not reset before.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Passes on what clients and their server say.
pub(in crate::server) struct Relay {
    pub(in crate::server) address: SocketAddr,
    /// Who serves new connections.
    server: RefCell<Option<Rc<SimServer>>>,
    pairs: RefCell<Vec<Rc<Pair>>>,
    /// Connections that were passed on.
    accepted: Cell<usize>,
}

/// A connection, as two: one of the client, one of the server.
struct Pair {
    client: Rc<Stream>,
    server: Rc<Stream>,
    serving: JoinHandle<()>,
}

impl Relay {
    /// Listens, for a server that may be there later.
    pub(in crate::server) fn start(server: Option<Rc<SimServer>>) -> Rc<Self> {
        let (listener, address) = listen();
        let (server, pairs) = (RefCell::new(server), RefCell::default());
        let accepted = Cell::default();
        let relay = Rc::new(Self { address, server, pairs, accepted });
        spawn(Rc::clone(&relay).run(listener));
        relay
    }

    async fn run(self: Rc<Self>, listener: Listener) {
        let (back, back_address) = listen();
        loop {
            let client = accept(&listener).await;
            let server = self.server.borrow().clone();
            let Some(server) = server else {
                client.abort();
                continue;
            };
            let serving = server.serve(back_address);
            let Ok(server) = timeout(CONNECT_TIMEOUT, accept(&back)).await else {
                client.abort();
                continue;
            };
            let (client, server) = (Rc::new(client), Rc::new(server));
            let pair = Rc::new(Pair { client, server, serving });
            spawn(pass_on(Rc::clone(&pair.client), Rc::clone(&pair.server)));
            spawn(pass_on(Rc::clone(&pair.server), Rc::clone(&pair.client)));
            let mut pairs = self.pairs.borrow_mut();
            pairs.retain(|pair| !pair.serving.is_finished());
            pairs.push(pair);
            self.accepted.set(self.accepted.get() + 1);
        }
    }

    /// Connections so far.
    pub(in crate::server) fn accepted(&self) -> usize {
        self.accepted.get()
    }

    /// Has those that connect from now on served by another one, or by nobody.
    pub(in crate::server) fn serve_by(&self, server: Option<Rc<SimServer>>) {
        self.server.replace(server);
    }

    /// Cuts one of the connections, chosen by a number.
    pub(in crate::server) fn cut(&self, which: usize) {
        let mut pairs = self.pairs.borrow_mut();
        if !pairs.is_empty() {
            let which = which % pairs.len();
            pairs.swap_remove(which).cut();
        }
    }

    /// Ends the server as a killed process ends: it says nothing more.
    pub(in crate::server) fn kill(&self) {
        self.serve_by(None);
        for pair in self.pairs.take() {
            pair.cut();
            pair.serving.abort();
        }
    }
}

impl Pair {
    fn cut(&self) {
        self.client.abort();
        self.server.abort();
    }
}

async fn pass_on(from: Rc<Stream>, to: Rc<Stream>) {
    loop {
        match from.recv().await {
            Ok(Some(view)) => {
                let _waits_below = to.send(view);
                if to.drained().await.is_err() {
                    return from.abort();
                }
            }
            Ok(None) => return to.shutdown(),
            Err(_) => return to.abort(),
        }
    }
}
