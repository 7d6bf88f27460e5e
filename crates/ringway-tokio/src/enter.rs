//! Futures that stay on their core and use tokio from there.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};

use tokio::runtime::Handle;

use crate::side;

/// Runs a future on the calling core, within tokio's context whenever it is polled or dropped. So it
/// may use tokio's timers and sockets, and what it spawns by `tokio::spawn` runs on tokio's thread; it need
/// not be `Send`. Each event that it waits for takes a wake-up from that thread to this one.
///
/// # Errors
/// When the process has no tokio runtime yet and the system refuses the thread for one.
pub async fn enter<F: Future>(future: F) -> io::Result<F::Output> {
    let tokio = side::handle()?;
    let place = pin!(Some(future));
    let mut entered = Entered { tokio, place };
    let output = poll_fn(|cx| {
        let _entered = tokio.enter();
        let future = entered.place.as_mut().as_pin_mut().expect("it is there until the drop");
        future.poll(cx)
    });
    Ok(output.await)
}

struct Entered<'a, F> {
    tokio: &'static Handle,
    place: Pin<&'a mut Option<F>>,
}

impl<F> Drop for Entered<'_, F> {
    /// Destructors spawn tasks, such as those of pools that take their connections back.
    fn drop(&mut self) {
        let _entered = self.tokio.enter();
        self.place.set(None);
    }
}
