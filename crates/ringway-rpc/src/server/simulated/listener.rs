//! Whatever listens to the log may panic: that costs at most the call of that span.

use std::sync::atomic::{AtomicU64, Ordering};

use ringway_wire::native::GoAwayCode;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::left_over::{Peer, run};
use crate::call::status::Code;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    New,
    Enter,
    Exit,
    Record,
    Close,
    /// Any, instead of a span.
    Event,
}

/// Panics there, for the second span.
struct Listener {
    at: At,
    spans: AtomicU64,
}

const BAD: u64 = 2;

impl Listener {
    fn hear(&self, at: At, span: u64) {
        assert!(at != self.at || span != BAD, "as listeners may");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name() == "call" || metadata.is_event() && self.at == At::Event
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        let span = self.spans.fetch_add(1, Ordering::Relaxed) + 1;
        self.hear(At::New, span);
        Id::from_u64(span)
    }

    fn record(&self, span: &Id, _: &Record<'_>) {
        self.hear(At::Record, span.into_u64());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        assert!(self.at != At::Event, "as listeners may");
    }

    fn enter(&self, span: &Id) {
        self.hear(At::Enter, span.into_u64());
    }

    fn exit(&self, span: &Id) {
        self.hear(At::Exit, span.into_u64());
    }

    fn try_close(&self, span: Id) -> bool {
        self.hear(At::Close, span.into_u64());
        true
    }
}

/// A call that was queued behind another is the one that the listener panics for.
#[track_caller]
fn check(at: At, expected: Code) {
    let listener = Listener { at, spans: AtomicU64::new(0) };
    let _listens = tracing::subscriber::set_default(listener);
    run(async move || {
        let mut peer = Peer::meet(vec![]).await;
        let first = peer.open("left.Over/Alone", b"one", false, &[]);
        let others = [(); 3].map(|()| peer.open("left.Over/Alone", b"one", true, &[]));
        peer.flush();
        peer.until("they wait", || peer.stats().in_flight == 4).await;
        peer.machine.finish(first);
        assert_eq!(peer.answer(first).await, Code::Ok);
        for (stream, expected) in others.into_iter().zip([expected, Code::Ok, Code::Ok]) {
            assert_eq!(peer.answer(stream).await, expected, "at {at:?}");
        }
        peer.leave().await;
    });
}

#[test]
fn a_listener_that_panics_harms_no_other_call() {
    check(At::New, Code::Ok);
    check(At::Enter, Code::Internal);
    check(At::Exit, Code::Internal);
    check(At::Record, Code::Ok);
    check(At::Close, Code::Ok);
}

#[test]
fn a_listener_that_panics_at_what_a_connection_says_ends_no_call() {
    let listener = Listener { at: At::Event, spans: AtomicU64::new(0) };
    let _listens = tracing::subscriber::set_default(listener);
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        let call = peer.open("left.Over/Alone", b"one", false, &[]);
        peer.machine.go_away(GoAwayCode::NoError, "no more calls");
        peer.flush();
        peer.until("it runs", || peer.stats().in_flight == 1).await;
        peer.machine.finish(call);
        assert_eq!(peer.answer(call).await, Code::Ok);
        peer.break_protocol();
        peer.until("it is noticed", || peer.stats().violations == 1).await;
        peer.serving.await.expect("no panic");
    });
}

#[test]
fn a_listener_and_a_destructor_that_panic_for_the_same_call_harm_no_other() {
    let listener = Listener { at: At::Close, spans: AtomicU64::new(0) };
    let _listens = tracing::subscriber::set_default(listener);
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        let first = peer.open("left.Over/Alone", b"one", false, &[]);
        let second = peer.open("left.Over/Bitter", b"two", false, &[]);
        peer.flush();
        peer.until("they run", || peer.stats().in_flight == 2).await;
        peer.machine.cancel(second, Code::Cancelled as u8, "");
        peer.flush();
        peer.until("one is left", || peer.stats().in_flight == 1).await;
        peer.machine.finish(first);
        assert_eq!(peer.answer(first).await, Code::Ok);
        peer.leave().await;
    });
}
