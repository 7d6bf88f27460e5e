//! Ten thousand idle connections, and the memory and time that each costs the process.

use std::cell::Cell;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::{Listener, Stream, StreamLimits};
use ringway_runtime::sync::Notify;
use ringway_runtime::{Backend, CoreHandle, sleep, spawn};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::support::{alone, block_on, echo, exchange, listen, pair};

const CONNECTIONS: usize = 10_000;

/// Process memory that one idle connection may cost, its waiting task included.
const BYTES_MAX: usize = 1_024;

#[test]
fn idle_connections_cost_little_on_uring() {
    alone(|| serve_idle(Backend::Uring));
}

#[test]
fn idle_connections_cost_little_on_epoll() {
    alone(|| serve_idle(Backend::Epoll));
}

fn serve_idle(backend: Backend) {
    raise_descriptor_limit();
    let measured = block_on(backend, async {
        let listener = listen();
        let service = Rc::new(Service::default());
        // One exchange pays for everything that all connections share: buffers, code, the driver's tables.
        live_exchange().await;
        let before = resident_bytes();
        let clients = Clients::start(listener.local_addr().as_socket().expect("inet"));
        service.accept(&listener, CONNECTIONS).await;
        live_exchange().await; // every handler has run, and waits
        let idle = resident_bytes() - before;
        assert_eq!(service.waiting.get(), CONNECTIONS);
        let (turns, busy) = quiet_second().await;
        assert!(turns <= QUIET_TURNS_MAX, "{turns} turns: the core does not rest");
        clients.end();
        service.wait_until_empty().await;
        (idle / CONNECTIONS, busy)
    });
    let (bytes, busy) = measured.expect("no hang");
    let percent = 100.0 * busy.as_secs_f64();
    println!("{backend}: {bytes} bytes for each idle connection, {percent:.3} % of a core for all");
    assert!(bytes <= BYTES_MAX, "{bytes} bytes for each idle connection");
    assert!(busy <= QUIET_CPU_MAX, "{busy:?} of CPU in a second without work");
}

/// An idle core has nothing to do: two turns for the timer that ends this, and a few for chance.
const QUIET_TURNS_MAX: u64 = 10;

/// One hundredth of a core.
const QUIET_CPU_MAX: Duration = Duration::from_millis(10);

/// The turns of the core and the CPU time of the whole process during a second without traffic.
async fn quiet_second() -> (u64, Duration) {
    let turns = || CoreHandle::current().counters().turns;
    let before = (turns(), cpu_time());
    sleep(Duration::from_secs(1)).await;
    (turns() - before.0, cpu_time() - before.1)
}

/// CPU time of this process since its start.
fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

async fn live_exchange() {
    let (client, server) = pair().await;
    drop(spawn(echo(server)));
    for _ in 0..10 {
        exchange(&client, &[7; 16 * 1024]).await;
    }
}

/// State that a server shares between its handlers.
#[derive(Default)]
struct Service {
    limits: Rc<StreamLimits>,
    waiting: Cell<usize>,
    emptied: Notify,
}

impl Service {
    async fn accept(self: &Rc<Self>, listener: &Listener, count: usize) {
        for _ in 0..count {
            let accepted = listener.accept().await.expect("accept");
            let stream = accepted.into_stream(&self.limits).expect("stream");
            drop(spawn(self.clone().handle(stream)));
        }
    }

    /// A handler like that of a server: requests of several pieces, and answers.
    async fn handle(self: Rc<Self>, stream: Stream) {
        self.waiting.set(self.waiting.get() + 1);
        let mut request = Vec::new();
        while let Ok(Some(view)) = stream.recv().await {
            request.extend_from_slice(&view);
            if request.ends_with(b"\n") {
                stream.write(&request);
                request.clear();
                if stream.drained().await.is_err() {
                    break;
                }
            }
        }
        self.waiting.set(self.waiting.get() - 1);
        self.emptied.notify_one();
    }

    async fn wait_until_empty(&self) {
        while self.waiting.get() > 0 {
            self.emptied.notified().await;
        }
    }
}

const IDLE_ADDRESS: &str = "RINGWAY_TEST_IDLE_ADDRESS";

/// The other process, which only holds connections open.
struct Clients(Child);

impl Clients {
    fn start(address: SocketAddr) -> Self {
        let program = std::env::current_exe().expect("a test knows its program");
        let child = alone::start(
            Command::new(program)
                .args(["--exact", "idle::hold_connections", "--nocapture"])
                .env(IDLE_ADDRESS, address.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::null()),
        );
        Self(child.expect("a child starts"))
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("it ends").success());
    }
}

/// The clients' process. In the suite itself it holds nothing.
#[test]
fn hold_connections() {
    let Ok(address) = std::env::var(IDLE_ADDRESS) else {
        return;
    };
    raise_descriptor_limit();
    let address: SocketAddr = address.parse().expect("written by the parent");
    let connect = |_| TcpStream::connect_timeout(&address, CONNECT_TIME_MAX).expect("connect");
    let held: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    let mut nothing = Vec::new();
    std::io::stdin().read_to_end(&mut nothing).expect("until the parent has measured");
    drop(held);
}

const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);

fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
}

/// The resident memory of this process, without pages of the program's file. That file is larger than the
/// measured memory, and the order of its content decides which of its pages are resident.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let kib = |name: &str| -> usize {
        let present = status.lines().find_map(|line| line.strip_prefix(name));
        let present = present.expect("Linux tells it").trim_end_matches("kB").trim();
        present.parse().expect("a number")
    };
    (kib("RssAnon:") + kib("RssShmem:")) * 1_024
}
