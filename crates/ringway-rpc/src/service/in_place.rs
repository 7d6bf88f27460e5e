//! Handlers that run right where their request was decoded, and become tasks only if they wait.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use super::{Begin, Encoded, Handler, Outcome, Started, Waiting};
use crate::call::codec::Codec;
use crate::call::status::Status;

/// A method whose calls run on the core.
///
/// The future of a call is pinned in a heap slot. A call that is done at once leaves the slot to
/// the next one; a call that waits takes the slot with it. `start` writes the future into the slot
/// itself, because the future is the largest part of a call to copy.
pub(super) struct InPlace<S, Fut> {
    start: S,
    slot: Cell<Option<Pin<Box<Option<Fut>>>>>,
}

impl<S, Fut> InPlace<S, Fut>
where
    S: Fn(Begin<'_>, Pin<&mut Option<Fut>>) -> Result<(), Status> + 'static,
    Fut: Future<Output: Finish> + 'static,
{
    pub(super) fn boxed(start: S) -> Box<dyn Handler> {
        Box::new(Self { start, slot: Cell::new(None) })
    }
}

impl<S, Fut> Handler for InPlace<S, Fut>
where
    S: Fn(Begin<'_>, Pin<&mut Option<Fut>>) -> Result<(), Status>,
    Fut: Future<Output: Finish> + 'static,
{
    fn start(&self, begin: Begin<'_>, out: &mut Vec<u8>) -> Started {
        let mut slot = self.slot.take().unwrap_or_else(|| Box::pin(None));
        if let Err(status) = (self.start)(begin, slot.as_mut()) {
            self.slot.set(Some(slot));
            return Started::Done(Err(status));
        }
        match slot.as_mut().poll(&mut Context::from_waker(Waker::noop()), out) {
            Poll::Ready(outcome) => {
                self.slot.set(Some(slot));
                Started::Done(outcome)
            }
            Poll::Pending => Started::Waiting(slot),
        }
    }
}

impl<Fut: Future<Output: Finish>> Waiting for Option<Fut> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Outcome> {
        let future = self.as_mut().as_pin_mut().expect("a call that is done is not polled");
        let end = ready!(future.poll(cx));
        self.set(None);
        Poll::Ready(end.finish(out))
    }
}

/// The result of a handler's future, which is still to be encoded.
pub(super) trait Finish {
    fn finish(self, out: &mut Vec<u8>) -> Outcome;
}

/// The result of a method with one reply.
pub(super) struct Replied<T> {
    pub(super) reply: Result<T, Status>,
    pub(super) codec: Codec<T>,
}

impl<T> Finish for Replied<T> {
    #[inline]
    fn finish(self, out: &mut Vec<u8>) -> Outcome {
        let encoded = (self.codec.encode)(self.reply?, out)?;
        Ok(encoded.map_or(Encoded::InScratch, Encoded::Shared))
    }
}

/// The result of a method with a stream of replies.
impl Finish for Result<(), Status> {
    fn finish(self, _: &mut Vec<u8>) -> Outcome {
        self.map(|()| Encoded::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use bytes::Bytes;
    use ringway_wire::native::Piece;

    use super::*;
    use crate::call::context::tests::sample;
    use crate::call::method::{Kind, Method};
    use crate::service::{Methods, Registered};

    static METHOD: Method = Method::new("test.Test/Unary", Kind::Unary);

    /// Does what the request says.
    async fn handle(request: String, gate: Rc<Cell<bool>>) -> Result<String, Status> {
        match &*request {
            "fail" => Err(Status::not_found("nothing here")),
            "panic" => panic!("as handlers may"),
            "wait" => {
                poll_fn(|_| if gate.get() { Poll::Ready(()) } else { Poll::Pending }).await;
                Ok("waited".to_owned())
            }
            _ => Ok(request.to_uppercase()),
        }
    }

    fn register(gate: &Rc<Cell<bool>>) -> Registered {
        let (mut methods, gate) = (Methods::default(), Rc::clone(gate));
        let handler = move |_, request| handle(request, Rc::clone(&gate));
        methods.unary(&METHOD, Codec::json(), Codec::json(), handler);
        methods.into_entries().pop().expect("one was added")
    }

    fn start(handler: &dyn Handler, request: &str, out: &mut Vec<u8>) -> Started {
        let message = Some(Piece::Borrowed(request.as_bytes()));
        handler.start(
            Begin { context: sample(), message, stream: None, held: None, is_json: false },
            out,
        )
    }

    #[track_caller]
    fn check(handler: &dyn Handler, request: &str, expected: Result<&str, &str>) {
        let mut out = Vec::new();
        let Started::Done(outcome) = start(handler, request, &mut out) else {
            panic!("{request} waits");
        };
        match (outcome, expected) {
            (Ok(encoded), Ok(reply)) => {
                assert_eq!((encoded, &out[..]), (Encoded::InScratch, reply.as_bytes()));
            }
            (Err(status), Err(text)) => assert!(status.to_string().starts_with(text), "{status}"),
            (outcome, _) => panic!("{request} came to {outcome:?}"),
        }
    }

    #[test]
    fn calls_run_in_place_one_after_the_other() {
        let entry = register(&Rc::default());
        assert_eq!((entry.codec_in, entry.codec_out), (2, 2));
        check(&*entry.handler, "\"a\"", Ok("\"A\""));
        check(&*entry.handler, "\"fail\"", Err("NOT_FOUND: nothing here"));
        check(
            &*entry.handler,
            "a",
            Err("INVALID_ARGUMENT: the message is not a valid String in JSON"),
        );
        check(&*entry.handler, "\"b\"", Ok("\"B\""));
        let nothing =
            Begin { context: sample(), message: None, stream: None, held: None, is_json: false };
        let Started::Done(Err(status)) = entry.handler.start(nothing, &mut Vec::new()) else {
            panic!("it ran without a request");
        };
        assert!(status.is_unimplemented(), "{status}");
    }

    #[test]
    fn waiting_call_takes_its_slot_and_blocks_no_other() {
        let gate = Rc::default();
        let entry = register(&gate);
        let mut out = Vec::new();
        let Started::Waiting(mut waiting) = start(&*entry.handler, "\"wait\"", &mut out) else {
            panic!("it does not wait");
        };
        check(&*entry.handler, "\"a\"", Ok("\"A\""));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx, &mut out).is_pending());
        gate.set(true);
        let Poll::Ready(outcome) = waiting.as_mut().poll(&mut cx, &mut out) else {
            panic!("it still waits");
        };
        assert_eq!(outcome.expect("a reply"), Encoded::InScratch);
        assert_eq!(out, b"\"waited\"");
    }

    #[test]
    fn method_works_after_a_panic() {
        let entry = register(&Rc::default());
        let run = || start(&*entry.handler, "\"panic\"", &mut Vec::new());
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        check(&*entry.handler, "\"a\"", Ok("\"A\""));
    }

    #[test]
    fn bytes_are_passed_without_a_copy() {
        let mut methods = Methods::default();
        methods.unary(&METHOD, Codec::raw(), Codec::raw(), async |_, request| Ok(request));
        let entry = methods.into_entries().pop().expect("one was added");
        let request = Bytes::from(vec![7; 100]);
        let message = Some(Piece::Owned(request.clone()));
        let begin = Begin { context: sample(), message, stream: None, held: None, is_json: false };
        match entry.handler.start(begin, &mut Vec::new()) {
            Started::Done(Ok(Encoded::Shared(reply))) => {
                assert_eq!(reply.as_ptr(), request.as_ptr())
            }
            _ => panic!("it was copied"),
        }
    }
}
