//! Ends of calls before their reply: deadlines, cancellation, loss of the connection.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{CallOptions, Client, Code, Codec, Kind, Method, NextCall, Side};
use ringway_runtime::{sleep, spawn};
use ringway_wire::native::Config;

use super::{MS, connect, echo, poll_once, run, simulate};
use crate::support::hand_server::{HandConnection, HandServer, Request};

#[test]
fn deadline_ends_the_call_and_cancels_it_at_the_server() {
    run(async {
        let silent = |connection: &Rc<HandConnection>, request: Request| match &request.message {
            Some(message) if **message == *b"connect" => connection.echo(request),
            _ => {}
        };
        let server = HandServer::start(Config::default(), Rc::new(silent));
        let client = connect(&server);
        echo(&client, "connect").await?;
        for limit in [30 * MS, 60 * MS, 30 * MS] {
            let begun = Instant::now();
            let status = echo(&client, "?").timeout(limit).await.expect_err("no reply");
            assert!(status.is_deadline_exceeded() && !status.is_not_executed(), "{status:?}");
            assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
            let what = format!("no reply from {} before the deadline", server.url());
            assert_eq!(status.message(), format!("test.Test/Echo: {what}"));
        }
        server.until(|server| server.connection(0).cancelled.borrow().len() == 3).await;
        let codes: Vec<_> =
            server.connection(0).cancelled.borrow().iter().map(|(_, code, _)| *code).collect();
        assert_eq!(codes, [4, 4, 4]);
        Ok(())
    });
}

#[test]
fn deadline_counts_from_the_call_after_a_busy_turn() {
    run(async {
        let server = HandServer::echo();
        let client = connect(&server);
        echo(&client, "connect").await?;
        let computing = Instant::now();
        while computing.elapsed() < 200 * MS {
            std::hint::spin_loop();
        }
        assert_eq!(echo(&client, "short").timeout(150 * MS).await?, "short");
        Ok(())
    });
}

#[test]
fn reply_after_the_deadline_is_dropped_and_its_slot_reused() {
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
        // Before the first poll, and before there is a connection: nothing is sent.
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

        // In flight, and not passed to the socket yet.
        let mut unsent = Box::pin(echo(&client, "hold 2"));
        assert!(poll_once(unsent.as_mut()).await.is_pending());
        drop(unsent);

        // Answered, but not polled since.
        let mut answered = Box::pin(echo(&client, "unseen"));
        assert!(poll_once(answered.as_mut()).await.is_pending());
        assert_eq!(echo(&client, "behind it").await?, "behind it");
        drop(answered);

        // Its slots and numbers are reused.
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
fn lost_connection_fails_its_calls_and_the_next_call_reconnects() {
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
        let what = format!("test.Test/Echo: the connection to {} was lost: ", server.url());
        assert!(died.message().starts_with(&what), "{died}");
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

/// Counts drops.
struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn client_dropped_while_its_calls_wait_leaves_nothing_behind() {
    run(async {
        // This server accepts connections and sends nothing, so calls wait for a connection.
        let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
        let url = format!("tcp://{}", silent.local_addr()?);
        let dropped = Arc::new(AtomicUsize::new(0));
        for kind in 0..4 {
            let held = Arc::new(CountDrop(Arc::clone(&dropped)));
            let builder = Client::builder().address(&*url).connect_timeout(200 * MS);
            let builder = builder.intercept(async move |call, next: NextCall| {
                let _with_the_pool = &held;
                next.run(call).await
            });
            let client = builder.build()?;
            let call = match kind {
                3 => echo(&client, "?").idempotent().hedge(),
                _ => echo(&client, "?"),
            };
            let mut call = Box::pin(call);
            assert!(poll_once(call.as_mut()).await.is_pending());
            match kind {
                0 => drop((call, client)),
                1 => drop((client, call)),
                _ => {
                    drop(client);
                    let status = call.await.expect_err("its client is gone");
                    assert!(status.is_cancelled(), "{status:?}");
                }
            }
            while dropped.load(Ordering::SeqCst) <= kind {
                ringway_runtime::yield_now().await;
            }
        }
        Ok(())
    });
}

#[test]
fn options_set_on_a_begun_call_end_it() {
    run(async {
        let silent = |connection: &Rc<HandConnection>, request: Request| {
            if request.message.as_deref() == Some(b"connect") {
                connection.echo(request);
            }
        };
        let server = HandServer::start(Config::default(), Rc::new(silent));
        for interceptors in [0, 1] {
            for is_hedged in [false, true] {
                let builder = Client::builder().address(&*server.url());
                let client = match interceptors {
                    0 => builder.build()?,
                    _ => builder
                        .intercept(async |call, next: NextCall| next.run(call).await)
                        .build()?,
                };
                echo(&client, "connect").await?;
                let mut call = echo(&client, "?");
                if is_hedged {
                    call = call.hedge();
                }
                let (requests, cancelled) = (server.requests(), cancelled(&server));
                assert!(poll_once(Pin::new(&mut call)).await.is_pending());
                server.until(|server| server.requests() == requests + 1).await;
                let status = call.metadata("Bad Key", "x").await.expect_err("too late");
                assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
                assert!(!status.is_not_executed());
                server.until(|server| self::cancelled(server) == cancelled + 1).await;
            }
        }
        Ok(())
    });
}

fn cancelled(server: &HandServer) -> usize {
    let of = |connection: &Rc<HandConnection>| connection.cancelled.borrow().len();
    server.connections.borrow().iter().map(of).sum()
}

static WATCH: Method = Method::new("test.Test/Watch", Kind::ServerStream);

#[test]
fn calls_that_got_no_connection_are_marked_not_executed() {
    run(async {
        let mut config = Config::default();
        config.settings.max_meta = 100;
        let server =
            HandServer::start(config, Rc::new(|connection, request| connection.echo(request)));
        let client = Client::builder().address(&*server.url()).connections_max(1).build()?;
        echo(&client, "connect").await?;
        let status = echo(&client, "?").metadata("key", "x".repeat(200)).await;
        let status = status.expect_err("too much metadata");
        assert!(status.is_resource_exhausted() && status.is_not_executed(), "{status:?}");

        let bad = echo(&client, "?").metadata("no key", "x").await.expect_err("a bad key");
        assert!(bad.is_invalid_argument() && bad.is_not_executed(), "{bad:?}");
        let wrong = client.with(CallOptions::new().metadata("no key", "x"));
        let bad = [
            echo(&wrong, "?").await.expect_err("a bad key"),
            wrong
                .server_stream(&WATCH, Codec::<Bytes>::raw(), Codec::<Bytes>::raw(), Bytes::new())
                .next()
                .await
                .expect_err("a bad key"),
        ];
        for bad in bad {
            assert!(bad.is_invalid_argument() && bad.is_not_executed(), "{bad:?}");
        }

        server.connection(0).lease(0);
        // Repeats until a call has waited for the lease instead of crossing it.
        while !echo(&client, "?")
            .timeout(30 * MS)
            .await
            .expect_err("no permit")
            .message()
            .contains("had room before the deadline")
        {}
        let mut waits = Box::pin(echo(&client, "?").no_timeout());
        assert!(poll_once(waits.as_mut()).await.is_pending());
        let unborn = echo(&client, "?");
        drop((client, wrong));
        for call in [waits, Box::pin(unborn)] {
            let status = call.await.expect_err("the client is gone");
            assert!(status.code() == Code::Cancelled && status.is_not_executed(), "{status:?}");
        }
        Ok(())
    });
}

#[test]
fn client_stream_has_only_its_own_timeout() {
    static UPLOAD: Method = Method::new("test.Test/Upload", Kind::ClientStream);
    simulate(|| async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| {
                assert_eq!(request.head.map_or(0, |head| head.timeout_us), 0);
                if request.end {
                    connection.answer(request.stream, Bytes::from_static(b"done"));
                }
            }),
        );
        let client = connect(&server);
        let (mut sink, reply) =
            client.client_stream(&UPLOAD, Codec::<Bytes>::raw(), Codec::<Bytes>::raw());
        for part in 0..60 {
            sink.send(Bytes::from(format!("part {part}"))).await?;
            sleep(1_000 * MS).await;
        }
        sink.finish();
        assert_eq!(reply.await?, "done");
        Ok(())
    });
}

#[test]
fn reply_polled_late_has_not_arrived_late() {
    simulate(|| async {
        let server = HandServer::echo();
        let client = connect(&server);
        echo(&client, "the connection is there").await?;
        let mut call = std::pin::pin!(echo(&client, "?"));
        assert!(poll_once(call.as_mut()).await.is_pending());
        sleep(Duration::from_secs(5)).await;
        call.await?;
        let metrics = client.metrics();
        let echo = metrics.method(Side::Client, "test.Test/Echo").expect("it was called");
        let slowest = echo.service.quantile(1.0).expect("calls ended");
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        Ok(())
    });
}
