//! A tonic server is restarted while our client calls it: killed, drained, and replaced by another one
//! on the same port.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use bytes::Bytes;
use ringway_rpc::{Client, Codec, Kind, Method, Status};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::grpc_tonic_server::Echo;
use crate::support::LIMIT;
use crate::support::alone::{self, NoForks};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
static SAY_AGAIN: Method = Method::new("echo.Echo/Say", Kind::Unary).idempotent();

const RAW: Codec<Bytes> = Codec::raw();

/// Calls before, between and after the changes of a test.
const CALLS: usize = 500;
const CALLERS: usize = 20;
const RESTARTS: usize = 3;

/// A server that can be drained.
struct Running {
    drain: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// Listens beside others on the same port.
fn listen(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an option of all sockets");
    socket.set_reuseport(true).expect("an option of all sockets");
    socket.bind(address).expect("the port is ours");
    socket.listen(1024).expect("the port is ours")
}

impl Running {
    fn start(listener: TcpListener, echo: &Echo) -> Self {
        let (drain, is_drained) = oneshot::channel();
        let (echo, incoming) = (echo.clone(), TcpIncoming::from(listener));
        let serving = spawn_local(async move {
            let drained = async { is_drained.await.unwrap_or_default() };
            let server = Server::builder();
            let served = server.serve_with_incoming_shutdown(echo, incoming, drained);
            served.await.expect("it serves");
        });
        Self { drain, serving }
    }

    /// Closes the listener, sends GOAWAY and waits until all calls are answered.
    async fn end(self) {
        self.drain.send(()).expect("it runs");
        self.serving.await.expect("no panic");
    }
}

/// Callers that call all the time, each one call after another.
struct Load {
    done: Rc<Cell<usize>>,
    stops: Rc<Cell<bool>>,
    callers: Vec<JoinHandle<Result<(), Status>>>,
}

impl Load {
    fn begin(client: &Client, method: &'static Method, waits: bool) -> Self {
        let (done, stops) = <(Rc<Cell<usize>>, Rc<Cell<bool>>)>::default();
        let callers = (0..CALLERS).map(|_| {
            let (client, done, stops) = (client.clone(), Rc::clone(&done), Rc::clone(&stops));
            spawn_local(async move {
                while !stops.get() {
                    let call = client.unary(method, RAW, RAW, Bytes::from_static(b"on"));
                    assert_eq!(call.wait_for_ready(waits).timeout(LIMIT).await?, "on");
                    done.set(done.get() + 1);
                }
                Ok(())
            })
        });
        let callers = callers.collect();
        Self { done, stops, callers }
    }

    /// Waits until further calls were answered, or one has failed.
    async fn calls(&self) {
        let enough = self.done.get() + CALLS;
        while self.done.get() < enough && !self.callers.iter().any(JoinHandle::is_finished) {
            yield_now().await;
        }
    }

    /// Lets the callers finish; returns how many calls were answered.
    async fn end(self) -> usize {
        self.stops.set(true);
        for caller in self.callers {
            let ended = caller.await.expect("no panic");
            ended.unwrap_or_else(|status| panic!("a call has failed: {status}"));
        }
        self.done.get()
    }
}

fn run(test: impl AsyncFnOnce()) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tasks = LocalSet::new();
    let test = tasks.run_until(async { tokio::time::timeout(LIMIT, test()).await });
    tokio.expect("a runtime").block_on(test).expect("no hang");
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[test]
fn server_replaced_by_another_on_its_port_fails_no_call() {
    run(async || {
        let echo = Echo::default();
        let listener = listen(any_port());
        let address = listener.local_addr().expect("it is bound");
        let client = Client::connect(&*format!("grpc://{address}")).expect("an address");
        let mut running = Running::start(listener, &echo);
        let load = Load::begin(&client, &SAY, false);
        for _ in 0..RESTARTS {
            load.calls().await;
            let next = Running::start(listen(address), &echo);
            std::mem::replace(&mut running, next).end().await;
        }
        load.calls().await;
        let done = load.end().await;
        assert_eq!(echo.said(), done, "each is executed once");
        drop(client);
        running.end().await;
    });
}

#[test]
fn calls_that_wait_for_a_drained_server_are_answered_by_the_next() {
    let _no_forks = NoForks::begin();
    run(async || {
        let echo = Echo::default();
        let listener = listen(any_port());
        let address = listener.local_addr().expect("it is bound");
        let client = Client::connect(&*format!("grpc://{address}")).expect("an address");
        let mut running = Running::start(listener, &echo);
        let load = Load::begin(&client, &SAY, true);
        for _ in 0..RESTARTS {
            load.calls().await;
            running.end().await;
            // Calls that do not wait fail now, and none of them has reached a server.
            let call = client.unary(&SAY, RAW, RAW, Bytes::new());
            let status = call.await.expect_err("nobody listens");
            assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
            running = Running::start(listen(address), &echo);
        }
        load.calls().await;
        let done = load.end().await;
        assert_eq!(echo.said(), done, "each is executed once");
        drop(client);
        running.end().await;
    });
}

/// Tells a process that it is the server, and where.
const SERVE_AT: &str = "RINGWAY_TEST_TONIC_AT";

/// A server in a process of its own, which is killed when this is dropped.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    /// Starts the program of the tests as a server: its test `test` calls [`serve_if_asked`].
    fn start(test: &str, address: SocketAddr) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
        command.args([test, "--exact", "--nocapture"]).env(SERVE_AT, address.to_string());
        let mut child = alone::start(command.stdout(Stdio::piped())).expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut addresses = lines.map_while(Result::ok).filter_map(|line| {
            let (_, address) = line.split_once(SERVES)?;
            address.parse().ok()
        });
        let address = addresses.next().expect("it tells its address");
        Self { child, address }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is ours");
    }
}

const SERVES: &str = "serves at ";

/// Serves until it is killed, if this process is to.
fn serve_if_asked() {
    let Ok(address) = std::env::var(SERVE_AT) else { return };
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    tokio.expect("a runtime").block_on(async {
        let listener = TcpListener::bind(address).await.expect("the port is free");
        println!("{SERVES}{}", listener.local_addr().expect("it is bound"));
        let incoming = TcpIncoming::from(listener);
        Server::builder().serve_with_incoming(Echo::default(), incoming).await.expect("it serves");
    });
}

#[test]
fn calls_go_on_after_a_server_was_killed() {
    serve_if_asked();
    let here = "grpc_restarts::calls_go_on_after_a_server_was_killed";
    run(async || {
        let mut server = Process::start(here, any_port());
        let address = server.address;
        let client = Client::connect(&*format!("grpc://{address}")).expect("an address");
        let load = Load::begin(&client, &SAY_AGAIN, true);
        for _ in 0..RESTARTS {
            load.calls().await;
            drop(server);
            // A call in flight may have been executed, and one that begins now was not.
            let lost = client.unary(&SAY, RAW, RAW, Bytes::new()).await.expect_err("it is dead");
            assert!(lost.is_unavailable(), "{lost:?}");
            server = Process::start(here, address);
            load.calls().await;
        }
        // Calls that do not wait go through as well.
        let call = client.unary(&SAY, RAW, RAW, Bytes::from_static(b"well"));
        assert_eq!(call.await.expect("it is back"), "well");
        load.end().await;
    });
}
