//! Idle connections of a client.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Instant;

use hyper::client::conn::http1::SendRequest;
use ringway_runtime::now;

use super::Server;
use crate::{Body, limits};

/// The idle connections of a client by server, with the most recently used one last.
#[derive(Default)]
pub(super) struct Pool {
    servers: RefCell<HashMap<Server, Vec<Unused>>>,
}

struct Unused {
    sender: SendRequest<Body>,
    since: Instant,
}

impl Unused {
    fn is_good(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < limits::IDLE_KEPT && !self.sender.is_closed()
    }
}

impl Pool {
    /// Takes a connection that its server has not closed, as far as known.
    pub(super) fn take(&self, server: &Server) -> Option<SendRequest<Body>> {
        let now = now();
        let mut gone = Vec::new(); // dropped when nothing is borrowed
        let mut servers = self.servers.borrow_mut();
        let unused = servers.get_mut(server)?;
        let taken = loop {
            match unused.pop() {
                Some(one) if one.is_good(now) => break Some(one.sender),
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

    fn put(&self, server: Server, sender: SendRequest<Body>) {
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
            unused.push(Unused { sender, since: now });
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
    sender: SendRequest<Body>,
    /// Is alive while the body of the request goes on.
    request: Option<Weak<()>>,
}

impl Idle {
    pub(super) fn new(
        pool: Rc<Pool>,
        server: Server,
        sender: SendRequest<Body>,
        request: Option<Weak<()>>,
    ) -> Self {
        Self { pool, server, sender, request }
    }

    /// Returns the connection after its reply was read, unless another request would wait for the end of this one.
    pub(super) fn give_back(self) {
        let Self { pool, server, sender, request } = self;
        let goes_on = request.is_some_and(|request| request.strong_count() > 0);
        if !goes_on && !sender.is_closed() {
            pool.put(server, sender);
        }
    }
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Idle({})", self.server)
    }
}
