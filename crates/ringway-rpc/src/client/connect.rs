//! One attempt to connect to an endpoint, and the connection's task.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use ringway_runtime as runtime;

use super::connection::{ClientConnection, ConnectionId, PendingTable};
use super::connection_driver::{ClientEnd, ConnectionListener, drive};
use super::endpoint::PoolEndpoint;
use super::greeting::alpn_mismatch;
use super::server_address::{Protocol, ServerAddress};
use crate::connection::driver::Driver;

/// Opens one connection of an endpoint and serves it until its end.
pub(super) async fn connect(
    id: ConnectionId,
    endpoint: Rc<PoolEndpoint>,
    listener: Rc<dyn ConnectionListener>,
    pending: PendingTable,
) {
    let attempt = ConnectAttempt { endpoint, listener };
    let opened = attempt.endpoint.dial().open().await;
    let ConnectAttempt { endpoint, listener } = &attempt;
    let io = match opened {
        Ok(io) if !endpoint.is_closed() => io,
        Ok(_not_needed_any_more) => return,
        Err(error) => return endpoint.failed(in_own_schemes(endpoint.address(), &error)),
    };
    let (context, address) = (endpoint.context(), endpoint.address());
    if let Some(why) = alpn_mismatch(address, io.alpn_protocol()) {
        return endpoint.failed(why);
    }
    let (limit, clock) = (context.config.connector.connect_timeout, context.clock);
    let connection =
        ClientConnection::new(id, address.clone(), endpoint.id(), Rc::clone(context), pending);
    let (user, told) = (Rc::clone(endpoint), Rc::clone(listener));
    let mut driver = drive(io, Rc::clone(&connection), user, told, clock);
    if address.is_greeting() {
        let unheard = endpoint.unheard();
        let Some(greeted) = greeted(driver, limit, address).await else { return };
        drop(unheard);
        driver = greeted;
    }
    if endpoint.is_closed() {
        connection.close();
    }
    endpoint.connected(connection);
    drop(attempt);
    let ended = (&mut driver).await;
    driver.end_mut().explain(ended);
}

/// The text of a failure to connect, with the schemes of the server's protocol.
fn in_own_schemes(address: &ServerAddress, error: &ringway_net::Error) -> String {
    let text = error.to_string().replace(&address.at.to_string(), &address.to_string());
    match address.protocol {
        Protocol::Grpc => text.replace("tcp://", "grpc://"),
        _ => text,
    }
}

/// Serves a new connection until the server's first bytes; `None` if it has ended before.
///
/// Calls are only sent afterwards: a server that shuts down closes connections which only its kernel has
/// accepted, and calls on those could not be known to be not executed.
async fn greeted(
    mut driver: Driver<ClientEnd>,
    limit: Duration,
    address: &ServerAddress,
) -> Option<Driver<ClientEnd>> {
    let greeting = poll_fn(|cx| match Pin::new(&mut driver).poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if driver.end().has_heard() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    match runtime::timeout(limit, greeting).await {
        Ok(None) => return Some(driver),
        Ok(Some(ended)) => driver.end_mut().explain(ended),
        Err(_) => {
            let why = format!(
                "{address} accepted the connection but sent nothing: it may speak another protocol, or hang"
            );
            driver.end_mut().give_up(why);
        }
    }
    None
}

/// Counts an attempt to connect, and reports its end to the pool when dropped.
struct ConnectAttempt {
    endpoint: Rc<PoolEndpoint>,
    listener: Rc<dyn ConnectionListener>,
}

impl Drop for ConnectAttempt {
    fn drop(&mut self) {
        self.endpoint.connecting(-1);
        self.listener.changed(self.endpoint.id());
    }
}
