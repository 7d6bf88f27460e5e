//! TLS handshakes of one core: how many may be under way, and for how long.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ringway_runtime::io::Stream;
use ringway_runtime::sync::{CancellationToken, Semaphore};
use ringway_runtime::{now, sleep_until};

use super::context::CoreContext;
use super::log::log;
use super::until::until;
use crate::limits;
use crate::tls::{ServerTls, TlsStream, Watch};
use crate::transport::Transport;

/// Handshakes under way, bounded: one more ends the oldest. An honest client is done in a few round
/// trips and turns, so it is mostly those who hold places who lose them; when more come than the steps of
/// a turn can serve, others lose theirs as well.
pub(crate) struct Handshakes {
    max: usize,
    begun: Cell<u64>,
    /// By the order in which they began; the token is cancelled when the place is needed.
    places: RefCell<BTreeMap<u64, CancellationToken>>,
    /// What may be computed for them in one turn.
    steps: Semaphore,
}

/// A place among them, until it is dropped.
struct Place<'a> {
    handshakes: &'a Handshakes,
    number: u64,
    needed: CancellationToken,
}

impl Handshakes {
    pub(crate) fn new(max: usize) -> Self {
        let steps = Semaphore::new(limits::HANDSHAKE_STEPS_PER_TURN);
        Self { max: max.max(1), begun: Cell::new(0), places: RefCell::default(), steps }
    }

    fn begin(&self) -> Place<'_> {
        let number = self.begun.replace(self.begun.get() + 1);
        let needed = CancellationToken::new();
        let mut places = self.places.borrow_mut();
        places.insert(number, needed.clone());
        let oldest = if places.len() > self.max { places.pop_first() } else { None };
        drop(places);
        if let Some((_, oldest)) = oldest {
            oldest.cancel();
        }
        Place { handshakes: self, number, needed }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let place = self.handshakes.places.borrow_mut().remove(&self.number);
        drop(place);
    }
}

/// Opens a connection once its handshake is done.
pub(crate) async fn shake_hands(context: Rc<CoreContext>, stream: Stream, tls: ServerTls) {
    let place = context.handshakes.begin();
    let watch = Watch { steps: Some(&context.handshakes.steps), ..Watch::default() };
    let outlived = until(place.needed.cancelled(), patience(&context, &watch.heard));
    let done = until(outlived, TlsStream::accept_watched(stream, &tls, &watch)).await;
    drop(place);
    match done {
        Some(Ok(stream)) => {
            context.count(|share| &share.handshakes);
            return context.open(Transport::Tls(Box::new(stream)));
        }
        Some(Err(error)) => log(|| tracing::debug!(%error, "a TLS handshake failed")),
        None => log(|| tracing::debug!("a TLS handshake was given up")),
    }
    context.count(|share| &share.handshake_errors);
}

/// Waits until a handshake is not worth its place any more, but for its own time limit: at the abort
/// of the server, and a while after the beginning of its drain. A client that has said nothing by then
/// gets the time in which its first bytes may still be on their way, counted from now.
async fn patience(context: &CoreContext, heard: &Cell<bool>) {
    let began = now();
    let drained = async {
        context.draining.cancelled().await;
        let asked = now();
        if !heard.get() {
            sleep_until(began + limits::FIRST_BYTES_WAIT).await;
        }
        if heard.get() {
            sleep_until(asked + limits::HANDSHAKE_DRAIN_WAIT).await;
        }
    };
    until(context.aborting.cancelled(), drained).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_handshake_too_many_ends_the_oldest() {
        let handshakes = Handshakes::new(2);
        let first = handshakes.begin();
        let second = handshakes.begin();
        assert!(!first.needed.is_cancelled());
        let third = handshakes.begin();
        let ended = [&first, &second, &third].map(|place| place.needed.is_cancelled());
        assert_eq!(ended, [true, false, false]);
        drop((first, second));
        let fourth = handshakes.begin();
        assert!(!third.needed.is_cancelled(), "a place was free");
        drop((third, fourth));
        assert!(handshakes.places.borrow().is_empty());
    }
}
