//! What handlers learn of the server and of who calls.

mod support;

use std::collections::HashSet;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use ringway_rpc::{Context, Server, ServerHandle, Sink, Status, service};
use ringway_runtime::{block_on, timeout};
use support::{LIMIT, eventually, wait};

#[service(crate = "ringway_rpc")]
trait Room {
    /// The number of the core, and its thread.
    async fn place(&self, context: Context, _: ()) -> Result<String, Status>;
    /// A stream that has no end of its own.
    async fn stay(&self, context: Context, name: String, said: Sink<String>) -> Result<(), Status>;
    /// Blocks until the server drains.
    #[method(offload)]
    async fn sit(&self, context: Context, _: ()) -> Result<bool, Status>;
}

#[derive(Default)]
struct Hall {
    threads: Mutex<HashSet<String>>,
}

impl Room for Hall {
    async fn place(&self, context: Context, _: ()) -> Result<String, Status> {
        let place = format!("{} {:?}", context.core(), std::thread::current().id());
        self.threads.lock().expect("no panic").insert(place.clone());
        Ok(place)
    }

    async fn stay(
        &self,
        context: Context,
        name: String,
        mut said: Sink<String>,
    ) -> Result<(), Status> {
        said.send(format!("{name} is here, draining: {}", context.is_draining())).await?;
        assert!(context.until_draining(pending::<()>()).await.is_none());
        context.draining().await; // ready at once
        said.send(format!("{name} leaves, draining: {}", context.is_draining())).await
    }

    async fn sit(&self, context: Context, _: ()) -> Result<bool, Status> {
        context.draining().await;
        Ok(context.is_draining())
    }
}

fn server(addresses: &[&str], threads: usize) -> ServerHandle {
    let addresses: Vec<String> = addresses.iter().map(|&address| address.to_owned()).collect();
    let server = Server::bind(addresses).expect("free addresses").threads(threads);
    server.service(RoomServer::new(Hall::default())).start().expect("it starts")
}

/// Runs `test` on a core, for as long as tests may take.
fn run<F: Future<Output = Result<(), Status>> + 'static>(test: F) {
    block_on(timeout(LIMIT, test)).expect("a core").expect("in time").expect("success");
}

#[test]
fn a_stream_without_an_end_is_ended_by_its_handler_when_the_server_drains() {
    let server = server(&["tcp://127.0.0.1:0"], 1);
    let room = RoomClient::connect(server.addresses()).expect("an address");
    let asked = server.clone();
    run(async move {
        let mut said = room.stay("Ann".into());
        let seated = ringway_runtime::spawn(room.sit(()));
        assert_eq!(said.next().await?.as_deref(), Some("Ann is here, draining: false"));
        while asked.metrics().methods.iter().map(|of| of.started).sum::<u64>() < 2 {
            ringway_runtime::yield_now().await; // until the other one is there as well
        }
        asked.shutdown();
        assert_eq!(said.next().await?.as_deref(), Some("Ann leaves, draining: true"));
        assert_eq!(said.next().await?, None);
        assert!(seated.await.expect("no panic")?);
        asked.ended().await.expect("in order");
        Ok(())
    });
    assert_eq!(server.stats().cut_off, 0);
}

#[test]
fn cores_have_numbers_by_which_they_are_reached() {
    let server = server(&["tcp://127.0.0.1:0"], 2);
    let thread = |core: usize| {
        let id = server.cores()[core].spawn(async || std::thread::current().id());
        id.expect("the core runs").wait().expect("no panic")
    };
    let expected: HashSet<String> =
        (0..2).map(|core| format!("{core} {:?}", thread(core))).collect();
    let room = RoomClient::connect(server.addresses()).expect("an address");
    let place = room.place(()).wait().expect("an answer");
    assert!(expected.contains(&place), "{place} is none of {expected:?}");
    server.shutdown();
    wait(server);
}

#[test]
fn a_server_serves_until_a_future_is_ready() {
    let (stop, stopped) = ringway_runtime::sync::oneshot::channel::<()>();
    let bound = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let bound = bound.service(RoomServer::new(Hall::default()));
    let room = RoomClient::connect(bound.addresses().as_slice()).expect("an address");
    run(async move {
        let until = async move { stopped.await.expect("it is told") };
        let served = ringway_runtime::spawn(bound.serve_until(until));
        let options = ringway_rpc::CallOptions::new().wait_for_ready(true).timeout(LIMIT);
        room.with(options).place(()).await?;
        stop.send(()).expect("it is waited for");
        served.await.expect("no panic").expect("in order");
        Ok(())
    });
}

#[test]
fn whoever_drops_what_serves_until_then_ends_the_server() {
    let bound = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let address = bound.addresses();
    run(async move {
        let served = bound.serve_until(pending());
        timeout(Duration::ZERO, served).await.expect_err("it goes on");
        Ok(())
    });
    eventually("its address is free", || Server::bind(address.as_slice()).is_ok());
}
