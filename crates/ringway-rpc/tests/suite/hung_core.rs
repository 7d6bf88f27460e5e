//! A core that hangs: the server says so, and new connections go to the cores that live.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ringway_net::Backend;
use ringway_rpc::{Context, Server, ServerHandle, ServingStatus, Status, service};

use crate::support::caller::Caller;
use crate::support::web_caller::{ask, head};
use crate::support::{end, eventually, socket_addr};

#[service(package = "test.v1", crate = "ringway_rpc")]
trait Deadlock {
    /// Blocks its core until the test lets it go on.
    async fn block(&self, context: Context, nothing: ()) -> Result<(), Status>;
    async fn core(&self, context: Context, nothing: ()) -> Result<u32, Status>;
}

struct Gate {
    blocks: mpsc::Sender<usize>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Deadlock for Arc<Gate> {
    async fn block(&self, context: Context, (): ()) -> Result<(), Status> {
        let _the_test_waits = self.blocks.send(context.core());
        let _the_test_is_over = self.go_on.lock().expect("one at a time").recv();
        Ok(())
    }

    async fn core(&self, context: Context, (): ()) -> Result<u32, Status> {
        Ok(context.core() as u32)
    }
}

fn protobuf(open: &mut ringway_wire::native::Open<'_>) {
    open.codec = 1;
}

/// The core that serves a new connection.
fn core_of_a_new_client(handle: &ServerHandle) -> usize {
    let mut caller = Caller::connect(socket_addr(handle));
    let call = caller.open_with("test.v1.Deadlock/Core", Some(b""), true, protobuf);
    let core: u32 = prost::Message::decode(caller.answer(call).ok()).expect("a number");
    core as usize
}

#[test]
fn the_server_is_not_ready_and_new_clients_are_served_while_a_core_hangs() {
    [Backend::Uring, Backend::Epoll].into_iter().for_each(hang_and_go_on);
}

fn hang_and_go_on(backend: Backend) {
    let ((blocks, is_blocked), (go_on, gate)) = (mpsc::channel(), mpsc::channel());
    let gate = Arc::new(Gate { blocks, go_on: Mutex::new(gate) });
    let server =
        Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(2).backend(backend);
    // A core hangs after 50 times as long.
    let server = server.net(|net| net.stall_threshold(Duration::from_millis(20)));
    let handle = server.service(DeadlockServer::new(gate)).start().expect("it starts");
    let health = handle.health().clone();
    let serves = || health.of("") == Some(ServingStatus::Serving);
    assert!(serves());
    let mut blocking = Caller::connect(socket_addr(&handle));
    let call = blocking.open_with("test.v1.Deadlock/Block", Some(b""), true, protobuf);
    let hung = is_blocked.recv().expect("it runs");
    eventually("health says so", || !serves());
    for _ in 0..20 {
        assert_ne!(core_of_a_new_client(&handle), hung);
    }
    let ready = ask(&handle, head("GET", "/readyz", ""));
    assert_eq!(ready.status, 503, "{ready:?}");
    drop(go_on);
    blocking.answer(call).ok();
    eventually("health says so", serves);
    eventually("the core takes connections again", || core_of_a_new_client(&handle) == hung);
    assert_eq!(ask(&handle, head("GET", "/readyz", "")).status, 200);
    end(handle);
}
