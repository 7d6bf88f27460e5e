//! The end of a server, its sessions, and callback handlers.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ringway_net::{Connection, ConnectionId, Error, Handler, Peer, View};
use ringway_runtime::sleep;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use crate::support::alone::alone;
use crate::support::server::{
    BACKENDS, LIMIT, connect, echo, end, eventually, is_closed, round_trip, server, socket_addr,
};

#[test]
fn reply_under_way_is_delivered_and_idle_clients_do_not_delay_the_drain() {
    for backend in BACKENDS {
        let (tell, asked) = mpsc::channel();
        let handler = async move |mut conn: Connection| {
            while let Some(view) = conn.recv().await? {
                tell.send(()).expect("a listener");
                conn.draining().await;
                assert!(conn.is_draining());
                conn.send(view);
            }
            Ok(())
        };
        let handle = server(backend).start(handler).expect("the server starts");
        let (idle, mut busy) = (connect(&handle), connect(&handle));
        busy.write_all(b"a question").expect("written");
        asked.recv_timeout(LIMIT).expect("the question has arrived");
        let began = Instant::now();
        end(&handle);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        let mut answer = String::new();
        busy.read_to_string(&mut answer).expect("an end in order");
        assert_eq!(answer, "a question");
        assert!(is_closed(&idle));
        assert_eq!((handle.stats().handler_errors, handle.stats().open), (0, 0));
    }
}

/// Runs in its own process, because it uses up the descriptors.
#[test]
fn queued_connections_are_accepted_when_a_drain_frees_descriptors() {
    alone(|| {
        // Set before the server accepts: an accept under way keeps the limit that it began with.
        let few = Rlimit { current: Some(64), ..getrlimit(Resource::Nofile) };
        setrlimit(Resource::Nofile, few).expect("a lower limit");
        for backend in BACKENDS {
            let (tell, told) = mpsc::channel();
            let handler = async move |mut conn: Connection| {
                let Some(view) = conn.recv().await? else { return Ok(()) };
                if view.first() == Some(&b'0') {
                    tell.send(()).expect("a listener");
                    conn.draining().await;
                }
                conn.send(view);
                Ok(())
            };
            let handle = server(backend).threads(1).start(handler).expect("the server starts");
            let mut early = connect(&handle);
            early.write_all(b"0").expect("written");
            told.recv_timeout(LIMIT).expect("it is served");

            let socket = || Socket::new(Domain::IPV4, Type::STREAM, None);
            let late: Vec<_> = std::iter::from_fn(|| socket().ok()).collect();
            assert!(!late.is_empty());
            let errors = handle.stats().accept_errors;
            let address = socket_addr(&handle.addresses()[0]).into();
            late.iter().for_each(|client| client.connect(&address).expect("the kernel connects"));
            eventually("it cannot accept", || handle.stats().accept_errors > errors);
            handle.shutdown();
            let mut answer = String::new();
            early.read_to_string(&mut answer).expect("an end in order");
            assert_eq!(answer, "0");
            drop(early);
            for (number, client) in late.into_iter().enumerate() {
                let mut client = TcpStream::from(client);
                client.set_read_timeout(Some(LIMIT)).expect("a socket option");
                client.write_all(b"1").expect("written");
                answer.clear();
                client
                    .read_to_string(&mut answer)
                    .unwrap_or_else(|error| panic!("{number}: {error}"));
                assert_eq!(answer, "1");
            }
            handle.wait().expect("an end in order");
        }
    });
}

#[test]
fn receive_while_draining_lasts_until_the_peer_ends() {
    let handler = async |mut conn: Connection| {
        conn.receive_while_draining(true);
        conn.write(b"!");
        while let Some(view) = conn.recv().await? {
            conn.send(view);
        }
        Ok(())
    };
    let handle = server(BACKENDS[0]).start(handler).expect("the server starts");
    let mut client = connect(&handle);
    client.read_exact(&mut [0]).expect("the handler runs");
    handle.shutdown();
    eventually("draining has begun", || handle.is_draining());
    round_trip(&client, b"still served");
    drop(client);
    handle.wait().expect("an end in order");
}

#[test]
fn drain_timeout_aborts_stuck_handlers_and_abort_does_not_wait() {
    for backend in BACKENDS {
        for aborts in [false, true] {
            let deadline = if aborts { LIMIT * 10 } else { Duration::from_millis(100) };
            let server = server(backend).drain_timeout(deadline);
            let handler = async |mut conn: Connection| {
                conn.recv().await?;
                sleep(LIMIT * 10).await;
                Ok(())
            };
            let handle = server.start(handler).expect("the server starts");
            let mut stuck = connect(&handle);
            stuck.write_all(b"x").expect("written");
            eventually("the handler runs", || handle.stats().open == 1);
            let began = Instant::now();
            handle.shutdown();
            if aborts {
                handle.abort();
            }
            handle.wait().expect("an end all the same");
            assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
            assert!(is_closed(&stuck));
        }
    }
}

#[test]
fn dropping_the_last_handle_ends_the_server() {
    let handle = server(BACKENDS[0]).start(echo).expect("the server starts");
    let client = connect(&handle);
    round_trip(&client, b"open");
    drop(handle.clone());
    round_trip(&client, b"still open");
    drop(handle);
    assert!(is_closed(&client));
}

#[test]
fn sessions_are_reached_by_their_ids_from_any_thread() {
    for backend in BACKENDS {
        let (tell, told) = mpsc::channel::<ConnectionId>();
        let handler = async move |conn: Connection| {
            conn.session().insert(String::from("its item"));
            tell.send(conn.id()).expect("a listener");
            echo(conn).await
        };
        let handle = server(backend).start(handler).expect("the server starts");
        let sessions = handle.sessions();
        let mut clients: Vec<_> = (0..8).map(|_| connect(&handle)).collect();
        let mut ids: Vec<_> =
            clients.iter().map(|_| told.recv_timeout(LIMIT).expect("an id")).collect();
        assert_eq!((sessions.count(), sessions.peak()), (8, 8));
        for &id in &ids {
            sessions.send(id, "pushed").expect("on its way");
        }
        for client in &mut clients {
            let mut text = [0; 6];
            client.read_exact(&mut text).expect("pushed");
            assert_eq!(&text, b"pushed");
        }
        let (closed, aborted) = (ids.remove(0), ids.remove(0));
        let item = sessions.with(closed, |peer| peer.session().remove::<String>()).expect("sent");
        assert_eq!(item.wait().expect("no panic"), Some(Some("its item".into())));
        sessions.close(closed).expect("sent");
        sessions.abort(aborted).expect("sent");
        eventually("two have ended", || sessions.count() == 6);
        sessions.send(closed, "too late").expect("no error");
        let gone = sessions.with(closed, |_| ()).expect("sent").wait();
        assert_eq!(gone.expect("no panic"), None);
        assert_eq!(
            clients
                .iter()
                .filter(|client| {
                    client.set_nonblocking(true).expect("a socket option");
                    let open = !is_closed(client);
                    client.set_nonblocking(false).expect("a socket option");
                    open
                })
                .count(),
            6
        );
        let stranger = ConnectionId::from(u64::MAX);
        assert!(sessions.send(stranger, "x").is_err());
        end(&handle);
        assert!(sessions.send(ids[0], "x").expect_err("the server has ended").is_closed());
    }
}

#[test]
fn connection_ids_are_unique_in_the_process() {
    let (tell, told) = mpsc::channel::<ConnectionId>();
    let start = || {
        let tell = tell.clone();
        let handler = async move |conn: Connection| {
            tell.send(conn.id()).expect("a listener");
            echo(conn).await
        };
        server(BACKENDS[0]).threads(1).start(handler).expect("the server starts")
    };
    let mut ids = HashSet::new();
    let mut connect_to = |handle| {
        let client = connect(handle);
        let id = told.recv_timeout(LIMIT).expect("an id");
        assert!(ids.insert(id), "{id} is used again");
        (client, id)
    };
    let (one, other) = (start(), start());
    let ((client, own), (_other_client, foreign)) = (connect_to(&one), connect_to(&other));
    assert!(one.sessions().send(foreign, "for a stranger").is_err(), "it is none of this server's");
    one.sessions().send(own, "pushed").expect("on its way");
    let mut text = [0; 6];
    (&client).read_exact(&mut text).expect("pushed");
    assert_eq!(&text, b"pushed");
    drop(client);
    end(&one);
    let later = start();
    let (_client, _id) = connect_to(&later);
    assert!(later.sessions().send(own, "for a stranger").is_err(), "it was an earlier server's");
    later.abort();
    later.wait().expect("an end");
}

/// Echoes, counts, and writes a last word.
struct Counting {
    bytes: usize,
    tell: mpsc::Sender<(usize, bool)>,
}

impl Handler for Counting {
    fn on_open(&mut self, peer: &Peer) {
        peer.write(b"hello ");
    }

    fn on_message(&mut self, peer: &Peer, view: View) {
        assert_ne!(&*view, b"panic", "as the test asked for");
        self.bytes += view.len();
        let last = view.ends_with(b"close");
        peer.send(view);
        if last {
            peer.close();
        }
    }

    fn on_close(&mut self, peer: &Peer, error: Option<&Error>) {
        peer.write(b" bye");
        self.tell.send((self.bytes, error.is_some())).expect("a listener");
    }
}

#[test]
fn handlers_serve_without_a_task() {
    for backend in BACKENDS {
        let (tell, told) = mpsc::channel();
        let make = move || Counting { bytes: 0, tell: tell.clone() };
        let handle = server(backend).start_with(make).expect("the server starts");

        let (mut asks, mut ends) = (connect(&handle), connect(&handle));
        asks.write_all(b"close").expect("written");
        ends.write_all(b"some").expect("written");
        ends.shutdown(std::net::Shutdown::Write).expect("half-closed");
        for (client, said) in [(&mut asks, "hello close bye"), (&mut ends, "hello some bye")] {
            let mut text = String::new();
            client.read_to_string(&mut text).expect("an end in order");
            assert_eq!(text, said);
        }
        let mut outcomes = [(); 2].map(|()| told.recv_timeout(LIMIT).expect("it has ended"));
        outcomes.sort_unstable();
        assert_eq!(outcomes, [(4, false), (5, false)]);

        let (mut bad, mut good) = (connect(&handle), connect(&handle));
        good.read_exact(&mut [0; 6]).expect("hello");
        bad.read_exact(&mut [0; 6]).expect("hello");
        bad.write_all(b"panic").expect("written");
        assert!(is_closed(&bad));
        round_trip(&good, b"unharmed");
        assert_eq!(handle.stats().handler_panics, 1);

        // A drain closes idle connections in order.
        end(&handle);
        let mut text = String::new();
        good.read_to_string(&mut text).expect("an end in order");
        assert_eq!((&*text, told.recv_timeout(LIMIT)), (" bye", Ok((8, false))));
    }
}
