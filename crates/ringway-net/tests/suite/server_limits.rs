//! Timeouts, limits, and handlers that fail.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use ringway_net::{Connection, Error, Result};
use ringway_runtime::sleep;
use socket2::SockRef;

use crate::support::server::{
    BACKENDS, LIMIT, connect, connect_from, connect_with_small_buffer, echo, end,
};
use crate::support::server::{eventually, is_closed, round_trip, server};

#[test]
fn idle_timeout_closes_idle_clients_only() {
    const IDLE: Duration = Duration::from_millis(200);
    for backend in BACKENDS {
        let (tell, told) = mpsc::channel();
        let handler = async move |conn: Connection| {
            let outcome = echo(conn).await;
            tell.send(outcome.as_ref().err().is_some_and(Error::is_timeout)).expect("a listener");
            outcome
        };
        let server = server(backend).idle_timeout(IDLE);
        let handle = server.start(handler).expect("the server starts");
        // The server counts from its accept, which may be before the client continues.
        let began = Instant::now();
        let (idle, busy) = (connect(&handle), connect(&handle));
        while told.try_recv().is_err() {
            round_trip(&busy, b"still here");
        }
        assert!(began.elapsed() >= IDLE, "{:?}", began.elapsed());
        assert!(is_closed(&idle));
        round_trip(&busy, b"still here");
        drop(busy);
        end(&handle);
    }
}

#[test]
fn busy_connection_ends_with_its_lifetime() {
    const LIFETIME: Duration = Duration::from_millis(150);
    for backend in BACKENDS {
        let handle = server(backend).lifetime(LIFETIME).start(echo).expect("the server starts");
        let began = Instant::now();
        let mut client = connect(&handle);
        let mut byte = [0];
        while client.write_all(b"x").is_ok() && client.read(&mut byte).is_ok_and(|count| count == 1)
        {
        }
        assert!(began.elapsed() >= LIFETIME, "{:?}", began.elapsed());
        end(&handle);
        assert_eq!(handle.stats().handler_errors, 1);
    }
}

#[test]
fn connection_may_have_its_own_timeouts() {
    let handler = async |conn: Connection| {
        conn.set_idle_timeout(Some(Duration::from_millis(20)));
        echo(conn).await
    };
    let handle = server(BACKENDS[0]).start(handler).expect("the server starts");
    assert!(is_closed(&connect(&handle)));
    end(&handle);
}

#[test]
fn connections_over_the_maximum_are_closed_at_once_and_counted() {
    for backend in BACKENDS {
        let handle = server(backend).connections_max(2).start(echo).expect("the server starts");
        let held = [connect(&handle), connect(&handle)];
        held.iter().for_each(|client| round_trip(client, b"inside"));
        for _ in 0..3 {
            assert!(is_closed(&connect(&handle)));
        }
        let [first, second] = held;
        drop(first);
        eventually("its slot is free", || handle.stats().open == 1);
        let third = connect(&handle);
        round_trip(&third, b"inside");
        round_trip(&second, b"inside");
        let stats = handle.stats();
        assert_eq!((stats.refused, stats.peak, stats.accepted), (3, 2, 6), "{stats:?}");
        drop((second, third));
        end(&handle);
    }
}

#[test]
fn connections_per_address_are_limited() {
    for backend in BACKENDS {
        let server = server(backend).connections_per_address_max(1);
        let handle = server.start(echo).expect("the server starts");
        let first = connect(&handle);
        round_trip(&first, b"inside");
        assert!(is_closed(&connect(&handle)));
        let other = connect_from([127, 0, 0, 2], &handle);
        round_trip(&other, b"another address");
        drop(first);
        eventually("its slot is free", || handle.stats().open == 1);
        round_trip(connect(&handle), b"inside");
        assert_eq!(handle.stats().refused, 1);
        end(&handle);
    }
}

#[test]
fn peer_that_left_before_the_accept_does_not_bypass_the_limit_per_address() {
    for backend in BACKENDS {
        let (tell, kept) = mpsc::channel();
        let (hold, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        // Blocks the core on request, and keeps its connection for ever.
        let handler = async move |mut conn: Connection| {
            if let Some(_told_to) = conn.recv().await? {
                tell.send(()).expect("a listener");
                let _no_message_ever_comes = wait.lock().expect("no panic").recv();
            }
            sleep(LIMIT * 10).await;
            Ok(())
        };
        let server = server(backend).threads(1).connections_per_address_max(1);
        let handle = server.start(handler).expect("the server starts");
        let mut first = connect(&handle);
        first.write_all(b"x").expect("written");
        kept.recv_timeout(LIMIT).expect("the core is kept");
        for _ in 0..8 {
            let client = connect(&handle);
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("a socket option");
            drop(client); // a reset
        }
        drop(hold);
        // A connection counts as accepted before it counts as refused.
        let counted = || handle.stats().accepted == 9 && handle.stats().refused == 8;
        eventually("all are accepted, and refused but for the first", counted);
        assert_eq!(handle.stats().peak, 1, "{:?}", handle.stats());
        handle.abort();
        handle.wait().expect("an end");
    }
}

#[test]
fn marks_of_a_connection_raise_its_bound_and_stay_above_zero() {
    const LONG: usize = 24 << 20;
    for backend in BACKENDS {
        let handler = async |mut conn: Connection| {
            conn.set_send_marks(0, 0);
            conn.write(b"");
            while let Some(view) = conn.recv().await? {
                if &*view == b"much" {
                    conn.set_send_marks(LONG, LONG / 2);
                    conn.write(&vec![1; LONG]);
                    return Ok(());
                }
                conn.send(view);
            }
            Ok(())
        };
        let handle = server(backend).threads(1).start(handler).expect("the server starts");
        let mut client = connect(&handle);
        round_trip(&client, b"little");
        client.write_all(b"much").expect("written");
        let mut much = Vec::new();
        client.read_to_end(&mut much).expect("an end in order");
        assert_eq!(much.len(), LONG);
        end(&handle);
    }
}

/// More than the kernel takes for a peer with a small buffer, and less than a send queue holds.
const ANSWER: usize = 12 << 20;

/// Sends a long reply to the first bytes, then ends and reports that.
fn answers_at_length(
    tell: &mpsc::Sender<()>,
) -> impl AsyncFn(Connection) -> Result + Clone + Send + 'static {
    let tell = tell.clone();
    async move |mut conn: Connection| {
        if conn.recv().await?.is_some() {
            conn.write(&vec![5; ANSWER]);
            tell.send(()).expect("a listener");
        }
        Ok(())
    }
}

#[test]
fn connection_counts_while_its_descriptor_is_open() {
    for backend in BACKENDS {
        let (tell, done) = mpsc::channel();
        let server = server(backend).connections_max(2);
        let handle = server.start(answers_at_length(&tell)).expect("the server starts");
        let mut held = [connect_with_small_buffer(&handle), connect_with_small_buffer(&handle)];
        for client in &mut held {
            client.write_all(b"?").expect("written");
            done.recv_timeout(LIMIT).expect("its handler is done");
        }
        assert!(is_closed(&connect(&handle)), "both are still being sent to");
        let stats = handle.stats();
        assert_eq!((stats.open, stats.peak, stats.refused), (2, 2, 1), "{stats:?}");
        for mut client in held {
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).expect("an end in order");
            assert_eq!(answer.len(), ANSWER);
        }
        eventually("both have gone", || handle.stats().open == 0);
        end(&handle);
    }
}

#[test]
fn drain_waits_for_queued_bytes_after_the_handlers_end() {
    for backend in BACKENDS {
        let (tell, done) = mpsc::channel();
        let handle = server(backend).start(answers_at_length(&tell)).expect("the server starts");
        let (mut client, idle) = (connect_with_small_buffer(&handle), connect(&handle));
        client.write_all(b"?").expect("written");
        done.recv_timeout(LIMIT).expect("its handler is done");
        handle.shutdown();
        assert!(is_closed(&idle), "the server drains");
        drop(idle);
        eventually("the other is still being sent to", || handle.stats().open == 1);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("an end in order");
        assert_eq!(answer.len(), ANSWER);
        drop(client);
        handle.wait().expect("an end in order");
    }
}

#[test]
fn abort_resets_connections_whose_handler_has_ended() {
    for backend in BACKENDS {
        let (tell, done) = mpsc::channel();
        let server = server(backend).threads(1);
        let handle = server.start(answers_at_length(&tell)).expect("the server starts");
        let (mut client, idle) = (connect_with_small_buffer(&handle), connect(&handle));
        client.write_all(b"?").expect("written");
        done.recv_timeout(LIMIT).expect("its handler is done");
        eventually("both are there", || handle.stats().open == 2);
        handle.abort();
        assert!(is_closed(&idle), "the core aborts");
        // A truncated reply must not look complete. If the end of the core closed the connection,
        // the rest would be sent now that the client reads.
        let error = client.read_to_end(&mut Vec::new()).expect_err("a reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        handle.wait().expect("an end in order");
    }
}

#[test]
fn panic_before_a_handlers_first_await_is_contained() {
    fn serve(conn: Connection) -> impl Future<Output = Result> {
        assert!(conn.limits().idle_timeout.is_some(), "as the test asked for");
        echo(conn)
    }
    let handle = server(BACKENDS[0]).start(serve).expect("the server starts");
    assert!(is_closed(&connect(&handle)));
    eventually("it is counted", || handle.stats().handler_panics == 1);
    end(&handle);
}

#[test]
fn panicking_handler_closes_only_its_own_connection() {
    for backend in BACKENDS {
        let handler = async |mut conn: Connection| {
            while let Some(view) = conn.recv().await? {
                assert_ne!(&*view, b"panic", "as the test asked for");
                conn.send(view);
            }
            Ok(())
        };
        let handle = server(backend).threads(1).start(handler).expect("the server starts");
        let (mut bad, good) = (connect(&handle), connect(&handle));
        round_trip(&bad, b"fine");
        round_trip(&good, b"fine");
        bad.write_all(b"panic").expect("written");
        assert!(is_closed(&bad));
        round_trip(&good, b"still fine");
        drop(good);
        end(&handle);
        assert_eq!(handle.stats().handler_panics, 1);
    }
}

#[test]
fn error_of_a_handler_closes_its_connection_after_the_queued_bytes() {
    let handler = async |mut conn: Connection| -> Result {
        conn.recv().await?;
        conn.write(b"good bye");
        Err(Error::other("no more of this"))
    };
    let handle = server(BACKENDS[0]).start(handler).expect("the server starts");
    let mut client = connect(&handle);
    client.write_all(b"x").expect("written");
    let mut text = String::new();
    client.read_to_string(&mut text).expect("an end in order");
    assert_eq!(text, "good bye");
    end(&handle);
    assert_eq!(handle.stats().handler_errors, 1);
}

#[test]
fn server_survives_garbage_and_every_way_to_close() {
    for backend in BACKENDS {
        let handle = server(backend).start(echo).expect("the server starts");
        for seed in 0..50u32 {
            let mut client = connect(&handle);
            let garbage: Vec<u8> =
                (0..seed * 997).map(|at| (at.wrapping_mul(seed) >> 5) as u8).collect();
            client.write_all(&garbage).expect("written");
            match seed % 3 {
                0 => client.shutdown(Shutdown::Both).expect("shut down"),
                1 => drop(client.shutdown(Shutdown::Write)),
                _ => {}
            }
        }
        round_trip(connect(&handle), b"alive");
        end(&handle);
        assert_eq!(handle.stats().handler_panics, 0);
    }
}

#[test]
fn high_water_mark_stops_reading_from_a_peer_that_does_not_read() {
    const QUEUE: usize = 64 * 1024;
    for backend in BACKENDS {
        let (tell, told) = mpsc::channel();
        let handler = async move |mut conn: Connection| {
            let mut queued_max = 0;
            while let Some(view) = conn.recv().await? {
                conn.send(view);
                queued_max = queued_max.max(conn.queued_bytes());
            }
            tell.send(queued_max).expect("a listener");
            Ok(())
        };
        let server = server(backend).high_water(QUEUE).low_water(QUEUE / 2);
        let handle = server.start(handler).expect("the server starts");
        let mut client = connect(&handle);
        client.set_nonblocking(true).expect("a socket option");
        // The kernel's buffers take some megabytes; a server that reads on would take everything.
        let block = vec![7; 64 * 1024];
        let mut sent = 0;
        let mut stuck = Instant::now();
        while stuck.elapsed() < Duration::from_millis(300) {
            match client.write(&block) {
                Ok(count) => (sent, stuck) = (sent + count, Instant::now()),
                Err(_full) => std::thread::yield_now(),
            }
            assert!(sent < 256 << 20, "the server reads without bound");
        }
        client.set_nonblocking(false).expect("a socket option");
        client.shutdown(Shutdown::Write).expect("half-closed");
        let mut echoed = Vec::new();
        client.read_to_end(&mut echoed).expect("read to the end");
        assert_eq!(echoed.len(), sent);
        let queued_max = told.recv().expect("the handler has ended");
        // One receive may exceed the mark: a bulk buffer.
        assert!(queued_max < QUEUE + 256 * 1024, "{queued_max}");
        end(&handle);
    }
}
