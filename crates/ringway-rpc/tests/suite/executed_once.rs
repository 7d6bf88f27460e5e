//! Calls that are not idempotent are executed once, and only unexecuted calls are marked so.

use std::cell::Cell;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    Call, Client, Code, Codec, Context, IncomingReply, Kind, Method, Next, NextCall, OutgoingCall,
    Policy, Reply, Server, ServerHandle, Status, service,
};
use ringway_runtime::{block_on, sleep, timeout};
use ringway_wire::native::{Config, GoAwayCode, MetaWriter, Reply as WireReply};

use crate::support::hand_server::{HandConnection, HandServer, Request};

#[service(package = "shop.v1", crate = "ringway_rpc")]
trait Shop {
    async fn ready(&self, request: ()) -> Result<(), Status>;
    /// Has an effect, then calls another service.
    async fn place(&self, request: ()) -> Result<(), Status>;
}

/// Places orders with a warehouse that does not answer.
#[derive(Clone)]
struct Seller {
    placed: Arc<AtomicUsize>,
    warehouse: Client,
}

impl Seller {
    fn new() -> Self {
        Self { placed: Arc::default(), warehouse: client_of_nobody() }
    }

    fn placed(&self) -> usize {
        self.placed.load(Ordering::SeqCst)
    }

    fn serve(&self, set: impl FnOnce(Server) -> Server) -> ServerHandle {
        let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
        set(server.service(ShopServer::new(self.clone()))).start().expect("the server starts")
    }
}

impl Shop for Seller {
    async fn ready(&self, (): ()) -> Result<(), Status> {
        Ok(())
    }

    async fn place(&self, (): ()) -> Result<(), Status> {
        self.placed.fetch_add(1, Ordering::SeqCst);
        ShopClient::new(self.warehouse.clone()).ready(()).await
    }
}

/// Makes a client whose calls fail without having been executed.
fn client_of_nobody() -> Client {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    Client::connect(format!("tcp://{address}").as_str()).expect("an address")
}

/// Makes a client that is connected to both servers.
async fn connected(servers: [&ServerHandle; 2]) -> Result<ShopClient, Status> {
    let [first, second] = servers.map(|server| server.addresses()[0].clone());
    let builder = Client::builder().address(first).address(second).balance(Policy::RoundRobin);
    let client = ShopClient::new(builder.build()?);
    let served = |server: &ServerHandle| server.net().stats().accepted > 0;
    while !servers.into_iter().all(served) {
        client.ready(()).await?;
    }
    Ok(client)
}

#[test]
fn handler_that_returns_the_status_of_its_own_call_was_executed() {
    let seller = Seller::new();
    let servers = [(); 2].map(|()| seller.serve(|server| server));
    run(async move {
        let client = connected([&servers[0], &servers[1]]).await?;
        for calls in 1..=4 {
            let status = client.place(()).await.expect_err("nobody has a warehouse");
            assert!(status.is_unavailable() && !status.is_not_executed(), "{status:?}");
            assert_eq!(seller.placed(), calls, "{status:?}");
        }
        Ok(())
    });
}

#[test]
fn call_that_fails_in_an_interceptor_after_the_handler_was_executed() {
    let seller = Seller::new();
    let audited = |server: Server| {
        server.intercept(async |context: Context, next: Next| -> Result<Reply, Status> {
            let name = context.method().short_name();
            let outcome = next.run(context).await;
            if name == "Place" {
                assert!(outcome.is_err_and(|status| !status.is_not_executed()));
                ShopClient::new(client_of_nobody()).ready(()).await?;
                unreachable!("there is nobody");
            }
            outcome
        })
    };
    let servers = [(); 2].map(|()| seller.serve(audited));
    run(async move {
        let client = connected([&servers[0], &servers[1]]).await?;
        let status = client.place(()).await.expect_err("the audit fails");
        assert!(status.is_unavailable() && !status.is_not_executed(), "{status:?}");
        assert_eq!(seller.placed(), 1);
        Ok(())
    });
}

#[test]
fn client_interceptor_may_return_statuses_of_other_calls() {
    async fn audit(call: OutgoingCall, next: NextCall) -> Result<IncomingReply, Status> {
        let is_before = call.metadata().get("audit") == Some("before");
        let audit = ShopClient::new(client_of_nobody());
        if is_before {
            audit.ready(()).await?;
        }
        let outcome = next.run(call).await;
        audit.ready(()).await?;
        outcome
    }
    let seller = Seller::new();
    let server = seller.serve(|server| server);
    run(async move {
        let builder = Client::builder().address(server.addresses()[0].clone()).intercept(audit);
        let client = ShopClient::new(builder.build()?);
        for (when, executed) in [("before", 0), ("after", 1)] {
            let status = client.place(()).metadata("audit", when).await.expect_err("it fails");
            assert!(status.is_unavailable(), "{status:?}");
            assert_eq!(status.is_not_executed(), executed == 0, "{status:?}");
            assert_eq!(seller.placed(), executed);
        }
        Ok(())
    });
}

static ORDER: Method = Method::new("test.Test/Order", Kind::Unary);
static QUOTE: Method = Method::new("test.Test/Quote", Kind::Unary).idempotent();

fn call(client: &Client, method: &'static Method) -> Call<Bytes> {
    client.unary(method, Codec::raw(), Codec::raw(), Bytes::from_static(b"?"))
}

fn refuse(connection: &HandConnection, request: &Request) {
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).refused();
    let status = Code::Unavailable.number();
    connection.respond(request.stream, WireReply { status, meta: &meta, message: None });
}

/// Makes a server that executes its first `begun` requests without answering, and refuses all
/// others.
fn executes_and_refuses(begun: usize) -> HandServer {
    let seen = Cell::new(0);
    HandServer::start(
        Config::default(),
        Rc::new(move |connection, request| {
            seen.set(seen.get() + 1);
            if seen.get() > begun {
                refuse(connection, &request);
            }
        }),
    )
}

#[test]
fn call_of_a_lost_connection_is_repeated_only_if_idempotent() {
    for (method, executed) in [(&ORDER, 1), (&QUOTE, 1)] {
        run(async move {
            let server = executes_and_refuses(usize::MAX);
            let client = Client::connect(&*server.url())?;
            let order = ringway_runtime::spawn(call(&client, method));
            server.until(|server| server.requests() == 1).await;
            server.kill(); // later calls find no server
            let status = order.await.expect("no panic").expect_err("the server is gone");
            assert!(status.is_unavailable(), "{status:?}");
            assert!(!status.is_not_executed(), "its handler had begun: {status:?}");
            assert_eq!(server.requests(), executed);
            Ok(())
        });
    }
}

#[test]
fn call_with_a_refused_retry_was_executed() {
    run(async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| {
                match request.head.expect("a whole request").attempt {
                    0 => drop(connection.respond(request.stream, FAILS)),
                    _ => refuse(connection, &request),
                }
            }),
        );
        let client = Client::connect(&*server.url())?;
        let status = call(&client, &QUOTE).await.expect_err("every attempt fails");
        assert!(status.is_unavailable() && !status.is_not_executed(), "{status:?}");
        assert!(server.requests() > 1, "it was retried");
        Ok(())
    });
}

const FAILS: WireReply<'static> = WireReply { status: 14, meta: &[], message: None };

#[test]
fn call_with_a_refused_hedge_was_executed() {
    run(async {
        let holds = Rc::new(Cell::new(false));
        // The executed attempt fails first.
        let (slow, other) = (hedged(&holds, 50, fail), hedged(&holds, 200, refuse));
        let builder = Client::builder().address(&*slow.url()).address(&*other.url());
        let client = builder.balance(Policy::RoundRobin).build()?;
        for _ in 0..=CALLS_SEEN {
            call(&client, &QUOTE).hedge().await?;
        }
        holds.set(true);
        let mut executed = 0;
        for _ in 0..6 {
            let before = slow.requests();
            let status = call(&client, &QUOTE).hedge().await.expect_err("both attempts fail");
            if slow.requests() > before {
                executed += 1;
                assert!(!status.is_not_executed(), "{status:?}");
            }
        }
        assert!(executed > 0, "the slow server has seen none of them");
        Ok(())
    });
}

/// Calls after which the latency of a method is known.
const CALLS_SEEN: usize = 100;

/// Makes a server that echoes until `holds` is set, and then runs `then` after `ms` milliseconds.
fn hedged(holds: &Rc<Cell<bool>>, ms: u64, then: fn(&HandConnection, &Request)) -> HandServer {
    let holds = Rc::clone(holds);
    HandServer::start(
        Config::default(),
        Rc::new(move |connection, request| {
            if !holds.get() {
                return connection.echo(request);
            }
            let connection = Rc::clone(connection);
            ringway_runtime::spawn(async move {
                sleep(Duration::from_millis(ms)).await;
                then(&connection, &request);
            });
        }),
    )
}

fn fail(connection: &HandConnection, request: &Request) {
    connection.respond(request.stream, FAILS);
}

#[test]
fn refused_call_is_executed_once_on_another_server() {
    for drains in [true, false] {
        run(async move {
            let executed = Rc::new(Cell::new(0));
            let server = HandServer::start(Config::default(), {
                let (executed, is_first) = (Rc::clone(&executed), Cell::new(true));
                Rc::new(move |connection, request| {
                    if !is_first.replace(false) {
                        executed.set(executed.get() + 1);
                        return connection.echo(request);
                    }
                    match drains {
                        true => connection.go_away(GoAwayCode::NoError, Duration::from_secs(10)),
                        false => connection.lease(1),
                    }
                    refuse(connection, &request);
                })
            });
            let client = Client::connect(&*server.url())?;
            assert_eq!(call(&client, &ORDER).await?, "?");
            assert_eq!((executed.get(), server.requests()), (1, 2));
            Ok(())
        });
    }
}

fn run(test: impl Future<Output = Result<(), Status>> + 'static) {
    let limit = Duration::from_secs(20);
    let outcome = block_on(async move { timeout(limit, test).await });
    outcome.expect("a core").expect("in time").expect("success");
}
