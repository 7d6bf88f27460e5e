//! A bound on the TLS handshake computation of one core in one turn.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ringway_runtime::sync::CancellationToken;
use ringway_runtime::{spawn_named, yield_now};

use crate::limits;

/// Grants the steps of handshakes, a few per turn. A handshake that waits for a later step goes
/// before those that wait for their first: its computation is lost if it does not finish in time.
#[derive(Default)]
pub(super) struct Steps {
    lines: RefCell<Lines>,
}

/// The queue in which a handshake waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    Later,
    First,
}

#[derive(Default)]
struct Lines {
    /// Whether a task grants steps. If not, both queues are empty.
    is_dealing: bool,
    joined: u64,
    /// Waiting handshakes by the order in which they came. Cancelling the token grants the step.
    later: BTreeMap<u64, CancellationToken>,
    first: BTreeMap<u64, CancellationToken>,
}

/// An entry of a queue, until it is dropped.
struct InLine<'a> {
    steps: &'a Steps,
    line: Line,
    number: u64,
    served: CancellationToken,
}

impl Steps {
    /// Waits until a step is granted; returns at once if none was granted in this turn.
    pub(super) async fn take(self: &Rc<Self>, line: Line) {
        match self.join(line) {
            Some(waiting) => waiting.served.cancelled().await,
            None => drop(spawn_named("steps of TLS handshakes", deal(Rc::clone(self)))),
        }
    }

    /// Enters a queue. `None` if the step may be taken at once; the caller must then start the task
    /// that grants the next ones.
    fn join(&self, line: Line) -> Option<InLine<'_>> {
        let mut lines = self.lines.borrow_mut();
        if !std::mem::replace(&mut lines.is_dealing, true) {
            return None;
        }
        let number = lines.joined;
        lines.joined += 1;
        let served = CancellationToken::new();
        lines.of(line).insert(number, served.clone());
        Some(InLine { steps: self, line, number, served })
    }

    fn next(&self) -> Option<CancellationToken> {
        let mut lines = self.lines.borrow_mut();
        let (_, next) = lines.later.pop_first().or_else(|| lines.first.pop_first())?;
        Some(next)
    }
}

impl Lines {
    fn of(&mut self, line: Line) -> &mut BTreeMap<u64, CancellationToken> {
        match line {
            Line::Later => &mut self.later,
            Line::First => &mut self.first,
        }
    }
}

/// Grants steps in each turn, until a turn in which no handshake waits.
async fn deal(steps: Rc<Steps>) {
    loop {
        yield_now().await;
        for dealt in 0..limits::HANDSHAKE_STEPS_PER_TURN {
            match steps.next() {
                Some(next) => next.cancel(),
                None if dealt == 0 => {
                    steps.lines.borrow_mut().is_dealing = false;
                    return;
                }
                None => break,
            }
        }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let left = self.steps.lines.borrow_mut().of(self.line).remove(&self.number);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ringway_runtime::{block_on, spawn};

    use super::*;

    #[test]
    fn later_steps_precede_first_steps_and_a_turn_grants_a_few() {
        const EACH: usize = 6;
        let order = block_on(async {
            let steps = Rc::new(Steps::default());
            let order = Rc::new(RefCell::new(Vec::new()));
            let turn = Rc::new(Cell::new(0));
            steps.take(Line::First).await;
            let tasks: Vec<_> = [Line::First; EACH]
                .into_iter()
                .chain([Line::Later; EACH])
                .map(|line| {
                    let (steps, order, turn) = (steps.clone(), order.clone(), turn.clone());
                    spawn(async move {
                        steps.take(line).await;
                        order.borrow_mut().push((matches!(line, Line::Later), turn.get()));
                    })
                })
                .collect();
            while order.borrow().len() < 2 * EACH {
                yield_now().await;
                turn.set(turn.get() + 1);
            }
            for task in tasks {
                task.await.expect("no panic");
            }
            order.take()
        });
        let order = order.expect("a core");
        assert!(order.iter().take(EACH).all(|&(later, _)| later), "{order:?}");
        assert!(order.iter().skip(EACH).all(|&(later, _)| !later), "{order:?}");
        for &(_, turn) in &order {
            let at_once = order.iter().filter(|&&(_, other)| other == turn).count();
            assert!(at_once <= limits::HANDSHAKE_STEPS_PER_TURN as usize, "{order:?}");
        }
    }

    #[test]
    fn dropped_waiters_leave_the_queue() {
        let steps = Rc::new(Steps::default());
        assert!(steps.join(Line::First).is_none(), "nobody is before it");
        let (gone, stays) = (steps.join(Line::First), steps.join(Line::First));
        drop(gone);
        let next = steps.next().expect("one waits");
        next.cancel();
        assert!(stays.expect("it waits").served.is_cancelled());
        assert!(steps.next().is_none());
    }
}
