//! TLS handshakes of one core of a server: how many may be under way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ringway_runtime::sync::CancellationToken;

use super::steps::{Line, Steps};
use crate::limits;

/// Handshakes under way, bounded. One more ends the oldest of those for which nothing was computed yet:
/// they are cheap to have. They keep a part of the places, though, so that handshakes which were begun and
/// are not gone on with cannot fill all; below that part the oldest of the others ends.
pub(crate) struct Handshakes {
    max: usize,
    newcomers_kept: usize,
    begun: Cell<u64>,
    places: RefCell<Seats>,
    steps: Rc<Steps>,
}

/// By the order in which they began; a token is cancelled when the place is needed.
#[derive(Default)]
struct Seats {
    newcomers: BTreeMap<u64, CancellationToken>,
    computed: BTreeMap<u64, CancellationToken>,
}

/// A place among them, until it is dropped.
pub(crate) struct Place<'a> {
    handshakes: &'a Handshakes,
    number: u64,
    needed: CancellationToken,
    heard: Cell<bool>,
    steps_taken: Cell<u32>,
}

impl Handshakes {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.max(1);
        Self {
            max,
            newcomers_kept: (max / limits::HANDSHAKES_NEW_FRACTION).max(1),
            begun: Cell::new(0),
            places: RefCell::default(),
            steps: Rc::default(),
        }
    }

    pub(crate) fn begin(&self) -> Place<'_> {
        let number = self.begun.replace(self.begun.get() + 1);
        let needed = CancellationToken::new();
        let ended = self.places.borrow_mut().add(number, &needed, self);
        if let Some(ended) = ended {
            ended.cancel();
        }
        let (heard, steps_taken) = (Cell::new(false), Cell::new(0));
        Place { handshakes: self, number, needed, heard, steps_taken }
    }
}

impl Seats {
    /// Adds a handshake, and returns the one that has to make room for it.
    fn add(
        &mut self,
        number: u64,
        needed: &CancellationToken,
        bounds: &Handshakes,
    ) -> Option<CancellationToken> {
        self.newcomers.insert(number, needed.clone());
        if self.newcomers.len() + self.computed.len() <= bounds.max {
            return None;
        }
        let from = match self.newcomers.len() > bounds.newcomers_kept {
            true => &mut self.newcomers,
            false => &mut self.computed,
        };
        from.pop_first().map(|(_, ended)| ended)
    }
}

impl Place<'_> {
    /// Waits until the place is needed for somebody else.
    pub(crate) async fn needed(&self) {
        self.needed.cancelled().await;
    }

    /// Whether the client has said anything.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard.get()
    }

    pub(super) fn hear(&self) {
        self.heard.set(true);
    }

    /// Waits until what the client has said may be computed with.
    pub(super) async fn step(&self) {
        let line = match self.steps_taken.get() {
            1..=limits::HANDSHAKE_STEPS_PREFERRED => Line::Later,
            _ => Line::First,
        };
        self.handshakes.steps.take(line).await;
        self.steps_taken.set(self.steps_taken.get().saturating_add(1));
        let mut places = self.handshakes.places.borrow_mut();
        if let Some(needed) = places.newcomers.remove(&self.number) {
            places.computed.insert(self.number, needed);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = self.handshakes.places.borrow_mut();
        let newcomer = places.newcomers.remove(&self.number);
        let place = newcomer.or_else(|| places.computed.remove(&self.number));
        drop(places);
        drop(place);
    }
}

#[cfg(test)]
mod tests {
    use ringway_runtime::block_on;

    use super::*;

    fn ended(places: &[Place<'_>]) -> Vec<bool> {
        places.iter().map(|place| place.needed.is_cancelled()).collect()
    }

    #[test]
    fn one_handshake_too_many_ends_the_oldest() {
        let handshakes = Handshakes::new(2);
        let mut places: Vec<_> = (0..3).map(|_| handshakes.begin()).collect();
        assert_eq!(ended(&places), [true, false, false]);
        places.drain(..2);
        let fourth = handshakes.begin();
        assert_eq!(ended(&places), [false], "a place was free");
        drop((places, fourth));
        let places = handshakes.places.borrow();
        assert!(places.newcomers.is_empty() && places.computed.is_empty());
    }

    #[test]
    fn nothing_computed_is_thrown_away_while_others_have_cost_nothing() {
        let done = block_on(async {
            let handshakes = Handshakes::new(8);
            let mut places: Vec<_> = (0..8).map(|_| handshakes.begin()).collect();
            places[0].step().await;
            places.extend((0..100).map(|_| handshakes.begin()));
            let lives = ended(&places).iter().filter(|ended| !**ended).count();
            assert!(!ended(&places)[0] && lives == 8, "{lives} live");
        });
        done.expect("a core");
    }

    #[test]
    fn handshakes_that_are_not_gone_on_with_leave_places_to_newcomers() {
        let ends = block_on(async {
            let handshakes = Handshakes::new(8);
            let mut places: Vec<_> = (0..8).map(|_| handshakes.begin()).collect();
            for place in &places {
                place.step().await;
            }
            places.extend((0..3).map(|_| handshakes.begin()));
            ended(&places)
        });
        let ends = ends.expect("a core");
        assert_eq!(ends[..3], [true, true, false], "the oldest make room for two");
        assert_eq!(ends[8..], [true, false, false], "and then the oldest newcomer");
    }
}
