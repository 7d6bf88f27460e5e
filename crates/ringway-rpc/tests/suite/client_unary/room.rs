//! Calls that wait for room: full connections and leases.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ringway_rpc::{Client, Side};
use ringway_runtime::{sleep, spawn};
use ringway_wire::native::{Config, GoAwayCode};

use super::{ECHO, MS, connect, echo, poll_once, run, simulate};
use crate::support::hand_server::{HandConnection, HandServer, Request};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn full_connections_cause_another_connection() {
    run(async {
        // As many streams as a client may open before it has seen the settings.
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
fn spare_connections_are_closed_after_half_a_minute() {
    simulate(|| async {
        let held = Rc::new(RefCell::new(Vec::new()));
        let mut config = Config::default();
        config.settings.max_streams = 128;
        let server = HandServer::start(config, {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request: Request| match &request.message {
                Some(message) if **message == *b"hold" => {
                    held.borrow_mut().push((Rc::clone(connection), request));
                }
                _ => connection.echo(request),
            })
        });
        let client = connect(&server);
        let calls: Vec<_> =
            (0..4 * 128).map(|_| spawn(echo(&client, "hold").no_timeout())).collect();
        server.until(|_| held.borrow().len() == 4 * 128).await;
        assert_eq!(server.open_connections(), 4);

        // Connections stay while there are calls, and for a while after the last.
        sleep(60 * SECOND).await;
        assert_eq!(server.open_connections(), 4);
        for (connection, request) in held.borrow_mut().drain(..) {
            connection.echo(request);
        }
        for call in calls {
            assert_eq!(call.await.expect("no panic")?, "hold");
        }
        sleep(29 * SECOND).await;
        assert_eq!(server.open_connections(), 4);
        sleep(2 * SECOND).await;
        assert_eq!(server.open_connections(), 1);
        assert_eq!(echo(&client, "still there").await?, "still there");
        sleep(120 * SECOND).await;
        assert_eq!((server.open_connections(), server.connections.borrow().len()), (1, 4));
        Ok(())
    });
}

#[test]
fn lease_delays_calls_until_it_grows() {
    run(async {
        let server = HandServer::echo();
        let client = Client::builder().address(&*server.url()).connections_max(1).build()?;
        echo(&client, "connect").await?;
        server.connection(0).lease(0);
        // The first call crosses the lease and is refused; then both wait in the same way.
        for _ in 0..2 {
            let status = echo(&client, "held").timeout(30 * MS).await.expect_err("no permit");
            assert!(status.is_deadline_exceeded() && status.is_not_executed(), "{status:?}");
            let what = format!("no connection to {} had room before the deadline", server.url());
            assert_eq!(status.message(), format!("test.Test/Echo: {what}"));
        }
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
fn calls_that_cross_a_smaller_lease_wait_for_room_under_it() {
    run(async {
        let held = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request| match &request.message {
                Some(message) if **message == *b"hold" => held.borrow_mut().push(request),
                _ => connection.echo(request),
            })
        });
        let client = Client::builder().address(&*server.url()).connections_max(1).build()?;
        let holding = spawn(echo(&client, "hold"));
        server.until(|server| server.requests() == 1).await;
        // More calls than the retry budget, none of them idempotent.
        let mut crossing: Vec<_> =
            (0..50).map(|n| Box::pin(echo(&client, n.to_string()))).collect();
        server.connection(0).lease(1);
        for call in &mut crossing {
            assert!(poll_once(call.as_mut()).await.is_pending(), "sent under the lease before");
        }
        let crossing: Vec<_> = crossing.into_iter().map(spawn).collect();
        let repeated = || {
            let metrics = client.metrics();
            metrics.method(Side::Client, ECHO.name()).map_or(0, |method| method.retries)
        };
        while repeated() < 50 {
            ringway_runtime::yield_now().await;
        }
        assert_eq!(server.requests(), 1, "none of them was executed");
        held.borrow_mut().drain(..).for_each(|request| server.connection(0).echo(request));
        assert_eq!(holding.await.expect("no panic")?, "hold");
        for (n, call) in crossing.into_iter().enumerate() {
            assert_eq!(call.await.expect("no panic")?, n.to_string());
        }
        assert_eq!((server.requests(), server.connections.borrow().len()), (51, 1));
        Ok(())
    });
}

#[test]
fn woken_call_that_is_not_polled_blocks_no_other() {
    for (limit, asleep) in [(None, MS), (Some(20 * MS), 50 * MS)] {
        simulate(move || async move {
            let held = Rc::new(RefCell::new(Vec::new()));
            let server = HandServer::start(Config::default(), {
                let held = Rc::clone(&held);
                Rc::new(move |connection, request| match &request.message {
                    Some(message) if **message == *b"hold" => held.borrow_mut().push(request),
                    _ => connection.echo(request),
                })
            });
            let client = Client::builder().address(&*server.url()).connections_max(1).build()?;
            let holding = spawn(echo(&client, "hold"));
            server.until(|server| server.requests() == 1).await;
            server.connection(0).lease(1);
            sleep(MS).await;
            // Its owner does not poll it any more.
            let mut forgotten = Box::pin(match limit {
                Some(limit) => echo(&client, "forgotten").timeout(limit),
                None => echo(&client, "forgotten").no_timeout(),
            });
            assert!(poll_once(forgotten.as_mut()).await.is_pending());
            let behind = spawn(echo(&client, "behind").timeout(SECOND));
            sleep(asleep).await;
            held.borrow_mut().drain(..).for_each(|request| server.connection(0).echo(request));
            assert_eq!(holding.await.expect("no panic")?, "hold");
            assert_eq!(behind.await.expect("no panic")?, "behind");
            for n in 0..10 {
                assert_eq!(echo(&client, n.to_string()).timeout(SECOND).await?, n.to_string());
            }
            match (limit, forgotten.await) {
                (None, reply) => assert_eq!(reply?, "forgotten"),
                (Some(_), reply) => {
                    let late = reply.expect_err("its deadline has passed");
                    assert!(late.is_deadline_exceeded() && late.is_not_executed(), "{late:?}");
                }
            }
            Ok(())
        });
    }
}

#[test]
fn call_without_room_does_not_get_an_outdated_failure() {
    simulate(|| async {
        let address = "127.0.0.1:7001".parse()?;
        let builder = Client::builder().address(&*format!("tcp://{address}")).connections_max(1);
        let client = builder.build()?;
        echo(&client, "?").await.expect_err("nobody listens");
        let behave = Rc::new(|connection: &Rc<HandConnection>, request| connection.echo(request));
        let server = HandServer::at(address, Config::default(), behave);
        echo(&client, "connect").wait_for_ready(true).await?;
        server.connection(0).lease(0);
        sleep(MS).await;
        let status = echo(&client, "held").timeout(30 * MS).await.expect_err("no permit");
        assert!(status.message().contains("had room before the deadline"), "{status}");
        Ok(())
    });
}

#[test]
fn waiting_calls_use_a_new_connection_when_a_server_leaves() {
    simulate(|| async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| {
                if request.message.as_deref() != Some(b"hold") {
                    connection.echo(request);
                }
            }),
        );
        let client = Client::builder().address(&*server.url()).connections_max(1).build()?;
        let holding = spawn(echo(&client, "hold").no_timeout());
        server.until(|server| server.requests() == 1).await;
        server.connection(0).lease(1);
        sleep(MS).await;
        let waiting = spawn(echo(&client, "waiting").timeout(SECOND));
        sleep(MS).await;
        server.connection(0).go_away(GoAwayCode::NoError, 60 * SECOND);
        assert_eq!(waiting.await.expect("no panic")?, "waiting");
        assert!(!holding.is_finished());
        Ok(())
    });
}
