//! Staggered parallel attempts (RFC 8305, "Happy Eyeballs").

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use ringway_runtime::{Sleep, sleep};

use crate::error::{Error, Result};
use crate::limits;
use crate::tls::TlsError;

/// Returns the first attempt that succeeds and drops the others. The next attempt begins when the
/// last has failed or its head start has passed. `None` without attempts.
///
/// # Errors
/// Returns the error of an attempt that a retry might change, if there is one.
pub(super) async fn first<T, F>(attempts: impl Iterator<Item = F>) -> Option<Result<T>>
where
    F: Future<Output = Result<T>>,
{
    let mut race =
        Race { attempts: attempts.peekable(), running: Vec::new(), next: None, why: None };
    poll_fn(|cx| race.poll(cx)).await
}

struct Race<I: Iterator> {
    /// The attempts that have not begun.
    attempts: std::iter::Peekable<I>,
    running: Vec<Pin<Box<I::Item>>>,
    /// The head start of the last attempt; `None` when the next may begin now.
    next: Option<Sleep>,
    why: Option<Error>,
}

impl<T, I> Race<I>
where
    I: Iterator<Item: Future<Output = Result<T>>>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        loop {
            if let Poll::Ready(won) = self.poll_running(cx) {
                return Poll::Ready(Some(Ok(won)));
            }
            let has_head_start = match &mut self.next {
                Some(sleep) => Pin::new(sleep).poll(cx).is_pending(),
                None => false,
            };
            if has_head_start {
                return Poll::Pending;
            }
            match self.attempts.next() {
                Some(attempt) => self.running.push(Box::pin(attempt)),
                None if self.running.is_empty() => return Poll::Ready(self.why.take().map(Err)),
                None => return Poll::Pending,
            }
            let others = self.attempts.peek().is_some();
            self.next = others.then(|| sleep(limits::ADDRESS_HEAD_START));
        }
    }

    fn poll_running(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let mut at = 0;
        while let Some(attempt) = self.running.get_mut(at) {
            match attempt.as_mut().poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(won)) => return Poll::Ready(won),
                Poll::Ready(Err(error)) => {
                    drop(self.running.remove(at));
                    self.next = None;
                    if self.why.as_ref().is_none_or(|why| is_final(why) || !is_final(&error)) {
                        self.why = Some(error);
                    }
                }
            }
        }
        Poll::Pending
    }
}

/// Whether a retry would fail with the same error.
pub(super) fn is_final(error: &Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let Some(cause) = error.as_io() else { return error.is_tls() };
    match TlsError::of(cause) {
        Some(tls) => tls.is_final(),
        None => matches!(cause.kind(), InvalidInput | PermissionDenied | Unsupported),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::time::Duration;

    use ringway_runtime::sim::SimConfig;
    use ringway_runtime::{Builder, now};

    use super::*;
    use crate::error::Kind;

    type Attempt = Pin<Box<dyn Future<Output = Result<u8>>>>;

    /// Runs a test on the simulated clock.
    fn simulate<F: Future<Output = ()> + 'static>(test: F) {
        Builder::simulate(SimConfig::new(1), test).expect("a simulation");
    }

    fn failing(kind: Kind) -> Attempt {
        Box::pin(ready(Err(Error::new(kind, format!("{kind:?}")))))
    }

    fn after(delay: Duration, value: u8) -> Attempt {
        Box::pin(async move {
            sleep(delay).await;
            Ok(value)
        })
    }

    #[test]
    fn silent_attempt_delays_the_next_by_its_head_start() {
        simulate(async {
            let began = now();
            let attempts =
                [Box::pin(pending()) as Attempt, Box::pin(pending()), after(Duration::ZERO, 3)];
            let won = first(attempts.into_iter()).await.expect("three").expect("the third");
            assert_eq!(won, 3);
            assert!(now() - began >= 2 * limits::ADDRESS_HEAD_START);
            assert!(now() - began < 3 * limits::ADDRESS_HEAD_START);
        });
    }

    #[test]
    fn failed_attempt_starts_the_next_at_once_and_a_slow_one_still_wins() {
        simulate(async {
            let began = now();
            let slow = 5 * limits::ADDRESS_HEAD_START;
            let attempts = [failing(Kind::Closed), after(slow, 2), failing(Kind::Closed)];
            let won = first(attempts.into_iter()).await.expect("three").expect("the second");
            assert_eq!(won, 2);
            assert!(now() - began < 6 * limits::ADDRESS_HEAD_START);
        });
    }

    #[test]
    fn no_more_attempts_begin_than_needed() {
        simulate(async {
            let begun = Cell::new(0);
            let attempt = || {
                begun.set(begun.get() + 1);
                after(Duration::ZERO, 1)
            };
            let attempts = (0..5).map(|_| attempt());
            // One attempt is made ahead, to know whether there is another.
            assert_eq!(first(attempts).await.expect("five").expect("the first"), 1);
            assert!(begun.get() <= 2);
            assert!(first(std::iter::empty::<Attempt>()).await.is_none());
        });
    }

    #[test]
    fn transient_error_is_reported_rather_than_a_final_one() {
        simulate(async {
            for kinds in [[Kind::Tls, Kind::Timeout], [Kind::Timeout, Kind::Tls]] {
                let lost = first(kinds.map(failing).into_iter()).await.expect("two");
                assert!(lost.expect_err("both fail").is_timeout(), "{kinds:?}");
            }
        });
    }
}
