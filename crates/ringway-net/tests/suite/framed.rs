//! Frames over real sockets.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use ringway_net::{Backend, Connection, Error, Framed, Server, ServerHandle};
use ringway_wire::{LengthField, Line};

use crate::support::bare_client::{client, shake_hands};
use crate::support::patient::patient_server;
use crate::support::peer::{read_all, read_lines, with_peer, write};
use crate::support::server::{connect, end, eventually, server};
use crate::support::trust::Trust;

const LINE: Line = Line::new(1024);

#[test]
fn frames_cut_anywhere_arrive_whole() {
    let (_, lines) = with_peer(
        |socket| b"one\ntwo\r\n\nfour\n".iter().for_each(|byte| write(&socket, [*byte])),
        async |connection| {
            let mut framed = Framed::new(connection, LINE);
            let mut lines = Vec::new();
            let each = framed.for_each_frame(|line, _| {
                lines.push(line.to_vec());
                Ok(())
            });
            each.await.expect("whole lines");
            lines
        },
    );
    assert_eq!(lines, [&b"one"[..], b"two", b"", b"four"]);
}

#[test]
fn replies_are_queued_in_order_while_frames_are_handled() {
    const COUNT: usize = 5_000;
    let (answers, queued) = with_peer(
        |socket| {
            write(&socket, (0..COUNT).map(|n| format!("{n}\n")).collect::<String>());
            read_lines(&socket, COUNT)
        },
        async |connection| {
            let mut framed = Framed::new(connection, LINE);
            let mut frames = 0;
            let mut queued = 0;
            while frames < COUNT {
                let received = framed.recv_frames(|line, out| {
                    out.send(&[b"re: ", line].concat())?;
                    out.connection();
                    queued = queued.max(out.connection().queued_bytes());
                    Ok(())
                });
                frames += received.await.expect("whole lines").expect("no end yet");
            }
            framed.connection().flushed().await.expect("the peer reads");
            queued
        },
    );
    let expected: Vec<_> = (0..COUNT).map(|n| format!("re: {n}")).collect();
    assert_eq!(answers, expected);
    assert!(queued > 0, "replies are queued at once, not after the last frame");
}

#[test]
fn end_of_stream_within_a_frame_is_an_error() {
    for (sent, is_whole) in [("a\nb\n", true), ("a\nb", false)] {
        let (_, (first, last)) = with_peer(
            move |socket| {
                write(&socket, sent);
                socket.shutdown(Shutdown::Write).expect("still connected");
                read_all(&socket);
            },
            async |connection| {
                let mut framed = Framed::new(connection, LINE);
                let first = framed.next_owned().await.expect("a whole line");
                let last = framed.for_each_frame(|_, _| Ok(())).await;
                (first, last)
            },
        );
        assert_eq!(first.as_deref(), Some(&b"a"[..]));
        assert_eq!(last.is_ok(), is_whole, "{last:?}");
        if let Err(error) = last {
            assert!(error.is_protocol(), "{error:?}");
            assert!(error.to_string().contains("1 bytes into a frame"), "{error}");
        }
    }
}

#[test]
fn remaining_frames_wait_for_the_next_call() {
    let (_, taken) = with_peer(
        |socket| write(&socket, "1\n2\n3\n4\n5\n"),
        async |connection| {
            let mut framed = Framed::new(connection, LINE);
            let mut taken = vec![framed.next_with(|line| line.to_vec()).await];
            // An error of the program's own loses no frames either.
            let mut refused = Vec::new();
            let refusal = framed.for_each_frame(|line, _| {
                refused.push(line.to_vec());
                Err(Error::other("not this one"))
            });
            assert_eq!(refusal.await.unwrap_err().to_string(), "not this one");
            assert_eq!(refused, [b"2"]);
            while let Some(line) = framed.next_owned().await.transpose() {
                taken.push(line.map(|line| Some(line.to_vec())));
            }
            taken.into_iter().map(|line| line.expect("whole lines").expect("a line")).collect()
        },
    );
    let taken: Vec<Vec<u8>> = taken;
    assert_eq!(taken, [b"1", b"3", b"4", b"5"]);
}

#[test]
fn long_frames_and_short_ones_keep_their_order() {
    let lengths = [10, 200_000, 3, 70_000, 70_000, 0, 1_000_000, 1];
    let payload = |length: usize| -> Vec<u8> { (0..length).map(|n| (n % 251) as u8).collect() };
    let (_, received) = with_peer(
        |socket| {
            let mut echoed = &socket;
            std::io::copy(&mut &socket, &mut echoed).expect("an echo");
            socket.shutdown(Shutdown::Write).expect("still connected");
        },
        async move |connection| {
            let mut framed = Framed::new(connection, LengthField::varint());
            for length in lengths {
                framed.send(&payload(length)).expect("it fits a frame");
            }
            framed.connection().shutdown();
            let mut received = Vec::new();
            while let Some(frame) = framed.next_owned().await.expect("whole frames") {
                received.push(frame);
            }
            received
        },
    );
    let expected: Vec<_> = lengths.into_iter().map(payload).collect();
    assert!(received == expected, "{:?}", received.iter().map(|f| f.len()).collect::<Vec<_>>());
}

#[test]
fn payload_that_fits_no_frame_sends_nothing() {
    let (sent, refusal) = with_peer(
        |socket| read_all(&socket),
        async |connection| {
            let mut framed = Framed::new(connection, LINE);
            let refusal = framed.send(b"two\nlines").map(|_| ()).unwrap_err();
            framed.send(b"one line").expect("it fits a frame");
            refusal
        },
    );
    assert_eq!(sent, b"one line\n");
    assert!(refusal.to_string().contains("delimiter at byte 3"), "{refusal}");
}

#[test]
fn bytes_that_violate_the_codec_are_a_protocol_error_and_it_repeats() {
    let (_, errors) = with_peer(
        |socket| {
            write(&socket, "fine\n");
            write(&socket, [b'x'; 2000]);
            write(&socket, "\nfine\n");
        },
        async |connection| {
            let mut framed = Framed::new(connection, LINE);
            assert_eq!(framed.next_owned().await.expect("fine").as_deref(), Some(&b"fine"[..]));
            [framed.next_owned().await.unwrap_err(), framed.next_owned().await.unwrap_err()]
        },
    );
    assert!(errors.iter().all(Error::is_protocol), "{errors:?}");
}

/// The way in which a server replies to the frames of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loop {
    AllOfAReceive,
    OneByOne,
}

const ANSWER: usize = 256 * 1024;

/// Starts a server that answers every line with `ANSWER` bytes and counts the lines.
fn start_answering(by: Loop, handled: &Arc<AtomicUsize>) -> ServerHandle {
    start_answering_at(server(Backend::Uring).threads(1), by, handled, || ())
}

/// Starts such a server that first calls `first` with each connection.
fn start_answering_at(
    server: Server,
    by: Loop,
    handled: &Arc<AtomicUsize>,
    first: impl Fn() + Clone + Send + 'static,
) -> ServerHandle {
    let handled = Arc::clone(handled);
    let handler = async move |connection: Connection| {
        first();
        let answer = vec![b'x'; ANSWER - 1];
        let mut lines = Framed::new(connection, Line::new(ANSWER));
        match by {
            Loop::AllOfAReceive => {
                let each = lines.for_each_frame(|_, out| {
                    handled.fetch_add(1, Ordering::Relaxed);
                    out.send(&answer)
                });
                each.await
            }
            Loop::OneByOne => {
                while lines.next_owned().await?.is_some() {
                    handled.fetch_add(1, Ordering::Relaxed);
                    lines.send(&answer)?;
                }
                Ok(())
            }
        }
    };
    server.start(handler).expect("the server starts")
}

#[test]
fn client_with_many_requests_at_once_gets_all_replies() {
    // Far more replies than a send queue may hold.
    const ASKED: usize = 200;
    for by in [Loop::AllOfAReceive, Loop::OneByOne] {
        let handled = Arc::default();
        let handle = start_answering(by, &handled);
        let mut client = connect(&handle);
        write(&client, "?\n".repeat(ASKED));
        let mut answer = vec![0; ANSWER];
        for number in 0..ASKED {
            client.read_exact(&mut answer).unwrap_or_else(|error| panic!("{number}: {error}"));
            assert_eq!((answer[0], answer[ANSWER - 1]), (b'x', b'\n'), "answer {number}");
        }
        drop(client);
        end(&handle);
        assert_eq!(handled.load(Ordering::Relaxed), ASKED, "{by:?}");
    }
}

#[test]
fn client_that_leaves_without_reading_stops_the_replies() {
    const ASKED: usize = 20_000;
    for by in [Loop::AllOfAReceive, Loop::OneByOne] {
        let handled = Arc::default();
        let handle = start_answering(by, &handled);
        let client = connect(&handle);
        write(&client, "?\n".repeat(ASKED));
        eventually("it is being answered", || handled.load(Ordering::Relaxed) > 0);
        // Closing with unread replies resets the connection.
        drop(client);
        eventually("the server has seen it", || handle.stats().open == 0);
        end(&handle);
        let handled = handled.load(Ordering::Relaxed);
        assert!(handled < ASKED / 10, "{by:?}: {handled} answers");
    }
}

#[test]
fn failed_tls_session_stops_the_replies() {
    const ASKED: usize = 1_000;
    let trust = Trust::new();
    for by in [Loop::AllOfAReceive, Loop::OneByOne] {
        let (has_written, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        // All bytes have arrived when the server looks for the first time.
        let wait = move || _ = gate.lock().expect("no panic").recv();
        let handled = Arc::default();
        let server = patient_server(&trust);
        let handle = start_answering_at(server, by, &handled, wait);
        let (mut client, mut socket) = (client(&trust), connect(&handle));
        shake_hands(&mut client, &mut socket);
        client.write_tls(&mut socket).expect("its last words");
        eventually("it is open", || handle.stats().handshakes == 1);
        client.writer().write_all("?\n".repeat(ASKED).as_bytes()).expect("a session");
        while client.wants_write() {
            client.write_tls(&mut socket).expect("written");
        }
        let no_record_of_the_session = [&[23, 3, 3, 0, 32][..], &[0xFF; 32]].concat();
        socket.write_all(&no_record_of_the_session).expect("written");
        drop(has_written);
        eventually("the server has seen it", || handle.stats().handler_errors == 1);
        drop(socket);
        end(&handle);
        let handled = handled.load(Ordering::Relaxed);
        assert!(handled < 2, "{by:?}: {handled} answers");
    }
}
