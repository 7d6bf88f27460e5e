//! A client's metrics of calls and streams.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Call, Client, Code, Codec, Kind, Method, MethodSnapshot, Side, Status};
use ringway_runtime::timeout;
use ringway_wire::native::{Config, Reply};

use crate::support::alone::NoForks;
use crate::support::hand_server::{HandServer, Request};

static ECHO: Method = Method::new("test.Test/Echo", Kind::Unary);
static SHAKY: Method = Method::new("test.Test/Shaky", Kind::Unary).idempotent();
static WATCH: Method = Method::new("test.Test/Watch", Kind::ServerStream);

#[test]
fn calls_are_counted_by_method_and_status() {
    run(async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| match request.message.as_deref() {
                Some(b"no") => {
                    connection
                        .respond(request.stream, Reply { status: 5, meta: &[], message: None });
                }
                Some(b"hold") => {}
                _ => connection.echo(request),
            }),
        );
        let client = Client::connect(server.url())?;
        for _ in 0..3 {
            call(&client, &ECHO, "hello").await?;
        }
        call(&client, &ECHO, "no").await.expect_err("NOT_FOUND");
        let short = Duration::from_millis(5);
        call(&client, &ECHO, "hold").timeout(short).await.expect_err("it is held");
        let dropped = timeout(short, call(&client, &ECHO, "hold")).await;
        dropped.expect_err("dropped before it has an answer");
        drop(call(&client, &ECHO, "never begun"));
        let echo = counts(&client, &ECHO);
        assert_eq!((echo.started, echo.ended(), echo.in_flight()), (6, 6, 0));
        let codes = [Code::Ok, Code::NotFound, Code::DeadlineExceeded, Code::Cancelled];
        assert_eq!(codes.map(|code| echo.with_code(code)), [3, 1, 1, 1]);
        assert_eq!((echo.bytes_in, echo.bytes_out), (3 * 5 + 2 + 4 + 4, 3 * 5));
        let slowest = echo.total.quantile(1.0).expect("calls ended");
        assert!(slowest >= short, "{slowest:?}");
        assert!(client.metrics().method(Side::Client, SHAKY.name()).is_none(), "never called");
        Ok(())
    });
}

#[test]
fn call_lost_with_its_connection_is_timed_until_then() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(|_, _held| {}));
        let client = Client::connect(server.url())?;
        let mut lost = std::pin::pin!(call(&client, &ECHO, "hold"));
        let held = Duration::from_millis(20);
        timeout(held, &mut lost).await.expect_err("it is held");
        server.kill();
        lost.await.expect_err("its connection is gone");
        let slowest = counts(&client, &ECHO).total.quantile(1.0).expect("a call ended");
        assert!(slowest >= held / 2, "{slowest:?}");
        Ok(())
    });
}

#[test]
fn retries_and_those_without_budget_are_counted() {
    run(async {
        let fails = Rc::new(Cell::new(true));
        let server = HandServer::start(Config::default(), {
            let fails = Rc::clone(&fails);
            Rc::new(move |connection, request: Request| match fails.get() {
                true => {
                    let reply = Reply { status: 14, meta: &[], message: None };
                    connection.respond(request.stream, reply);
                }
                false => connection.echo(request),
            })
        });
        let client = Client::connect(server.url())?;
        let calls = 8;
        for _ in 0..calls {
            let status = call(&client, &SHAKY, "?").await.expect_err("it fails");
            assert_eq!(status.code(), Code::Unavailable);
        }
        fails.set(false);
        call(&client, &SHAKY, "!").await?;
        let shaky = counts(&client, &SHAKY);
        assert_eq!((shaky.started, shaky.errors()), (calls + 1, calls), "a call counts once");
        assert_eq!(shaky.retries, 10, "what the budget holds at first");
        assert!(shaky.over_budget >= calls - 5, "{shaky:?}");
        assert_eq!(server.requests() as u64, shaky.started + shaky.retries);
        Ok(())
    });
}

#[test]
fn streams_are_counted() {
    run(async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| {
                connection.send(request.stream, &[], b"1");
                if request.message.as_deref() == Some(b"end") {
                    connection.answer(request.stream, Bytes::from_static(b"2"));
                }
            }),
        );
        let client = Client::connect(server.url())?;
        let watch = |request: &'static str| {
            client.server_stream(&WATCH, Codec::raw(), Codec::raw(), Bytes::from(request))
        };
        let mut ended = watch("end");
        while ended.next().await?.is_some() {}
        let mut open = watch("go on");
        assert_eq!(open.next().await?.as_deref(), Some(&b"1"[..]));
        let counts_now = counts(&client, &WATCH);
        assert_eq!((counts_now.started, counts_now.in_flight()), (2, 1));
        drop(open);
        let counts_now = counts(&client, &WATCH);
        assert_eq!(counts_now.in_flight(), 0);
        assert_eq!([Code::Ok, Code::Cancelled].map(|code| counts_now.with_code(code)), [1, 1]);
        assert_eq!(counts_now.bytes_in, 8);
        Ok(())
    });
}

#[test]
fn streams_that_never_open_are_counted() {
    let _no_forks = NoForks::begin();
    run(async {
        let listener = std::net::TcpListener::bind("127.77.0.7:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        // This server accepts connections and sends nothing.
        let silent = Client::connect(&*format!("tcp://{address}"))?;
        let watch = |client: &Client| {
            client.server_stream(&WATCH, Codec::<Bytes>::raw(), Codec::raw(), Bytes::from("12345"))
        };
        let options = ringway_rpc::CallOptions::new().timeout(Duration::from_millis(5));
        let late = watch(&silent.with(options)).next().await.expect_err("it waits in vain");
        assert!(late.is_deadline_exceeded() && late.is_not_executed(), "{late:?}");
        let mut given_up = watch(&silent);
        timeout(Duration::from_millis(5), given_up.next()).await.expect_err("it waits in vain");
        let waiting = counts(&silent, &WATCH);
        assert_eq!((waiting.started, waiting.in_flight()), (2, 1));
        drop(given_up);
        while counts(&silent, &WATCH).in_flight() > 0 {
            ringway_runtime::yield_now().await;
        }
        let ended = counts(&silent, &WATCH);
        assert_eq!(
            [Code::DeadlineExceeded, Code::Cancelled].map(|code| ended.with_code(code)),
            [1, 1]
        );
        assert_eq!((ended.started, ended.bytes_in), (2, 10));

        drop(listener);
        let nowhere = Client::connect(&*format!("tcp://{address}"))?;
        watch(&nowhere).next().await.expect_err("nobody listens");
        let failed = counts(&nowhere, &WATCH);
        assert_eq!((failed.started, failed.with_code(Code::Unavailable)), (1, 1));
        Ok(())
    });
}

fn counts(client: &Client, method: &'static Method) -> MethodSnapshot {
    client.metrics().method(Side::Client, method.name()).expect("it was called").clone()
}

fn call(client: &Client, method: &'static Method, request: &'static str) -> Call<Bytes> {
    client.unary(method, Codec::raw(), Codec::raw(), Bytes::from(request))
}

fn run(test: impl Future<Output = Result<(), Status>> + 'static) {
    let limit = Duration::from_secs(20);
    let outcome = ringway_runtime::block_on(async move { timeout(limit, test).await });
    outcome.expect("a core").expect("in time").expect("success");
}
