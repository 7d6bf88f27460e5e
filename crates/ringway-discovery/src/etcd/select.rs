//! Waiting for one of two things.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

pub(super) enum First<A, B> {
    One(A),
    Other(B),
}

/// Waits for the first of two futures, and drops the other. If both are ready, it is `one`.
pub(super) async fn first<A, B>(
    one: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> First<A, B> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| {
        if let Poll::Ready(value) = one.as_mut().poll(cx) {
            return Poll::Ready(First::One(value));
        }
        other.as_mut().poll(cx).map(First::Other)
    })
    .await
}
