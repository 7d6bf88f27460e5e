//! Futures that end other work early.

use std::pin::pin;
use std::task::Poll;

/// Runs `work` until `end` is ready; `None` if `end` comes first. `end` is polled first, so that it
/// also ends work that is always ready.
pub(crate) async fn until<T>(end: impl Future, work: impl Future<Output = T>) -> Option<T> {
    let mut end = pin!(end);
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Polls `work` once; `None` if it is not ready.
pub(crate) async fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use ringway_runtime::block_on;

    use super::*;

    #[test]
    fn the_first_to_be_ready_decides_and_the_end_is_polled_first() {
        let decided = block_on(async {
            [
                until(pending::<()>(), ready(1)).await,
                until(ready(()), ready(2)).await,
                at_once(ready(3)).await,
                at_once(pending()).await,
            ]
        });
        assert_eq!(decided.expect("a core"), [Some(1), None, Some(3), None]);
    }
}
