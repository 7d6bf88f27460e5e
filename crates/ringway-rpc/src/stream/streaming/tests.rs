use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use ringway_wire::native::{Piece, StreamId};

use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::carrier::fake_connection::{Action, FakeConnection, digits};
use crate::connection::table::Handles;
use crate::limits;
use crate::stream::streaming::Streaming;

const STREAM: StreamId = StreamId::new(2, 5);

fn check(test: impl AsyncFnOnce(&FakeConnection, Streaming<u64>) + 'static) {
    let ran = ringway_runtime::block_on(async move {
        let fake = FakeConnection::new();
        let at = fake.open(STREAM, Handles::Reader);
        test(&fake, Streaming::new(at, digits())).await;
    });
    ran.expect("a core");
}

fn trailers() -> Metadata {
    let mut trailers = Metadata::default();
    trailers.insert("rows", "3").expect("a good key");
    trailers
}

#[test]
fn messages_arrive_in_order_then_the_end_with_trailers() {
    check(async |fake, mut stream| {
        for number in 0..100 {
            fake.push(STREAM, number.to_string().as_bytes());
        }
        fake.table().finish(STREAM, Ok(trailers()));
        for number in 0..100 {
            assert_eq!(stream.next().await.expect("a message"), Some(number));
        }
        assert!(stream.trailers().is_none());
        for _ in 0..2 {
            assert_eq!(stream.next().await.expect("the end"), None);
            let rows = stream.trailers().and_then(|trailers| trailers.get("rows"));
            assert_eq!(rows, Some("3"));
        }
        assert!(fake.table().is_empty(), "the end frees the stream");
    });
}

#[test]
fn failure_follows_the_messages_and_repeats() {
    check(async |fake, mut stream| {
        fake.push(STREAM, b"1");
        let failure = Status::unavailable("lost");
        fake.table().finish(STREAM, Err(failure));
        assert_eq!(stream.next().await.expect("a message"), Some(1));
        for _ in 0..3 {
            let failure = stream.next().await.expect_err("a failure");
            assert_eq!((failure.code(), failure.message()), (Code::Unavailable, "lost"));
        }
        assert_eq!(stream.metadata().await.expect_err("a failure").message(), "lost");
        let ended = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await;
        assert!(ended.is_none(), "as a stream it ends after its failure");
    });
}

#[test]
fn stream_trait_ends_after_a_failure() {
    check(async |fake, mut stream| {
        fake.push(STREAM, b"1");
        fake.table().finish(STREAM, Err(Status::unavailable("lost")));
        let mut items = Vec::new();
        while let Some(item) = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
            items.push(item.map_err(|status| status.message().to_owned()));
        }
        assert_eq!(items, [Ok(1), Err("lost".to_owned())]);
    });
}

#[test]
fn message_that_cannot_be_decoded_does_not_end_the_stream() {
    check(async |fake, mut stream| {
        for text in ["1", "one", "2"] {
            fake.push(STREAM, text.as_bytes());
        }
        assert_eq!(stream.next().await.expect("a number"), Some(1));
        assert_eq!(stream.next().await.expect_err("no number").message(), "no number");
        assert_eq!(stream.next().await.expect("a number"), Some(2));
    });
}

#[test]
fn reply_that_cannot_be_decoded_is_internal() {
    check(async |fake, stream| {
        drop(stream);
        let other = StreamId::new(3, 1);
        let at = fake.open(other, Handles::Reader);
        let pushed = fake.table().push(other, Piece::Borrowed(b"one"));
        pushed.expect("a reader with room");
        let failure = Streaming::replies(at, digits()).next().await.expect_err("no number");
        assert_eq!(failure.code(), Code::Internal);
        assert_eq!(failure.message(), "the reply cannot be read: no number");
    });
}

#[test]
fn waiting_reader_is_woken_and_a_dropped_wait_loses_nothing() {
    check(async |fake, mut stream| {
        {
            let mut next = pin!(stream.next());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(next.as_mut().poll(&mut cx).is_pending());
        }
        fake.push(STREAM, b"1");
        assert_eq!(stream.next().await.expect("a message"), Some(1));
        let reading = ringway_runtime::spawn(async move { stream.next().await });
        ringway_runtime::yield_now().await;
        assert!(!reading.is_finished());
        fake.push(STREAM, b"2");
        assert_eq!(reading.await.expect("no panic").expect("a message"), Some(2));
    });
}

#[test]
fn taken_messages_are_reported_to_the_connection() {
    check(async |fake, mut stream| {
        for _ in 0..10 {
            fake.push(STREAM, b"1234");
        }
        for taken in 1..=10 {
            stream.next().await.expect("a message");
            assert_eq!(fake.taken.get(), if taken < 10 { 0 } else { 10 }, "at a batch's end");
        }
        let large = format!("{:01$}", 7, limits::STREAM_TAKEN_BYTES_MAX);
        for _ in 0..3 {
            fake.push(STREAM, large.as_bytes());
        }
        for taken in 11..=13 {
            assert_eq!(stream.next().await.expect("a message"), Some(7));
            assert_eq!(fake.taken.get(), taken, "each large one");
        }
    });
}

#[test]
fn initial_metadata_is_awaited_and_returned_once() {
    check(async |fake, requests| {
        drop(requests);
        let replies = StreamId::new(3, 1);
        let mut stream = Streaming::replies(fake.open(replies, Handles::Reader), digits());
        let mut initial = Metadata::default();
        initial.insert("region", "north").expect("a good key");
        {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(pin!(stream.metadata()).as_mut().poll(&mut cx).is_pending());
        }
        fake.table().initial(replies, initial);
        let initial = stream.metadata().await.expect("it came");
        assert_eq!(initial.get("region"), Some("north"));
        {
            let mut again = pin!(stream.metadata());
            let again = again.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(again, Poll::Ready(Ok(nothing)) if nothing.is_empty()), "at once");
        }
        let pushed = fake.table().push(replies, Piece::Borrowed(b"1"));
        pushed.expect("a reader with room");
        assert_eq!(stream.next().await.expect("a message"), Some(1));
    });
}

#[test]
fn leaving_is_reported_once_in_every_state() {
    check(async |fake, stream| {
        drop(stream);
        assert_eq!(fake.did(STREAM), [Action::DroppedReader]);
    });
    check(async |fake, stream| {
        fake.push(STREAM, b"1");
        stream.cancel("enough");
        let cancelled = Action::Cancelled("enough".to_owned());
        assert_eq!(fake.did(STREAM), [cancelled, Action::DroppedReader]);
    });
    check(async |fake, mut stream| {
        fake.table().finish(STREAM, Ok(Metadata::default()));
        assert_eq!(stream.next().await.expect("the end"), None);
        stream.cancel("too late");
        assert_eq!(fake.did(STREAM), [Action::DroppedReader]);
    });
    check(async |fake, mut stream| {
        fake.push(STREAM, b"1");
        assert_eq!(stream.next().await.expect("a message"), Some(1));
        fake.forget();
        let failure = stream.next().await.expect_err("nobody there");
        assert_eq!(failure.code(), Code::Unavailable);
        drop(stream);
        assert_eq!(fake.did(STREAM), []);
    });
}

#[test]
fn polling_an_open_stream_is_pending() {
    check(async |fake, mut stream| {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut stream).poll_next(&mut cx).is_pending());
        fake.push(STREAM, b"4");
        let polled = Pin::new(&mut stream).poll_next(&mut cx);
        assert!(matches!(polled, Poll::Ready(Some(Ok(4)))));
    });
}
