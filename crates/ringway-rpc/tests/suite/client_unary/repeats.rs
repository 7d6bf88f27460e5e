//! Calls that are repeated.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{Client, Code, Codec, Policy, Pushback, Side, Status};
use ringway_runtime::io::{ListenOptions, Listener};
use ringway_runtime::{spawn, yield_now};
use ringway_wire::native::{Config, GoAwayCode, MetaWriter, Reply};

use super::{ECHO, MS, connect, echo, run};
use crate::support::alone::NoForks;
use crate::support::hand_server::{HandConnection, HandServer, Request};

#[test]
fn leaving_server_finishes_its_calls_and_gets_no_more() {
    run(async {
        let held = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request: Request| match &request.message {
                Some(message) if **message == *b"hold" => held.borrow_mut().push(request),
                _ => connection.echo(request),
            })
        });
        let client = connect(&server);
        let begun = spawn(echo(&client, "hold"));
        server.until(|server| server.requests() == 1).await;
        server.connection(0).go_away(GoAwayCode::NoError, Duration::from_secs(10));
        // Calls that cross the GOAWAY are refused and repeated; later ones go elsewhere.
        for n in 0..10 {
            assert_eq!(echo(&client, n.to_string()).await?, n.to_string());
        }
        let connection = server.connection(0);
        held.borrow_mut().drain(..).for_each(|request| connection.echo(request));
        assert_eq!(begun.await.expect("no panic")?, "hold");
        server.until(|server| server.connection(0).closed.get()).await;
        assert_eq!(server.connections.borrow().len(), 2);
        Ok(())
    });
}

#[test]
fn refused_call_is_repeated_if_there_is_another_server() {
    run(async {
        // Ending servers refuse with UNAVAILABLE, servers at a limit with RESOURCE_EXHAUSTED.
        let codes = Cell::new([Code::Unavailable, Code::ResourceExhausted]);
        let refuse = move |connection: &Rc<HandConnection>, request: Request| {
            let [code, next] = codes.get();
            codes.set([next, code]);
            let mut meta = Vec::new();
            MetaWriter::new(&mut meta).refused();
            let reply = Reply { status: code.number(), meta: &meta, message: None };
            connection.respond(request.stream, reply);
        };
        let overloaded = HandServer::start(Config::default(), Rc::new(refuse));
        let client = connect(&overloaded);
        let status = echo(&client, "?").await.expect_err("refused");
        assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
        assert_eq!(overloaded.requests(), 1, "the same connection would refuse it again");

        let idle = HandServer::echo();
        let client = Client::builder().address(&*overloaded.url()).address(&*idle.url());
        let client = client.balance(Policy::RoundRobin).build()?;
        // Repeated as often as the client's budget allows: ten times, and a tenth for each call.
        let mut refused = 0;
        for n in 0..40 {
            match echo(&client, n.to_string()).wait_for_ready(true).await {
                Ok(reply) => assert_eq!(reply, n.to_string()),
                Err(status) => {
                    assert!(status.is_not_executed() && n >= 10, "{n}: {status:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "the budget has an end");
        assert_eq!(idle.requests(), 40 - refused);
        Ok(())
    });
}

/// Makes a server that refuses its first call because of a limit, and a listener that does not
/// accept yet.
fn one_refuses_and_one_comes() -> Result<(HandServer, Listener, Client), Status> {
    let is_first = Cell::new(true);
    let refuse = move |connection: &Rc<HandConnection>, request: Request| {
        if !is_first.replace(false) {
            return connection.echo(request);
        }
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).refused();
        let status = Code::ResourceExhausted.number();
        connection.respond(request.stream, Reply { status, meta: &meta, message: None });
    };
    let overloaded = HandServer::start(Config::default(), Rc::new(refuse));
    let any = SocketAddr::from(([127, 77, 0, 8], 0));
    let listener = Listener::bind(&any.into(), ListenOptions::default())?;
    let other = format!("tcp://{}", listener.local_addr().as_socket().expect("TCP"));
    let client = Client::builder().address(&*overloaded.url()).address(&*other).build()?;
    Ok((overloaded, listener, client))
}

#[test]
fn refused_call_waits_for_a_connecting_server() {
    run(async {
        let (overloaded, listener, client) = one_refuses_and_one_comes()?;
        let calls = [spawn(echo(&client, "1")), spawn(echo(&client, "2"))];
        overloaded.until(|server| server.requests() == 2).await;
        let answers = |connection: &Rc<HandConnection>, request| connection.echo(request);
        let other = HandServer::on(listener, Config::default(), Rc::new(answers));
        for call in calls {
            call.await.expect("no panic")?;
        }
        assert_eq!((overloaded.requests(), other.requests()), (2, 1));
        Ok(())
    });
}

#[test]
fn refused_call_returns_when_the_other_server_does_not_connect() {
    let _no_forks = NoForks::begin();
    run(async {
        let (overloaded, listener, client) = one_refuses_and_one_comes()?;
        let call = spawn(echo(&client, "1"));
        let repeated = || {
            let metrics = client.metrics();
            metrics.method(Side::Client, ECHO.name()).map_or(0, |echo| echo.retries)
        };
        while repeated() == 0 {
            yield_now().await;
        }
        drop(listener);
        assert_eq!(call.await.expect("no panic")?, "1");
        assert_eq!(overloaded.requests(), 2);
        Ok(())
    });
}

#[test]
fn idempotent_calls_are_retried_and_others_are_not() {
    run(async {
        // The request says how often to fail still, and whether a retry is welcome.
        let seen = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let seen = Rc::clone(&seen);
            Rc::new(move |connection, request: Request| {
                let attempt = request.head.expect("a whole request").attempt;
                seen.borrow_mut().push(attempt);
                let message = request.message.clone().unwrap_or_default();
                if attempt >= message[0] - b'0' {
                    return connection.echo(request);
                }
                let mut meta = Vec::new();
                if message.ends_with(b"never") {
                    MetaWriter::new(&mut meta).pushback_ms(-1);
                } else if message.ends_with(b"wait") {
                    MetaWriter::new(&mut meta).pushback_ms(30);
                }
                let reply = Reply { status: 14, meta: &meta, message: None };
                connection.respond(request.stream, reply);
            })
        });
        let client = connect(&server);
        for (request, idempotent, attempts, succeeds) in [
            ("0", false, 1, true),
            ("1", false, 1, false),
            ("1", true, 2, true),
            ("2", true, 3, true),
            ("3", true, 3, false),
            ("1 never", true, 1, false),
            ("1 wait", true, 2, true),
        ] {
            let mut call = echo(&client, request);
            if idempotent {
                call = call.idempotent();
            }
            let begun = Instant::now();
            let outcome = call.await;
            assert_eq!(outcome.is_ok(), succeeds, "{request}: {outcome:?}");
            let expected: Vec<_> = (0..attempts).collect();
            assert_eq!(std::mem::take(&mut *seen.borrow_mut()), expected, "{request}");
            assert!(!request.ends_with("wait") || begun.elapsed() >= 29 * MS);
        }
        // No attempt is made that could not end before the deadline.
        let status = echo(&client, "1 wait").idempotent().timeout(20 * MS).await;
        assert!(status.expect_err("no time for a retry").is_unavailable());
        assert_eq!(*seen.borrow(), [0]);
        Ok(())
    });
}

#[test]
fn call_refused_by_a_limit_may_be_repeated() {
    run(async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| {
                let attempt = request.head.expect("a whole request").attempt;
                let mut meta = Vec::new();
                match &*request.message.clone().unwrap_or_default() {
                    _ if attempt > 0 => return connection.echo(request),
                    b"refused" => _ = MetaWriter::new(&mut meta).refused(),
                    _ => {}
                }
                let reply = Reply { status: 8, meta: &meta, message: None };
                connection.respond(request.stream, reply);
            }),
        );
        let client = connect(&server);
        assert_eq!(echo(&client, "refused").idempotent().await?, "refused");
        let own = echo(&client, "of the handler").idempotent().await.expect_err("not repeated");
        assert!(own.is_resource_exhausted() && !own.is_not_executed(), "{own:?}");
        Ok(())
    });
}

#[test]
fn call_that_would_wait_beyond_its_deadline_is_refused() {
    run(async {
        let attempts = Rc::new(Cell::new(0));
        let server = HandServer::start(Config::default(), {
            let attempts = Rc::clone(&attempts);
            Rc::new(move |connection, request: Request| {
                attempts.set(attempts.get() + 1);
                let mut meta = Vec::new();
                MetaWriter::new(&mut meta).pushback_ms(i64::MAX);
                connection
                    .respond(request.stream, Reply { status: 14, meta: &meta, message: None });
            })
        });
        let client = connect(&server);
        let call = echo(&client, "?").idempotent().no_timeout();
        let status = call.await.expect_err("it fails");
        let wait = Pushback::After(Duration::from_millis(i64::MAX as u64));
        assert_eq!((status.pushback(), attempts.get()), (Some(wait), 1), "the caller is told");
        Ok(())
    });
}

#[test]
fn request_that_cannot_be_encoded_is_never_sent() {
    run(async {
        let server = HandServer::echo();
        let client = connect(&server);
        echo(&client, "the connection is there").await?;
        let fails = Codec {
            encode: |_: Bytes, _| Err(Status::unavailable("no key to seal it with")),
            ..Codec::raw()
        };
        let call = client.unary(&ECHO, fails, Codec::<Bytes>::raw(), Bytes::from_static(b"secret"));
        let status = call.idempotent().await.expect_err("there is nothing to send");
        assert_eq!(status.message(), "test.Test/Echo: no key to seal it with");
        assert!(status.is_not_executed(), "{status:?}");
        assert_eq!(server.requests(), 1, "the first call only");
        Ok(())
    });
}
