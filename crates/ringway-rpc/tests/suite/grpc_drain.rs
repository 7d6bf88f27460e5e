//! Servers that end under the constant load of tonic's client: everything they have executed is
//! answered.
//!
//! Tonic's client itself fails calls that are queued for a connection which goes away, and calls
//! for which it cannot connect. Neither has reached a server, so the callers repeat them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ringway_net::Address;
use ringway_rpc::ServerHandle;
use tokio::task::{JoinHandle, LocalSet, spawn_blocking, spawn_local, yield_now};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::grpc_tonic::say;
use crate::support::echo::{Echo, serve, serve_at};
use crate::support::{LIMIT, end, socket_addr};

/// Calls before, between and after the changes of a test.
const CALLS: usize = 2_000;

const CALLERS: usize = 40;

/// Callers that call all the time, each one call after another.
struct Load {
    state: Rc<State>,
    callers: Vec<JoinHandle<Result<(), Status>>>,
}

#[derive(Default)]
struct State {
    done: Cell<usize>,
    stops: Cell<bool>,
}

impl Load {
    fn begin(servers: &[&ServerHandle]) -> Self {
        let endpoints = servers.iter().map(|server| {
            Endpoint::new(format!("http://{}", socket_addr(server))).expect("an address")
        });
        let channel = Channel::balance_list(endpoints);
        let state = Rc::<State>::default();
        let callers = (0..CALLERS).map(|_| {
            let (channel, state) = (channel.clone(), Rc::clone(&state));
            spawn_local(async move {
                let mut grpc = Grpc::new(channel);
                while !state.stops.get() {
                    match say(&mut grpc, "/echo.Echo/Say", b"on").await {
                        Ok(reply) => assert_eq!(reply, "on"),
                        Err(status) if was_not_sent(&status) => continue,
                        Err(status) => return Err(status),
                    }
                    state.done.set(state.done.get() + 1);
                }
                Ok(())
            })
        });
        Self { callers: callers.collect(), state }
    }

    /// Waits until `more` further calls were answered, or one has failed.
    async fn calls(&self, more: usize) {
        let enough = self.state.done.get() + more;
        while self.state.done.get() < enough && !self.callers.iter().any(JoinHandle::is_finished) {
            yield_now().await;
        }
    }

    /// Lets the callers finish; returns how many calls were answered.
    async fn end(self) -> Result<usize, Status> {
        self.state.stops.set(true);
        for caller in self.callers {
            caller.await.expect("no panic")?;
        }
        Ok(self.state.done.get())
    }
}

/// Whether the client failed the call before any of it was sent.
fn was_not_sent(status: &Status) -> bool {
    let known = [
        (Code::Cancelled, "operation was canceled"), // hyper's error for requests that it takes back from its queue
        (Code::Unavailable, "tcp connect error"),
    ];
    known.contains(&(status.code(), status.message()))
}

fn run(test: impl AsyncFnOnce() -> Result<(), Status>) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tasks = LocalSet::new();
    let test = tasks.run_until(async { tokio::time::timeout(LIMIT, test()).await });
    let ended = tokio.expect("a runtime").block_on(test).expect("no hang");
    ended.unwrap_or_else(|status| panic!("a call has failed: {status}"));
}

async fn ended(server: ServerHandle) {
    spawn_blocking(|| end(server)).await.expect("no panic");
}

/// Drains a server and starts another one at its address.
async fn restart(server: ServerHandle, echo: &Echo) -> ServerHandle {
    let address: Address = server.addresses()[0].clone();
    ended(server).await;
    serve_at(address, echo, |server| server)
}

#[test]
fn one_of_two_servers_drains() {
    run(async || {
        let echo = Echo::default();
        let [first, second] = [(); 2].map(|()| serve(&echo, |server| server));
        let load = Load::begin(&[&first, &second]);
        load.calls(CALLS).await;
        ended(first).await;
        load.calls(CALLS).await;
        let done = load.end().await?;
        ended(second).await;
        assert_eq!(echo.seen.begun.load(Ordering::SeqCst), done, "each is executed once");
        Ok(())
    });
}

#[test]
fn servers_are_replaced_one_after_the_other() {
    run(async || {
        let echo = Echo::default();
        let servers = [(); 2].map(|()| serve(&echo, |server| server));
        let load = Load::begin(&[&servers[0], &servers[1]]);
        let mut replaced = Vec::new();
        for server in servers {
            load.calls(CALLS).await;
            replaced.push(restart(server, &echo).await);
            load.calls(CALLS).await;
        }
        let done = load.end().await?;
        for server in replaced {
            ended(server).await;
        }
        assert_eq!(echo.seen.begun.load(Ordering::SeqCst), done, "each is executed once");
        Ok(())
    });
}
