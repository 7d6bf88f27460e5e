//! A race between two futures.

use std::pin::pin;
use std::task::Poll;

/// The future that was ready first, with its output.
#[derive(Debug)]
pub(crate) enum Raced<A, B> {
    First(A),
    Second(B),
}

/// Waits for one of two futures and drops the other. If both are ready, the first wins.
pub(crate) async fn race<A: Future, B: Future>(first: A, second: B) -> Raced<A::Output, B::Output> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready(Raced::First(output));
        }
        second.as_mut().poll(cx).map(Raced::Second)
    })
    .await
}
