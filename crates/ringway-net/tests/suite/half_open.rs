//! Peers that vanish without closing: only timeouts and keepalive probes find them.

use std::sync::mpsc;
use std::time::Duration;

use ringway_net::{Client, Connection, Result};

use crate::support::server::{BACKENDS, connect, end, is_closed, round_trip, server};

/// Keepalive on or off, idle time, interval and number of probes.
type Keepalive = (bool, Duration, Duration, u32);

fn keepalive_of(conn: &Connection) -> Result<Keepalive> {
    let mut set = None;
    conn.with_socket(|socket| {
        let time = socket.tcp_keepalive_time()?;
        let retries = socket.tcp_keepalive_retries()?;
        set = Some((socket.keepalive()?, time, socket.tcp_keepalive_interval()?, retries));
        Ok(())
    })?;
    Ok(set.expect("the socket was asked"))
}

/// Returns the options of a connection's socket of a server with `keepalive(quiet)`.
fn keepalive_of_a_server(backend: ringway_net::Backend, quiet: Option<Duration>) -> Keepalive {
    let (tell, told) = mpsc::channel();
    let handler = async move |mut conn: Connection| {
        tell.send(keepalive_of(&conn)?).expect("a listener");
        while let Some(view) = conn.recv().await? {
            conn.send(view);
        }
        Ok(())
    };
    let mut server = server(backend);
    if let Some(quiet) = quiet {
        server = server.keepalive(quiet);
    }
    let handle = server.start(handler).expect("the server starts");
    round_trip(connect(&handle), b"served");
    let set = told.recv().expect("the handler tells");
    end(&handle);
    set
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn accepted_connections_have_the_servers_keepalive() {
    for backend in BACKENDS {
        let set = |quiet| keepalive_of_a_server(backend, Some(quiet));
        assert_eq!(set(secs(60)), (true, secs(60), secs(12), 5));
        assert_eq!(set(Duration::from_millis(1)), (true, secs(1), secs(1), 5), "the least");
        assert_eq!(set(Duration::MAX), (true, secs(32_767), secs(6_553), 5), "the most");
        assert!(!keepalive_of_a_server(backend, None).0, "off if not set");
    }
}

#[test]
fn client_connections_have_the_configured_keepalive() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    let set = ringway_runtime::block_on(async move {
        let client = Client::new(&*address)?;
        let silent = keepalive_of(&client.open().await?)?;
        let asking = keepalive_of(&client.keepalive(secs(20)).open().await?)?;
        Ok::<_, ringway_net::Error>((silent, asking))
    });
    let (silent, asking) = set.expect("a runtime").expect("connected");
    assert!(!silent.0);
    assert_eq!(asking, (true, secs(20), secs(4), 5));
}

/// A peer that vanished during a reply acknowledges nothing; for our send queue, a peer that does
/// not read looks the same.
#[test]
fn write_stall_timeout_ends_the_connection() {
    const STALL: Duration = Duration::from_millis(100);
    for backend in BACKENDS {
        let (tell, told) = mpsc::channel();
        let handler = async move |conn: Connection| {
            let block = bytes::Bytes::from(vec![3; 1 << 20]);
            let outcome = loop {
                if let Err(error) = conn.send(block.clone()).await {
                    break Err(error);
                }
            };
            let is_timeout = outcome.as_ref().err().is_some_and(ringway_net::Error::is_timeout);
            tell.send(is_timeout).expect("a listener");
            outcome
        };
        let server = server(backend).write_stall_timeout(Some(STALL));
        let handle = server.start(handler).expect("the server starts");
        let silent = connect(&handle);
        assert!(told.recv().expect("the handler ends"), "it ended for another reason");
        let mut rest = Vec::new();
        let read = std::io::Read::read_to_end(&mut &silent, &mut rest);
        assert!(read.is_err() || is_closed(&silent), "the connection is still open");
        end(&handle);
    }
}
