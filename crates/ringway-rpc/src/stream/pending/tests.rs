use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ringway_wire::native::StreamId;

use crate::call::status::{Code, Status};
use crate::connection::carrier::fake_connection::{Action, FakeConnection, digits};
use crate::connection::table::Handles;
use crate::stream::pending::PendingStream;
use crate::stream::sink::{Sink, TrySendError};
use crate::stream::streaming::Streaming;

const STREAM: StreamId = StreamId::new(0, 1);

fn check(
    test: impl AsyncFnOnce(&FakeConnection, PendingStream, Sink<u64>, Streaming<u64>) + 'static,
) {
    let ran = ringway_runtime::block_on(async move {
        let fake = FakeConnection::new();
        let pending = PendingStream::new();
        let (sink, stream) = (pending.sink(digits()), pending.streaming(digits()));
        test(&fake, pending, sink, stream).await;
    });
    ran.expect("a core");
}

fn abandoned(pending: &PendingStream) -> Poll<Option<String>> {
    pending.poll_abandoned(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn both_handles_wait_until_the_stream_is_open() {
    check(async |fake, pending, mut sink, mut stream| {
        assert!(matches!(sink.try_send(1), Err(TrySendError::Full(1))));
        let sending = ringway_runtime::spawn(async move {
            sink.send(1).await.expect("a stream");
            sink.finish();
        });
        let reading = ringway_runtime::spawn(async move { stream.next().await });
        ringway_runtime::yield_now().await;
        assert!(abandoned(&pending).is_pending() && !sending.is_finished());
        pending.complete(Ok(fake.open(STREAM, Handles::Both)));
        fake.push(STREAM, b"2");
        assert_eq!(reading.await.expect("no panic").expect("a message"), Some(2));
        sending.await.expect("no panic");
        let did = fake.did(STREAM);
        assert!(did.contains(&Action::Sent(b"1".to_vec())) && did.contains(&Action::Finished));
    });
}

#[test]
fn stream_that_cannot_be_opened_fails_both_handles() {
    check(async |_, pending, mut sink, mut stream| {
        pending.complete(Err(Status::unavailable("nobody listens")));
        for _ in 0..2 {
            let failure = sink.send(1).await.expect_err("no stream");
            assert_eq!((failure.code(), failure.message()), (Code::Unavailable, "nobody listens"));
            assert_eq!(stream.next().await.expect_err("no stream").message(), "nobody listens");
        }
    });
    check(async |_, pending, mut sink, mut stream| {
        let reading = ringway_runtime::spawn(async move { stream.metadata().await });
        ringway_runtime::yield_now().await;
        drop(pending);
        let failure = reading.await.expect("no panic").expect_err("no stream");
        assert_eq!(failure.code(), Code::Unavailable);
        assert_eq!(sink.send(1).await.expect_err("no stream").code(), Code::Unavailable);
    });
}

#[test]
fn actions_before_the_opening_are_applied_when_it_opens() {
    check(async |fake, pending, sink, stream| {
        sink.finish();
        assert!(abandoned(&pending).is_pending(), "a finished writer may have a reader");
        pending.complete(Ok(fake.open(STREAM, Handles::Both)));
        assert_eq!(fake.did(STREAM), [Action::Finished, Action::DroppedWriter(false)]);
        drop(stream);
    });
    check(async |fake, pending, sink, stream| {
        drop(stream);
        sink.cancel("enough");
        pending.complete(Ok(fake.open(STREAM, Handles::Both)));
        let cancelled = Action::Cancelled("enough".to_owned());
        assert_eq!(
            fake.did(STREAM),
            [Action::DroppedReader, cancelled, Action::DroppedWriter(true)]
        );
    });
}

#[test]
fn opener_learns_that_the_stream_was_abandoned() {
    check(async |_, pending, sink, stream| {
        {
            let mut waiting = pin!(std::future::poll_fn(|cx| pending.poll_abandoned(cx)));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
        }
        let waiting = ringway_runtime::spawn(async move {
            std::future::poll_fn(|cx| pending.poll_abandoned(cx)).await
        });
        ringway_runtime::yield_now().await;
        sink.cancel("changed my mind");
        let reason = waiting.await.expect("no panic");
        assert_eq!(reason.as_deref(), Some("changed my mind"));
        drop(stream);
    });
    check(async |_, pending, sink, stream| {
        drop(stream);
        assert_eq!(abandoned(&pending), Poll::Ready(None));
        drop(sink);
    });
}

#[test]
fn unused_handle_detaches_from_the_open_stream() {
    check(async |fake, pending, sink, stream| {
        pending.complete(Ok(fake.open(STREAM, Handles::Both)));
        drop(sink);
        drop(stream);
        assert_eq!(fake.did(STREAM), [Action::DroppedWriter(true), Action::DroppedReader]);
    });
}
