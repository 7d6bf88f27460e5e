//! Futures that use tokio and stay on their core.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};

use tokio::runtime::Handle;

use crate::side;

/// Runs a future on the calling core, and polls and drops it in tokio's context. So the future
/// may use tokio's timers and sockets, and `tokio::spawn` starts tasks on tokio's thread. It need
/// not be `Send`. Each event that it waits for costs one wake-up from that thread.
///
/// # Errors
/// Fails if the process has no tokio runtime yet and the system refuses a thread for one.
pub async fn enter<F: Future>(future: F) -> io::Result<F::Output> {
    let tokio = side::handle()?;
    let place = pin!(Some(future));
    let mut entered = Entered { tokio, place };
    let output = poll_fn(|cx| {
        let _entered = tokio.enter();
        let future =
            entered.place.as_mut().as_pin_mut().expect("the future is there until the drop");
        future.poll(cx)
    });
    Ok(output.await)
}

struct Entered<'a, F> {
    tokio: &'static Handle,
    place: Pin<&'a mut Option<F>>,
}

impl<F> Drop for Entered<'_, F> {
    /// Destructors may spawn tasks: pools do so to take their connections back.
    fn drop(&mut self) {
        let _entered = self.tokio.enter();
        self.place.set(None);
    }
}
