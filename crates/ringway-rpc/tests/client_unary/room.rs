//! Calls that wait for room: full connections and leases.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ringway_rpc::{Client, Side};
use ringway_runtime::{sleep, spawn};
use ringway_wire::native::Config;

use crate::hand_server::{HandServer, Request};
use crate::{ECHO, MS, connect, echo, poll_once, run, simulate};

const SECOND: Duration = Duration::from_secs(1);

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

        // As long as there are calls, and for a while after the last.
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
fn a_lease_holds_calls_back_until_it_grows() {
    run(async {
        let server = HandServer::echo();
        let client = Client::builder().address(&*server.url()).connections_max(1).build()?;
        echo(&client, "connect").await?;
        server.connection(0).lease(0);
        // The first one crosses the lease and is refused; then they wait alike.
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
        // More than the budget of repetitions, none of them idempotent.
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
