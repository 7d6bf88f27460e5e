use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ringway_wire::native::StreamId;

use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::carrier::fake_connection::{Action, FakeConnection, digits};
use crate::connection::table::Handles;
use crate::limits;
use crate::stream::pending::PendingStream;
use crate::stream::remote::HeldBy;
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

const STREAM: StreamId = StreamId::new(0, 1);

/// A guard against hanging: long enough for any test.
const BOUND: Duration = Duration::from_secs(20);

/// Runs `core` on a core while `elsewhere` runs with the handles in a task of tokio.
fn check<T: Send + 'static>(
    core: impl AsyncFnOnce(&FakeConnection) + 'static,
    elsewhere: impl AsyncFnOnce(Sink<u64>, Streaming<u64>) -> T + Send + 'static,
) -> T {
    let ran = ringway_runtime::block_on(async move {
        let fake = FakeConnection::new();
        let at = fake.open(STREAM, Handles::Both);
        let (sink, stream) = (Sink::new(at, digits()), Streaming::replies(at, digits()));
        let work = move || tokio().block_on(elsewhere(sink, stream));
        let there = ringway_runtime::spawn_blocking(work).expect("a thread");
        let both = async {
            core(&fake).await;
            there.await.expect("no panic there")
        };
        ringway_runtime::timeout(BOUND, both).await.expect("both end in time")
    });
    ran.expect("a core")
}

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("tokio without I/O")
}

fn push_numbers(fake: &FakeConnection, numbers: std::ops::Range<u64>) {
    for number in numbers {
        fake.push(STREAM, number.to_string().as_bytes());
    }
}

#[test]
fn messages_cross_in_order_and_then_the_end() {
    let received = check(
        async |fake| {
            let mut initial = Metadata::default();
            initial.insert("region", "north").expect("a good key");
            fake.table().initial(STREAM, initial);
            for round in 0..100 {
                push_numbers(fake, round * 100..(round + 1) * 100);
                ringway_runtime::yield_now().await;
            }
            let mut trailers = Metadata::default();
            trailers.insert("rows", "3").expect("a good key");
            fake.table().finish(STREAM, Ok(trailers));
            fake.happened(STREAM, Action::DroppedReader).await;
            assert_eq!(fake.taken.get(), 10_000);
        },
        async |_sink, mut stream| {
            let initial = stream.metadata().await.expect("a stream");
            assert_eq!(initial.get("region"), Some("north"));
            let mut received = 0;
            while let Some(number) = stream.next().await.expect("a number") {
                assert_eq!(number, received);
                received += 1;
            }
            assert_eq!(stream.trailers().and_then(|trailers| trailers.get("rows")), Some("3"));
            assert_eq!(stream.next().await.expect("still the end"), None);
            received
        },
    );
    assert_eq!(received, 10_000);
}

/// Checks a reader that has used part of a batch and reads the rest on another thread.
fn check_moved(total: u64, read_here: u64, asks_metadata: bool) {
    let ran = ringway_runtime::block_on(async move {
        let fake = FakeConnection::new();
        let at = fake.open(STREAM, Handles::Both);
        let mut stream = Streaming::replies(at, digits());
        push_numbers(&fake, 0..total / 2);
        for number in 0..read_here {
            assert_eq!(stream.next().await.expect("a number"), Some(number));
        }
        let there = ringway_runtime::spawn_blocking(move || {
            tokio().block_on(async move {
                if asks_metadata {
                    stream.metadata().await.expect("a stream");
                }
                for number in read_here..total {
                    assert_eq!(stream.next().await.expect("a number"), Some(number));
                }
                assert_eq!(stream.next().await.expect("the end"), None);
            });
        });
        push_numbers(&fake, total / 2..total);
        fake.table().finish(STREAM, Ok(Metadata::default()));
        there.expect("a thread").await.expect("no panic there");
        ringway_runtime::timeout(BOUND, fake.happened(STREAM, Action::DroppedReader))
            .await
            .expect("it is left in time");
        assert_eq!(fake.taken.get() as u64, total, "of {read_here} read here");
    });
    ran.expect("a core");
}

#[test]
fn messages_in_hand_of_a_moved_reader_count_as_taken() {
    for read_here in [0, 1, 7, 499, 500] {
        for asks_metadata in [false, true] {
            check_moved(1_000, read_here, asks_metadata);
        }
    }
    // More messages than are reported at once.
    check_moved(40_000, 10_000, false);
}

#[test]
fn sent_messages_cross_in_order_and_then_the_finish() {
    const SENT: u64 = 1000;
    check(
        async |fake| {
            fake.room.set(10);
            for granted in 1..=SENT / 10 {
                let last = granted * 10 - 1;
                fake.happened(STREAM, Action::Sent(last.to_string().into_bytes())).await;
                let sent =
                    fake.did(STREAM).into_iter().filter(|did| matches!(did, Action::Sent(_)));
                assert_eq!(sent.count() as u64, granted * 10, "no more than room");
                fake.grant(STREAM, 10);
            }
            fake.happened(STREAM, Action::DroppedWriter(false)).await;
            let numbers = (0..SENT).map(|number| Action::Sent(number.to_string().into_bytes()));
            let finish = [Action::Finished, Action::DroppedWriter(false)];
            assert_eq!(fake.did(STREAM), numbers.chain(finish).collect::<Vec<_>>());
        },
        async |mut sink, stream| {
            for number in 0..SENT {
                sink.send(number).await.expect("room in time");
            }
            sink.finish();
            std::mem::forget(stream); // so that only the writer's actions are seen
        },
    );
}

#[test]
fn remote_reader_that_stops_reading_stops_the_credit() {
    let (go_on, told) = mpsc::channel();
    check(
        async move |fake| {
            fake.table().initial(STREAM, Metadata::default());
            fake.happened(STREAM, Action::Finished).await; // now the reader waits without reading
            let half = "0".repeat(limits::PIPE_BYTES_MAX / 2 - 1) + "7";
            for _ in 0..4 {
                fake.push(STREAM, half.as_bytes());
                for _ in 0..10 {
                    ringway_runtime::yield_now().await; // each lets the task run
                }
            }
            assert_eq!(fake.taken.get(), 2, "two fill the pipe, the others stay here");
            go_on.send(()).expect("the reader waits");
            fake.happened(STREAM, Action::DroppedReader).await;
        },
        async move |sink, mut stream| {
            stream.metadata().await.expect("a stream");
            sink.finish();
            told.recv().expect("the core goes on");
            assert_eq!(stream.next().await.expect("a message"), Some(7));
        },
    );
}

#[test]
fn failures_cross_both_ways() {
    check(
        async |fake| {
            fake.push(STREAM, b"1");
            fake.happened(STREAM, Action::Sent(b"1".to_vec())).await;
            fake.table().finish(STREAM, Err(Status::unavailable("lost")));
        },
        async |mut sink, mut stream| {
            assert_eq!(stream.next().await.expect("a message"), Some(1));
            sink.send(1).await.expect("the stream is open");
            for _ in 0..2 {
                let failure = stream.next().await.expect_err("lost");
                assert_eq!((failure.code(), failure.message()), (Code::Unavailable, "lost"));
            }
            let failure = loop {
                if let Err(failure) = sink.send(2).await {
                    break failure;
                }
                tokio::task::yield_now().await;
            };
            assert_eq!(failure.message(), "lost");
            assert_eq!(sink.send(3).await.expect_err("again").message(), "lost");
        },
    );
}

#[test]
fn remote_drop_and_cancel_reach_the_stream() {
    // Handles that were not used, that were used, and that were used up to the mark.
    check(
        async |fake| {
            fake.happened(STREAM, Action::DroppedWriter(true)).await;
            fake.happened(STREAM, Action::DroppedReader).await;
        },
        async |sink, stream| {
            drop(sink);
            drop(stream);
        },
    );
    check(
        async |fake| {
            fake.push(STREAM, b"1");
            fake.happened(STREAM, Action::Cancelled("by reader".to_owned())).await;
            fake.happened(STREAM, Action::DroppedReader).await;
            fake.happened(STREAM, Action::Cancelled("by writer".to_owned())).await;
            fake.happened(STREAM, Action::DroppedWriter(true)).await;
        },
        async |mut sink, mut stream| {
            stream.next().await.expect("a message");
            stream.cancel("by reader");
            sink.send(1).await.expect("room");
            sink.cancel("by writer");
        },
    );
    check(
        async |fake| {
            fake.room.set(0);
            fake.happened(STREAM, Action::DroppedReader).await;
            fake.happened(STREAM, Action::Cancelled("tired of waiting".to_owned())).await;
            assert!(!fake.did(STREAM).contains(&Action::Sent(b"1".to_vec())));
        },
        async |mut sink, stream| {
            while sink.try_send(1).is_ok() {}
            drop(stream);
            sink.cancel("tired of waiting");
        },
    );
}

#[test]
fn messages_sent_before_a_remote_server_sink_is_dropped_are_delivered() {
    let (at_sender, at_receiver) = mpsc::channel();
    let core = thread::spawn(move || {
        ringway_runtime::block_on(async move {
            let fake = FakeConnection::new();
            fake.held_by.set(HeldBy::Server);
            fake.room.set(0);
            at_sender.send(fake.open(STREAM, Handles::Writer)).expect("the test waits");
            for granted in 1..=3 {
                fake.grant(STREAM, 10);
                let last = granted * 10 - 1;
                fake.happened(STREAM, Action::Sent(last.to_string().into_bytes())).await;
            }
            fake.happened(STREAM, Action::DroppedWriter(true)).await;
            let numbers = (0..30).map(|number: u64| Action::Sent(number.to_string().into_bytes()));
            let dropped = [Action::DroppedWriter(true)];
            assert_eq!(fake.did(STREAM), numbers.chain(dropped).collect::<Vec<_>>());
        })
    });
    let mut sink = Sink::new(at_receiver.recv().expect("a stream"), digits());
    for number in 0..30 {
        sink.try_send(number).expect("room in the pipe");
    }
    drop(sink);
    core.join().expect("no panic").expect("a core");
}

#[test]
fn end_of_a_core_fails_its_remote_handles() {
    let (at_sender, at_receiver) = mpsc::channel();
    let (started_sender, started) = mpsc::channel();
    let core = thread::spawn(move || {
        ringway_runtime::block_on(async move {
            let fake = FakeConnection::new();
            at_sender.send(fake.open(STREAM, Handles::Both)).expect("the test waits");
            fake.happened(STREAM, Action::Sent(b"1".to_vec())).await;
            started_sender.send(()).expect("the test waits");
        })
    });
    let at = at_receiver.recv().expect("a stream");
    let (mut sink, mut stream) = (Sink::new(at, digits()), Streaming::new(at, digits()));
    tokio().block_on(async move {
        sink.send(1).await.expect("room");
        started.recv().expect("it was sent");
        assert_eq!(stream.next().await.expect_err("no core").code(), Code::Unavailable);
        core.join().expect("no panic").expect("a core");
        assert_eq!(sink.send(2).await.expect_err("no core").code(), Code::Unavailable);
    });
}

#[test]
fn pending_stream_opened_on_another_thread_works() {
    let pending = PendingStream::new();
    let (mut sink, mut stream) = (pending.sink(digits()), pending.streaming(digits()));
    let core = thread::spawn(move || {
        ringway_runtime::block_on(async move {
            let fake = FakeConnection::new();
            pending.complete(Ok(fake.open(STREAM, Handles::Both)));
            push_numbers(&fake, 0..3);
            fake.happened(STREAM, Action::Sent(b"9".to_vec())).await;
            fake.table().end(STREAM);
            fake.happened(STREAM, Action::DroppedReader).await;
            fake.happened(STREAM, Action::DroppedWriter(false)).await;
        })
    });
    tokio().block_on(async move {
        for number in 0..3 {
            assert_eq!(stream.next().await.expect("a number"), Some(number));
        }
        sink.send(9).await.expect("room");
        assert_eq!(stream.next().await.expect("the end"), None);
        sink.finish();
    });
    core.join().expect("no panic").expect("a core");
}

#[test]
fn handles_work_on_another_core() {
    check(
        async |fake| {
            push_numbers(fake, 0..10);
            fake.happened(STREAM, Action::Sent(b"45".to_vec())).await;
        },
        async |mut sink, mut stream| {
            let other_core = thread::spawn(move || {
                ringway_runtime::block_on(async move {
                    let mut sum = 0;
                    for _ in 0..10 {
                        sum += stream.next().await.expect("a number").expect("ten numbers");
                    }
                    sink.send(sum).await.expect("room");
                    sink.finish();
                })
            });
            other_core.join().expect("no panic").expect("a core");
        },
    );
}
