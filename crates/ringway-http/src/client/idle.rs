//! Idle connections of a client.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Weak;
use std::time::Instant;

use hyper::client::conn::http1::SendRequest;
use ringway_net::WeakPeer;
use ringway_runtime::now;

use super::Server;
use crate::{Body, limits};

/// The idle connections of a client by server, with the most recently used one last.
#[derive(Default)]
pub(super) struct Pool {
    servers: RefCell<HashMap<Server, Vec<Unused>>>,
}

/// A connection to a server.
pub(super) struct Link {
    /// Takes one request after the other.
    pub(super) sender: SendRequest<Body>,
    /// Knows what the kernel has not taken yet.
    pub(super) peer: WeakPeer,
}

impl Link {
    /// Whether a request would not wait for what is sent before it. A server may answer before it has read all of a
    /// request, and never read the rest.
    fn is_free(&self) -> bool {
        let is_sent = self.peer.upgrade().is_some_and(|peer| peer.queued_bytes() == 0);
        is_sent && !self.sender.is_closed()
    }
}

struct Unused {
    link: Link,
    since: Instant,
}

impl Unused {
    fn is_good(&self, now: Instant) -> bool {
        let is_young = now.saturating_duration_since(self.since) < limits::IDLE_KEPT;
        is_young && !self.link.sender.is_closed()
    }
}

impl Pool {
    /// Takes a connection that its server has not closed, as far as known.
    pub(super) fn take(&self, server: &Server) -> Option<Link> {
        let now = now();
        let mut gone = Vec::new(); // dropped when nothing is borrowed
        let mut servers = self.servers.borrow_mut();
        let unused = servers.get_mut(server)?;
        let taken = loop {
            match unused.pop() {
                Some(one) if one.is_good(now) => break Some(one.link),
                Some(one) => gone.push(one),
                None => break None,
            }
        };
        if unused.is_empty() {
            servers.remove(server);
        }
        drop(servers);
        drop(gone);
        taken
    }

    fn put(&self, server: Server, link: Link) {
        let now = now();
        let mut servers = self.servers.borrow_mut();
        let mut gone: Vec<Unused> = Vec::new();
        if !servers.contains_key(&server) && servers.len() >= limits::IDLE_SERVERS_MAX {
            for unused in servers.values_mut() {
                gone.extend(unused.extract_if(.., |one| !one.is_good(now)));
            }
            servers.retain(|_, unused| !unused.is_empty());
            if servers.len() >= limits::IDLE_SERVERS_MAX {
                return; // the connection is closed instead
            }
        }
        let unused = servers.entry(server).or_default();
        gone.extend(unused.extract_if(.., |one| !one.is_good(now)));
        if unused.len() < limits::IDLE_PER_SERVER_MAX {
            unused.push(Unused { link, since: now });
        }
        drop(servers);
        drop(gone);
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let servers = self.servers.borrow();
        f.debug_map().entries(servers.iter().map(|(server, list)| (server, list.len()))).finish()
    }
}

/// A connection whose reply is being read.
pub(super) struct Idle {
    pool: Rc<Pool>,
    server: Server,
    link: Link,
    /// Is alive while the body of the request goes on, or waits for room in the queue.
    request: Option<Weak<()>>,
}

impl Idle {
    pub(super) fn new(
        pool: Rc<Pool>,
        server: Server,
        link: Link,
        request: Option<Weak<()>>,
    ) -> Self {
        Self { pool, server, link, request }
    }

    /// Returns the connection after its reply was read, unless another request would wait for the end of this one.
    pub(super) fn give_back(self) {
        let Self { pool, server, link, request } = self;
        let goes_on = request.is_some_and(|request| request.strong_count() > 0);
        if !goes_on && link.is_free() {
            pool.put(server, link);
        }
    }
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Idle({})", self.server)
    }
}
