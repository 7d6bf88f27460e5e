use std::pin::pin;
use std::task::{Context, Waker};

use ringway_wire::native::StreamId;

use crate::call::codec::Codec;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::carrier::fake_connection::{Action, FakeConnection, digits, raw};
use crate::connection::table::Handles;
use crate::limits;
use crate::stream::sink::{Sink, TrySendError};

const STREAM: StreamId = StreamId::new(1, 1);

fn check<T: 'static>(codec: Codec<T>, test: impl AsyncFnOnce(&FakeConnection, Sink<T>) + 'static) {
    let ran = ringway_runtime::block_on(async move {
        let fake = FakeConnection::new();
        let at = fake.open(STREAM, Handles::Writer);
        test(&fake, Sink::new(at, codec)).await;
    });
    ran.expect("a core");
}

fn sent(messages: &[&str]) -> Vec<Action> {
    messages.iter().map(|message| Action::Sent(message.as_bytes().to_vec())).collect()
}

#[test]
fn messages_are_encoded_in_order() {
    check(digits(), async |fake, mut sink| {
        for number in [1, 22, 333] {
            sink.send(number).await.expect("room");
        }
        assert_eq!(fake.did(STREAM), sent(&["1", "22", "333"]));
    });
}

#[test]
fn bytes_and_large_messages_are_handed_over() {
    check(raw(), async |fake, mut sink| {
        let message = bytes::Bytes::from(vec![b'x'; 2 * limits::SCRATCH_BYTES_MAX]);
        sink.send(message.clone()).await.expect("room");
        assert_eq!(fake.did(STREAM), [Action::Sent(message.to_vec())]);
    });
    let mut codec = digits();
    codec.encode = |len, scratch| {
        scratch.resize(len as usize, b'x');
        Ok(None)
    };
    check(codec, async |fake, mut sink| {
        let large = 2 * limits::SCRATCH_BYTES_MAX;
        for len in [large, 3] {
            sink.send(len as u64).await.expect("room");
        }
        let expected = [large, 3].map(|len| Action::Sent(vec![b'x'; len]));
        assert_eq!(fake.did(STREAM), expected);
    });
}

#[test]
fn above_the_mark_it_waits_and_is_woken() {
    check(digits(), async |fake, mut sink| {
        fake.room.set(1);
        sink.send(1).await.expect("room");
        assert!(matches!(sink.try_send(2), Err(TrySendError::Full(2))));
        {
            let mut cx = Context::from_waker(Waker::noop());
            let mut waiting = pin!(sink.send(3));
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
        }
        let sending = ringway_runtime::spawn(async move {
            sink.send(4).await.expect("room, later");
            sink
        });
        ringway_runtime::yield_now().await;
        assert!(!sending.is_finished());
        fake.grant(STREAM, 2);
        let mut sink = sending.await.expect("no panic");
        sink.try_send(5).expect("room");
        assert_eq!(fake.did(STREAM), sent(&["1", "4", "5"]), "a dropped send is not sent");
    });
}

#[test]
fn waiting_writer_fails_when_the_call_is_over() {
    check(digits(), async |fake, mut sink| {
        fake.room.set(0);
        let sending = ringway_runtime::spawn(async move {
            let first = sink.send(1).await.expect_err("it is over");
            let again = sink.send(2).await.expect_err("still");
            assert!(matches!(sink.try_send(3), Err(TrySendError::Failed(_))));
            (first, again)
        });
        ringway_runtime::yield_now().await;
        fake.table().finish(STREAM, Err(Status::unavailable("lost")));
        let (first, again) = sending.await.expect("no panic");
        assert_eq!((first.code(), first.message()), (Code::Unavailable, "lost"));
        assert_eq!(again.message(), "lost");
        assert_eq!(fake.did(STREAM), [Action::DroppedWriter(false)]);
    });
}

#[test]
fn early_reply_stops_the_writer() {
    check(digits(), async |fake, mut sink| {
        fake.table().finish(STREAM, Ok(Metadata::default()));
        let stopped = sink.send(1).await.expect_err("the peer has answered");
        assert_eq!(stopped.code(), Code::Cancelled);
        drop(sink);
        assert!(fake.table().is_empty());
    });
}

#[test]
fn message_that_cannot_be_encoded_does_not_end_the_stream() {
    let mut codec = digits();
    codec.encode = |number, scratch| match number {
        0 => Err(Status::internal("zero")),
        _ => (digits().encode)(number, scratch),
    };
    check(codec, async |fake, mut sink| {
        assert_eq!(sink.send(0).await.expect_err("no zero").message(), "zero");
        sink.send(1).await.expect("a number");
        assert_eq!(fake.did(STREAM), sent(&["1"]));
    });
}

#[test]
fn encoding_may_send_on_another_stream() {
    check(digits(), async |fake, mut sink| {
        let other = StreamId::new(9, 1);
        let inner = std::cell::RefCell::new(Sink::new(fake.open(other, Handles::Writer), digits()));
        INNER.set(Some(inner.into_inner()));
        sink.codec.encode = |number, scratch| {
            scratch.extend_from_slice(b"outer");
            let mut inner = INNER.take().expect("put there by the test");
            inner.try_send(number).expect("room");
            Ok(None)
        };
        sink.send(5).await.expect("room");
        assert_eq!(fake.did(STREAM), sent(&["outer"]));
        assert_eq!(fake.did(other)[0], Action::Sent(b"5".to_vec()));
    });
}

thread_local! {
    static INNER: std::cell::Cell<Option<Sink<u64>>> = const { std::cell::Cell::new(None) };
}

#[test]
fn leaving_is_reported_once_in_every_state() {
    check(digits(), async |fake, sink| {
        drop(sink);
        assert_eq!(fake.did(STREAM), [Action::DroppedWriter(true)]);
    });
    check(digits(), async |fake, sink| {
        sink.finish();
        assert_eq!(fake.did(STREAM), [Action::Finished, Action::DroppedWriter(false)]);
    });
    check(digits(), async |fake, sink| {
        sink.cancel("enough");
        let cancelled = Action::Cancelled("enough".to_owned());
        assert_eq!(fake.did(STREAM), [cancelled, Action::DroppedWriter(true)]);
    });
    check(digits(), async |fake, mut sink| {
        fake.forget();
        let failure = sink.send(1).await.expect_err("nobody there");
        assert_eq!(failure.code(), Code::Unavailable);
        drop(sink);
        assert_eq!(fake.did(STREAM), []);
    });
}
