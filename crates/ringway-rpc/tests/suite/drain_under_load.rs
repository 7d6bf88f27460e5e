//! Servers that end under constant load: no call fails, and none is executed twice.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use ringway_net::Address;
use ringway_rpc::{CallOptions, Client, Codec, Kind, Method, ServerHandle, Status};
use ringway_runtime::{spawn, spawn_blocking, timeout};

use crate::support::echo::{Echo, serve, serve_at};
use crate::support::load::Load;
use crate::support::{LIMIT, end, wait};

/// Not declared idempotent: it may be repeated only if it was certainly not executed.
static LATE: Method = Method::new("echo.Echo/Late", Kind::Unary);

/// Calls before, between and after the changes of a test.
const CALLS: usize = 2_000;

#[test]
fn one_of_two_servers_drains() {
    let echo = Echo::default();
    let [first, second] = [(); 2].map(|()| serve(&echo, |server| server));
    run({
        let (echo, first, second) = (echo.clone(), first.clone(), second.clone());
        async move {
            let load = Load::begin(&connect(&[&first, &second])?);
            load.calls(CALLS).await;
            first.shutdown();
            load.calls(CALLS).await;
            let done = load.end().await?;
            assert_eq!(echo.seen.begun.load(Ordering::SeqCst), done, "each is executed once");
            Ok(())
        }
    });
    wait(first);
    end(second);
}

#[test]
fn servers_are_replaced_one_after_the_other() {
    let echo = Echo::default();
    let servers = [(); 2].map(|()| serve(&echo, |server| server));
    let servers = run({
        let echo = echo.clone();
        async move {
            let load = Load::begin(&connect(&[&servers[0], &servers[1]])?);
            let mut replaced = Vec::new();
            for server in servers {
                load.calls(CALLS).await;
                replaced.push(restart(server, &echo).await);
                load.calls(CALLS).await;
            }
            let done = load.end().await?;
            assert_eq!(echo.seen.begun.load(Ordering::SeqCst), done, "each is executed once");
            Ok(replaced)
        }
    });
    servers.into_iter().for_each(end);
}

#[test]
fn calls_wait_for_the_restart_of_the_only_server() {
    let echo = Echo::default();
    let server = serve(&echo, |server| server);
    let server = run({
        let echo = echo.clone();
        async move {
            let load = Load::begin(&connect(&[&server])?);
            load.calls(CALLS).await;
            let server = restart(server, &echo).await;
            load.calls(CALLS).await;
            let done = load.end().await?;
            assert_eq!(echo.seen.begun.load(Ordering::SeqCst), done, "each is executed once");
            Ok(server)
        }
    });
    end(server);
}

#[test]
fn calls_running_at_the_start_of_a_drain_are_answered() {
    let echo = Echo::default();
    let [first, second] = [(); 2].map(|()| serve(&echo, |server| server));
    run({
        let (first, second) = (first.clone(), second.clone());
        async move {
            let client = connect(&[&first, &second])?;
            let running: Vec<_> = (0..100)
                .map(|_| {
                    client.unary(&LATE, Codec::<Bytes>::raw(), Codec::<Bytes>::raw(), "100".into())
                })
                .map(spawn)
                .collect();
            while first.stats().in_flight + second.stats().in_flight < 100 {
                ringway_runtime::yield_now().await;
            }
            let load = Load::begin(&client);
            load.calls(CALLS).await;
            first.shutdown();
            for call in running {
                assert_eq!(call.await.expect("no panic")?, "100");
            }
            load.end().await?;
            Ok(())
        }
    });
    wait(first);
    end(second);
}

fn connect(servers: &[&ServerHandle]) -> Result<Client, Status> {
    let options = CallOptions::new().wait_for_ready(true).timeout(LIMIT);
    let mut builder = Client::builder().options(options);
    for server in servers {
        builder = builder.address(server.addresses()[0].clone());
    }
    builder.build()
}

/// Drains a server and starts another one at its address.
async fn restart(server: ServerHandle, echo: &Echo) -> ServerHandle {
    let echo = echo.clone();
    let restarted = spawn_blocking(move || {
        let address: Address = server.addresses()[0].clone();
        end(server);
        serve_at(address, &echo, |server| server)
    });
    restarted.expect("a thread").await.expect("no panic")
}

fn run<T: 'static>(test: impl Future<Output = Result<T, Status>> + 'static) -> T {
    let ended = ringway_runtime::block_on(timeout(LIMIT, test));
    ended.expect("a core").expect("no hang").unwrap_or_else(|status| panic!("{status}"))
}
