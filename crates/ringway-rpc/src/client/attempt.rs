//! One attempt to connect to a host, and the connection from there to its end.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use ringway_net::Address;
use ringway_runtime as runtime;

use super::driver::{ClientEnd, drive};
use super::link::Link;
use super::local_clients;
use super::pool::Pool;
use super::pool_host::PoolHost;
use crate::connection::driver::Driver;

/// Makes one connection of a host and serves it to its end.
pub(super) async fn connect(pool: Rc<Pool>, host: Rc<PoolHost>) {
    let attempt = Attempt { pool, host };
    let opened = attempt.host.dial().open().await;
    let Attempt { pool, host } = &attempt;
    let connection = match opened {
        Ok(connection) if !host.is_closed() => connection,
        Ok(_not_needed_any_more) => return,
        Err(error) => {
            if host.failed(error.to_string()) {
                pool.unreachable(host);
            }
            return;
        }
    };
    let link = local_clients::with(|local| {
        let now = local.since_origin(runtime::now());
        let config = pool.config.native.clone();
        local
            .insert_link(|key| Link::new(key, Rc::clone(host), Rc::clone(&pool.tally), config, now))
    });
    let driver = drive(connection, Rc::clone(&link), Rc::clone(pool));
    let Some(mut driver) =
        greeted(driver, pool.config.connector.connect_timeout, host.address()).await
    else {
        return;
    };
    if host.is_closed() {
        link.close();
    }
    host.connected(link);
    drop(attempt);
    let ended = (&mut driver).await;
    driver.end_mut().tell(ended);
}

/// Serves a new connection until its server has said something; `None` if it has ended before.
///
/// No call is given to it earlier: a server that shuts down closes connections that only its kernel
/// has accepted, and nobody could tell then that the calls on them were not executed.
async fn greeted(
    mut driver: Driver<ClientEnd>,
    limit: Duration,
    address: &Address,
) -> Option<Driver<ClientEnd>> {
    let greeting = poll_fn(|cx| match Pin::new(&mut driver).poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if driver.end().has_heard() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    match runtime::timeout(limit, greeting).await {
        Ok(None) => return Some(driver),
        Ok(Some(ended)) => driver.end_mut().tell(ended),
        Err(_) => {
            let why = format!("{address} accepts connections, and says nothing");
            driver.end_mut().give_up(why);
        }
    }
    None
}

/// Counts an attempt to connect, and tells the pool when it is over, whatever its end.
struct Attempt {
    pool: Rc<Pool>,
    host: Rc<PoolHost>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.host.connecting(-1);
        self.pool.changed(Some(self.host.id()));
    }
}
