//! Runs futures on tokio's threads and awaits them on a core.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringway_runtime::panic_message;
use tokio::task::{JoinError, JoinHandle};

use crate::{limits, side};

/// Runs a future on tokio's threads and waits for its result here. Dropping the returned future, as happens
/// when a handler's caller disconnects, cancels the future on tokio.
///
/// # Errors
/// Fails if the future panics, if 100,000 futures are running already, and if there is no tokio runtime because
/// it was shut down or the system refuses its thread.
pub async fn run<F>(future: F) -> Result<F::Output, RunError>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let place = Place::take().ok_or(RunError(Why::Full))?;
    let tokio = side::handle().map_err(|error| RunError(Why::NoRuntime(error)))?;
    let work = async move {
        let _place = place; // until the future is dropped, which may be after nobody awaits it
        future.await
    };
    let mut task = CancelledByDrop(tokio.spawn(work));
    let ended = poll_fn(|cx| Pin::new(&mut task.0).poll(cx)).await;
    ended.map_err(RunError::of)
}

struct CancelledByDrop<T>(JoinHandle<T>);

impl<T> Drop for CancelledByDrop<T> {
    fn drop(&mut self) {
        self.0.abort(); // does nothing to one that has ended
    }
}

/// A place among the futures that may run at once.
struct Place;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

impl Place {
    fn take() -> Option<Self> {
        let below = |running: usize| (running < limits::RUNNING_MAX).then_some(running + 1);
        RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).ok().map(|_| Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The reason why a future that was to [`run`] on tokio has no result.
#[derive(Debug)]
pub struct RunError(Why);

#[derive(Debug)]
enum Why {
    Panicked(String),
    Full,
    ShutDown,
    NoRuntime(io::Error),
}

impl RunError {
    fn of(error: JoinError) -> Self {
        Self(match error.try_into_panic() {
            Ok(payload) => Why::Panicked(panic_message(payload)),
            Err(_cancelled) => Why::ShutDown,
        })
    }

    /// Whether the future panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.0, Why::Panicked(_))
    }

    /// Whether the future was not started because too many were running.
    pub fn is_limit(&self) -> bool {
        matches!(self.0, Why::Full)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::Panicked(message) => write!(f, "a future on tokio panicked: {message}"),
            Why::Full => write!(f, "{} futures are running on tokio already", limits::RUNNING_MAX),
            Why::ShutDown => f.write_str("the tokio runtime was shut down"),
            Why::NoRuntime(error) => write!(f, "cannot start a tokio runtime: {error}"),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Why::NoRuntime(error) => Some(error),
            Why::Panicked(_) | Why::Full | Why::ShutDown => None,
        }
    }
}
