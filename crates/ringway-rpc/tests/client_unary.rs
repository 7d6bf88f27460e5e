//! Calls with one request and one reply, against a server by hand.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{Call, CallOptions, Client, Code, Codec, Kind, Metadata, Method, Policy, Status};
use ringway_runtime::{spawn, timeout};
use ringway_wire::native::{Body, Config, GoAwayCode, MetaWriter, Reply};

use hand_server::{HandServer, Request};

#[path = "support/hand_server.rs"]
mod hand_server;

static ECHO: Method = Method::new("test.Test/Echo", Kind::Unary);
static OTHER: Method = Method::new("test.Test/Other", Kind::Unary);

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_request_gets_its_reply() {
    run(async {
        let server = HandServer::echo();
        let client = connect(&server);
        assert_eq!(echo(&client, "hello").await?, "hello");
        for len in [0, 1, 47, 4_096, 4_097, 65_536, 1_000_000] {
            let request = Bytes::from(vec![7; len]);
            assert_eq!(echo(&client, request.clone()).await?, request);
        }
        assert_eq!(server.connections.borrow().len(), 1, "one connection does");
        Ok(())
    });
}

#[test]
fn calls_in_flight_each_get_their_own_reply() {
    run(async {
        let server = HandServer::echo();
        let client = connect(&server);
        let mut callers = Vec::new();
        for caller in 0..400_u32 {
            let client = client.clone();
            callers.push(spawn(async move {
                for turn in 0..50_u32 {
                    let request = format!("{caller}/{turn}");
                    assert_eq!(echo(&client, request.clone()).await?, request);
                }
                Ok::<_, Status>(())
            }));
        }
        for caller in callers {
            caller.await.expect("no panic")?;
        }
        assert_eq!(server.requests(), 400 * 50);
        Ok(())
    });
}

#[test]
fn replies_come_in_any_order() {
    run(async {
        let held = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request: Request| {
                held.borrow_mut().push(request);
                if held.borrow().len() == 5 {
                    for request in held.borrow_mut().drain(..).rev() {
                        connection.echo(request);
                    }
                }
            })
        });
        let client = connect(&server);
        let calls = (0..5).map(|n| spawn(echo(&client, format!("call {n}"))));
        let calls: Vec<_> = calls.collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("no panic")?, format!("call {n}"));
        }
        Ok(())
    });
}

#[test]
fn the_server_sees_method_deadline_and_metadata() {
    run(async {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let seen = Rc::clone(&seen);
            Rc::new(move |connection, request: Request| {
                let head = request.head.expect("a whole request");
                let seen_now = (request.method.clone(), head.timeout_us, request.meta.len());
                seen.borrow_mut().push(seen_now);
                connection.echo(request);
            })
        });
        let client = connect(&server);
        echo(&client, "1").await?;
        echo(&client, "2").no_timeout().await?;
        call(&client, &OTHER, "3").timeout(250 * MS).metadata("tenant", "blue").await?;
        let seen = seen.take();
        let methods: Vec<_> = seen.iter().map(|(method, ..)| method.as_str()).collect();
        assert_eq!(methods, ["test.Test/Echo", "test.Test/Echo", "test.Test/Other"]);
        assert!((9_000_000..=10_000_000).contains(&seen[0].1), "{} µs", seen[0].1);
        assert_eq!((seen[1].1, seen[1].2), (0, 0), "nothing said, nothing sent");
        assert!((200_000..=250_000).contains(&seen[2].1), "{} µs", seen[2].1);
        assert!(seen[2].2 > "tenantblue".len());

        let bad = echo(&client, "4").metadata("no key", "x").await.expect_err("a bad key");
        assert!(bad.is_invalid_argument(), "{bad}");
        Ok(())
    });
}

#[test]
fn a_failure_tells_everything_the_server_said() {
    run(async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| {
                let mut meta = Vec::new();
                let mut writer = MetaWriter::new(&mut meta);
                writer.status_message("no such user").status_details(b"42").entry("shard", b"7");
                let status = if request.message.as_deref() == Some(b"ok") { 0 } else { 5 };
                let message = request.message.map(Body::Shared).filter(|_| status == 0);
                connection.respond(request.stream, Reply { status, meta: &meta, message });
            }),
        );
        let client = connect(&server);
        let status = echo(&client, "?").await.expect_err("NOT_FOUND");
        assert_eq!((status.code(), status.message()), (Code::NotFound, "no such user"));
        assert_eq!(&status.details()[..], b"42");
        assert_eq!(status.metadata().get("shard"), Some("7"));
        let reply = echo(&client, "ok").full().await?;
        assert_eq!((&reply.message[..], reply.trailers.get("shard")), (&b"ok"[..], Some("7")));
        assert_eq!(reply.metadata, Metadata::new());
        Ok(())
    });
}

#[test]
fn a_deadline_ends_the_call_here_and_cancels_it_there() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(|_, _| {}));
        let client = connect(&server);
        for limit in [5 * MS, 20 * MS, 5 * MS] {
            let begun = Instant::now();
            let status = echo(&client, "?").timeout(limit).await.expect_err("no reply");
            let took = begun.elapsed();
            assert!(status.is_deadline_exceeded() && !status.is_not_executed(), "{status:?}");
            // Counted from the turn of the core that began the call.
            assert!(took + MS >= limit && took < limit + 100 * MS, "{took:?}");
        }
        server.until(|server| server.connection(0).cancelled.borrow().len() == 3).await;
        let codes: Vec<_> =
            server.connection(0).cancelled.borrow().iter().map(|(_, code, _)| *code).collect();
        assert_eq!(codes, [4, 4, 4]);
        Ok(())
    });
}

#[test]
fn a_reply_after_the_deadline_is_dropped_and_the_slot_used_again() {
    run(async {
        let late = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let late = Rc::clone(&late);
            Rc::new(move |connection, request: Request| match &request.message {
                Some(message) if **message == *b"late" => late.borrow_mut().push(request.stream),
                _ => {
                    for stream in late.borrow_mut().drain(..) {
                        assert!(!connection.answer(stream, Bytes::from_static(b"late reply")));
                    }
                    connection.echo(request);
                }
            })
        });
        let client = connect(&server);
        for turn in 0..20 {
            let status = echo(&client, "late").timeout(MS).await.expect_err("late");
            assert!(status.is_deadline_exceeded(), "{status}");
            let now = format!("now {turn}");
            assert_eq!(echo(&client, now.clone()).await?, now);
        }
        Ok(())
    });
}

#[test]
fn dropping_a_call_cancels_it_in_every_state() {
    run(async {
        let held = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request: Request| match &request.message {
                Some(message) if message.starts_with(b"hold") => held.borrow_mut().push(request),
                _ => connection.echo(request),
            })
        });
        let client = connect(&server);
        // Before the first poll, and while there is no connection yet: nothing is sent.
        drop(echo(&client, "never polled"));
        let mut early = Box::pin(echo(&client, "no connection"));
        assert!(poll_once(early.as_mut()).await.is_pending());
        drop(early);
        assert_eq!(echo(&client, "first").await?, "first");
        assert_eq!(server.requests(), 1);

        // In flight.
        let mut flying = Box::pin(echo(&client, "hold 1"));
        assert!(poll_once(flying.as_mut()).await.is_pending());
        server.until(|server| server.requests() == 2).await;
        drop(flying);
        server.until(|server| server.connection(0).cancelled.borrow().len() == 1).await;
        assert_eq!(server.connection(0).cancelled.borrow()[0].1, Code::Cancelled.number());

        // In flight and not even given to the socket.
        let mut unsent = Box::pin(echo(&client, "hold 2"));
        assert!(poll_once(unsent.as_mut()).await.is_pending());
        drop(unsent);

        // Answered and not looked at.
        let mut answered = Box::pin(echo(&client, "unseen"));
        assert!(poll_once(answered.as_mut()).await.is_pending());
        assert_eq!(echo(&client, "behind it").await?, "behind it");
        drop(answered);

        // Its slots and numbers serve others.
        for turn in 0..1_000_u32 {
            let mut dropped = Box::pin(echo(&client, "hold"));
            assert!(poll_once(dropped.as_mut()).await.is_pending());
            if turn % 2 == 0 {
                drop(dropped);
                assert_eq!(echo(&client, turn.to_string()).await?, turn.to_string());
            } else {
                assert_eq!(echo(&client, turn.to_string()).await?, turn.to_string());
                drop(dropped);
            }
        }
        Ok(())
    });
}

#[test]
fn a_lost_connection_fails_its_calls_and_the_next_call_connects_again() {
    run(async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| match &request.message {
                Some(message) if **message == *b"die" => connection.kill(),
                Some(message) if **message == *b"wait" => {}
                _ => connection.echo(request),
            }),
        );
        let client = connect(&server);
        let waiting: Vec<_> = (0..10).map(|_| spawn(echo(&client, "wait"))).collect();
        server.until(|server| server.requests() == 10).await;
        let died = echo(&client, "die").await.expect_err("the connection was reset");
        assert!(died.is_unavailable() && !died.is_not_executed(), "{died:?}");
        for call in waiting {
            let status = call.await.expect("no panic").expect_err("the same connection");
            assert!(status.is_unavailable() && !status.is_not_executed(), "{status:?}");
        }
        assert_eq!(echo(&client, "again").await?, "again");
        assert_eq!(server.connections.borrow().len(), 2);
        Ok(())
    });
}

#[test]
fn nobody_there_fails_fast_or_is_waited_for() {
    run(async {
        let address = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.local_addr()?
        };
        let client = Client::connect(format!("tcp://{address}").as_str())?;
        let status = echo(&client, "?").await.expect_err("nobody listens");
        assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
        assert!(status.message().contains("cannot connect"), "{status}");

        let status = echo(&client, "?").wait_for_ready(true).timeout(30 * MS).await;
        let status = status.expect_err("nobody listens");
        assert!(status.is_deadline_exceeded() && status.is_not_executed(), "{status:?}");

        let patient = spawn(echo(&client, "patience").wait_for_ready(true));
        let behave = Rc::new(|connection: &Rc<_>, request| echo_back(connection, request));
        let _server = HandServer::at(address, Config::default(), behave);
        assert_eq!(patient.await.expect("no panic")?, "patience");
        Ok(())
    });
}

#[test]
fn a_server_that_leaves_finishes_its_calls_and_gets_no_more() {
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
        // Calls that cross the GOAWAY are refused, and placed once more; later ones go elsewhere.
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
fn a_refused_call_is_placed_once_more_if_there_is_somewhere_else() {
    run(async {
        let refuse = |connection: &Rc<hand_server::HandConnection>, request: Request| {
            let mut meta = Vec::new();
            MetaWriter::new(&mut meta).refused();
            let reply = Reply { status: Code::Unavailable.number(), meta: &meta, message: None };
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
        // As often as the budget of the client allows: ten times, and a tenth for each call.
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

#[test]
fn idempotent_calls_are_retried_and_others_are_not() {
    run(async {
        // Fails as the request says: how often yet, and whether a retry is welcome.
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
        // No attempt that could not end before the deadline.
        let status = echo(&client, "1 wait").idempotent().timeout(20 * MS).await;
        assert!(status.expect_err("no time for a retry").is_unavailable());
        assert_eq!(*seen.borrow(), [0]);
        Ok(())
    });
}

#[test]
fn another_connection_is_opened_when_all_are_full() {
    run(async {
        // As many as a client may open before it has seen the settings.
        const STREAMS: usize = 128;
        const CALLS: usize = 5 * STREAMS;
        let mut config = Config::default();
        config.settings.max_streams = STREAMS as u32;
        let held = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(config, {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request| {
                held.borrow_mut().push((Rc::clone(connection), request));
            })
        });
        let client = connect(&server);
        let calls: Vec<_> = (0..CALLS).map(|n| spawn(echo(&client, n.to_string()))).collect();
        server.until(|server| server.requests() == 4 * STREAMS).await;
        assert_eq!(server.open_connections(), 4);
        let mut answered = 0;
        while answered < CALLS {
            server.until(|_| !held.borrow().is_empty()).await;
            for (connection, request) in std::mem::take(&mut *held.borrow_mut()) {
                connection.echo(request);
                answered += 1;
            }
        }
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("no panic")?, n.to_string());
        }
        assert_eq!(server.connections.borrow().len(), 4);
        Ok(())
    });
}

#[test]
fn a_lease_holds_calls_back_until_it_grows() {
    run(async {
        let server = HandServer::echo();
        let client = Client::builder().address(&*server.url()).connections_max(1).build()?;
        echo(&client, "connect").await?;
        server.connection(0).lease(0);
        let held = echo(&client, "held").timeout(30 * MS).await;
        // It may have crossed the lease, and been refused or answered; the next one cannot.
        assert!(
            held.as_ref().is_ok() || held.as_ref().is_err_and(Status::is_not_executed),
            "{held:?}"
        );
        let status = echo(&client, "held").timeout(30 * MS).await.expect_err("no permit");
        assert!(status.is_deadline_exceeded() && status.is_not_executed(), "{status:?}");
        let waiting: Vec<_> = (0..5).map(|n| spawn(echo(&client, n.to_string()))).collect();
        ringway_runtime::yield_now().await;
        server.connection(0).lease(2);
        for (n, call) in waiting.into_iter().enumerate() {
            assert_eq!(call.await.expect("no panic")?, n.to_string());
        }
        assert_eq!(server.connections.borrow().len(), 1);
        Ok(())
    });
}

#[test]
fn calls_are_spread_over_all_hosts() {
    run(async {
        let servers: Vec<_> = (0..3).map(|_| HandServer::echo()).collect();
        let mut builder = Client::builder().balance(Policy::RoundRobin);
        for server in &servers {
            builder = builder.address(&*server.url());
        }
        let client = builder.build()?;
        for n in 0..30 {
            echo(&client, n.to_string()).await?;
        }
        for server in &servers {
            assert!(server.requests() >= 5, "{}", server.requests());
        }
        servers[0].kill();
        let mut failed = 0;
        for n in 0..30 {
            failed += usize::from(echo(&client, n.to_string()).await.is_err());
        }
        assert!(failed <= 1, "{failed} calls went to a host that is not there");
        Ok(())
    });
}

#[test]
fn a_slow_host_gets_fewer_calls() {
    run(async {
        let fast = HandServer::echo();
        let slow = HandServer::start(
            Config::default(),
            Rc::new(|connection, request| {
                let connection = Rc::clone(connection);
                spawn(async move {
                    ringway_runtime::sleep(10 * MS).await;
                    connection.echo(request);
                });
            }),
        );
        let client = Client::builder().address(&*fast.url()).address(&*slow.url()).build()?;
        for n in 0..200 {
            assert_eq!(echo(&client, n.to_string()).await?, n.to_string());
        }
        assert!(slow.requests() < 20, "{} of 200 calls", slow.requests());
        Ok(())
    });
}

#[test]
fn dropping_the_last_client_finishes_its_calls_and_closes_its_connections() {
    run(async {
        let held = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request| {
                held.borrow_mut().push((Rc::clone(connection), request));
            })
        });
        let client = connect(&server);
        let clone = client.clone();
        let begun = spawn(echo(&client, "begun"));
        let late = echo(&client, "late");
        server.until(|server| server.requests() == 1).await;
        drop(client);
        drop(clone);
        let status = late.await.expect_err("its client is gone");
        assert!(status.is_cancelled(), "{status}");
        ringway_runtime::yield_now().await;
        assert_eq!(server.open_connections(), 1, "it still carries a call");
        let (connection, request) = held.borrow_mut().pop().expect("one call");
        connection.echo(request);
        assert_eq!(begun.await.expect("no panic")?, "begun");
        server.until(|server| server.open_connections() == 0).await;
        Ok(())
    });
}

#[test]
fn options_of_a_client_hold_for_its_calls() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(|_, _| {}));
        let client = connect(&server).with(CallOptions::new().timeout(5 * MS));
        let status = echo(&client, "?").await.expect_err("no reply");
        assert!(status.is_deadline_exceeded(), "{status}");
        let bad = connect(&server).with(CallOptions::new().metadata("Bad Key", "x"));
        assert!(echo(&bad, "?").await.expect_err("a bad key").is_invalid_argument());
        Ok(())
    });
}

#[test]
fn a_client_needs_addresses_that_are_some() {
    for (client, why) in [
        (Client::connect("127.0.0.1:1"), "tcp://"),
        (Client::connect("udp://127.0.0.1:1"), "datagrams"),
        (Client::builder().build(), "needs the address"),
        (Client::builder().weighted_address("tcp://127.0.0.1:1", 0).build(), "is 0, not 1 to 100"),
        (Client::builder().weighted_address("tcp://127.0.0.1:1", 101).build(), "is 101, not 1"),
        (Client::builder().weighted_address("127.0.0.1:1", 1).build(), "tcp://"),
    ] {
        let status = client.expect_err(why);
        assert!(status.is_invalid_argument() && status.message().contains(why), "{status}");
    }
}

fn connect(server: &HandServer) -> Client {
    Client::connect(&*server.url()).expect("an address")
}

fn echo(client: &Client, request: impl Into<Bytes>) -> Call<Bytes> {
    call(client, &ECHO, request)
}

fn call(client: &Client, method: &'static Method, request: impl Into<Bytes>) -> Call<Bytes> {
    client.unary(method, Codec::raw(), Codec::raw(), request.into())
}

fn echo_back(connection: &Rc<hand_server::HandConnection>, request: Request) {
    connection.echo(request);
}

async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    poll_fn(|cx| Poll::Ready(future.take().expect("polled once").poll(cx))).await
}

/// Runs a test on one core, and ends it if it hangs.
fn run(test: impl Future<Output = Result<(), Box<dyn std::error::Error>>> + 'static) {
    let ended = ringway_runtime::block_on(timeout(Duration::from_secs(20), test));
    ended.expect("a core").expect("no hang").unwrap_or_else(|error| panic!("{error}"));
}
