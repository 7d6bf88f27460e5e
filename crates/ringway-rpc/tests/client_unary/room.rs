//! Calls that wait for room: full connections and leases.

use std::cell::RefCell;
use std::rc::Rc;

use ringway_rpc::{Client, Status};
use ringway_runtime::spawn;
use ringway_wire::native::Config;

use crate::hand_server::HandServer;
use crate::{MS, connect, echo, run};

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
