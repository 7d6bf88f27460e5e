//! The traits of tokio and hyper over real sockets.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hyper::rt::{Executor, ReadBuf, Timer};
use ringway_net::{HyperTimer, LocalExec};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::support::peer::{LIMIT, read_all, with_peer, write};

#[test]
fn tokio_reads_the_received_bytes_and_then_the_end() {
    let sent: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let expected = sent.clone();
    let (_, received) = with_peer(
        move |socket| write(&socket, sent),
        async |connection| {
            let mut stream = connection.into_io();
            let mut received = vec![0; 7];
            stream.read_exact(&mut received).await.expect("seven bytes");
            assert_eq!(stream.read(&mut []).await.expect("no bytes"), 0);
            stream.read_to_end(&mut received).await.expect("the rest");
            assert_eq!(stream.read(&mut [0; 8]).await.expect("the end stays"), 0);
            received
        },
    );
    assert!(received == expected, "{} bytes of {}", received.len(), expected.len());
}

#[test]
fn tokio_writes_at_most_to_the_high_water_mark() {
    const LENGTH: usize = 24 << 20;
    // Made before the timeouts run: in a debug build this takes as long as the peer would wait.
    let bytes: Vec<u8> = (0..LENGTH).map(|n| (n % 251) as u8).collect();
    let (start_reading, may_read) = mpsc::channel();
    let (received, queued_max) = with_peer(
        move |socket| {
            may_read.recv_timeout(LIMIT).expect("the test says when");
            read_all(&socket)
        },
        async move |connection| {
            let high_water = connection.limits().send_high_water;
            let mut stream = connection.into_io();
            let mut written = 0;
            let mut start_reading = Some(start_reading);
            let mut queued_max = 0;
            while written < LENGTH {
                let write = stream.write(&bytes[written..]);
                match ringway_runtime::timeout(Duration::from_millis(100), write).await {
                    Ok(taken) => written += taken.expect("the peer is there"),
                    // The write waits: now the peer may read, and the rest is accepted.
                    Err(_) => drop(start_reading.take().expect("it waits once").send(())),
                }
                queued_max = queued_max.max(stream.connection().queued_bytes());
            }
            assert!(start_reading.is_none(), "all was accepted at once");
            stream.flush().await.expect("the peer reads");
            assert_eq!(stream.connection().queued_bytes(), 0);
            stream.shutdown().await.expect("the peer reads");
            queued_max - high_water
        },
    );
    assert!(received.len() == LENGTH && received[LENGTH - 1] == ((LENGTH - 1) % 251) as u8);
    assert!(queued_max <= 256 * 1024, "{queued_max} bytes over the mark");
}

#[test]
fn shutdown_closes_one_direction() {
    let (request, (reply, error)) = with_peer(
        |socket| {
            let request = read_all(&socket);
            write(&socket, "reply");
            socket.shutdown(Shutdown::Write).expect("still connected");
            request
        },
        async |connection| {
            let mut stream = connection.into_io();
            stream.write_all(b"request").await.expect("room");
            stream.shutdown().await.expect("connected");
            let error = stream.write(b"more").await.unwrap_err();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.expect("a reply");
            (reply, error)
        },
    );
    assert_eq!((&request[..], &*reply), (&b"request"[..], "reply"));
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn tokio_split_and_buffers_work() {
    let (answers, ()) = with_peer(
        |socket| {
            write(&socket, "a\nb\nc\n");
            socket.shutdown(Shutdown::Write).expect("still connected");
            read_all(&socket)
        },
        async |connection| {
            let (reader, mut writer) = tokio::io::split(connection.into_io());
            let mut lines = BufReader::new(reader).lines();
            while let Some(line) = lines.next_line().await.expect("lines") {
                writer.write_all(format!("{line};").as_bytes()).await.expect("room");
            }
            writer.shutdown().await.expect("connected");
        },
    );
    assert_eq!(answers, b"a;b;c;");
}

#[test]
fn hyper_reads_and_writes() {
    use hyper::rt::{Read, Write};
    let (sent, received) = with_peer(
        |socket| {
            write(&socket, "0123456789");
            socket.shutdown(Shutdown::Write).expect("still connected");
            read_all(&socket)
        },
        async |connection| {
            let mut stream = connection.into_io();
            let mut received = Vec::new();
            loop {
                let mut memory = [0; 4];
                let mut buf = ReadBuf::new(&mut memory);
                let read = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, buf.unfilled()));
                read.await.expect("connected");
                if buf.filled().is_empty() {
                    break;
                }
                received.extend_from_slice(buf.filled());
            }
            let parts = [&b"head "[..], b"", b"body"].map(std::io::IoSlice::new);
            let write = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &parts));
            assert_eq!(write.await.expect("room"), 9);
            poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await.expect("connected");
            poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await.expect("connected");
            received
        },
    );
    assert_eq!((&sent[..], &received[..]), (&b"head body"[..], &b"0123456789"[..]));
}

#[test]
fn reset_is_an_error_of_its_kind() {
    let (_, error) = with_peer(
        |socket| {
            // Closing a socket with unread bytes resets it.
            let mut first = [0];
            std::io::Read::read_exact(&mut &socket, &mut first).expect("a byte");
        },
        async |connection| {
            let mut stream = connection.into_io();
            stream.write_all(b"unread").await.expect("room");
            stream.read(&mut [0; 8]).await.unwrap_err()
        },
    );
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[test]
fn hyper_sleeps_fire_can_be_reset_and_dropped_on_any_thread() {
    ringway_runtime::block_on(async {
        let begun = Instant::now();
        HyperTimer.sleep(Duration::from_millis(20)).await;
        assert!(begun.elapsed() >= Duration::from_millis(20));

        let mut sleep = HyperTimer.sleep(LIMIT);
        assert!(ringway_runtime::timeout(Duration::ZERO, &mut sleep).await.is_err());
        HyperTimer.reset(&mut sleep, HyperTimer.now() + Duration::from_millis(5));
        sleep.await;
        assert!(begun.elapsed() < LIMIT, "moved to an earlier time");

        let mut elsewhere = HyperTimer.sleep_until(HyperTimer.now() + LIMIT);
        assert!(ringway_runtime::timeout(Duration::ZERO, &mut elsewhere).await.is_err());
        let dropped = std::thread::spawn(move || drop(elsewhere));
        dropped.join().expect("dropping needs no core");
    })
    .expect("a runtime starts");
}

#[test]
fn hyper_sleep_polled_on_another_core_panics() {
    let sleep = ringway_runtime::block_on(async {
        let mut sleep = HyperTimer.sleep(LIMIT);
        assert!(ringway_runtime::timeout(Duration::ZERO, &mut sleep).await.is_err());
        Some(sleep)
    });
    let sleep = sleep.expect("a runtime starts").expect("made above");
    let other = std::thread::spawn(|| {
        ringway_runtime::block_on(async { ringway_runtime::spawn(sleep).await })
    });
    let joined = other.join().expect("contained in its task").expect("a runtime starts");
    assert!(joined.unwrap_err().to_string().contains("on another thread than before"));
}

#[test]
fn hyper_tasks_need_not_be_send() {
    let seen = ringway_runtime::block_on(async {
        let seen = Rc::new(ringway_runtime::sync::Notify::new());
        let told = Rc::clone(&seen);
        LocalExec.execute(async move { told.notify_one() });
        ringway_runtime::timeout(LIMIT, seen.notified()).await
    });
    seen.expect("a runtime starts").expect("the task ran");
}
