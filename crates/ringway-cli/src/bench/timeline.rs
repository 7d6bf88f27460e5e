//! The rate over the time of a run.

use std::time::{Duration, Instant};

use ringway_runtime::sync::Notify;
use ringway_runtime::{sleep, timeout};

use crate::limits;

/// Sleeps until `length` after `began`, and returns the rate at which `done` has grown in each of
/// [`limits::TIMELINE_STEPS`] steps of that time, in operations a second; fewer if it is over before.
pub(super) async fn watch(
    began: Instant,
    length: Duration,
    done: impl Fn() -> u64,
    over: Option<&Notify>,
) -> Vec<f64> {
    let mut rates = Vec::with_capacity(limits::TIMELINE_STEPS as usize);
    let (mut last, mut counted) = (began, done());
    for step in 1..=limits::TIMELINE_STEPS {
        let due = began + length * step / limits::TIMELINE_STEPS;
        let left = due.saturating_duration_since(Instant::now());
        let is_over = match over {
            Some(over) => timeout(left, over.notified()).await.is_ok(),
            None => {
                sleep(left).await;
                false
            }
        };
        let (now, count) = (Instant::now(), done());
        let elapsed = now.duration_since(last).as_secs_f64();
        // A core that is late for one step is on time for the next.
        rates.push(if elapsed > 0.0 { (count - counted) as f64 / elapsed } else { 0.0 });
        (last, counted) = (now, count);
        if is_over {
            break;
        }
    }
    rates
}

/// Adds up the rates of several cores, step by step.
pub(super) fn sum<'r>(cores: impl IntoIterator<Item = &'r [f64]>) -> Vec<f64> {
    let mut all: Vec<f64> = Vec::new();
    for core in cores {
        all.resize(all.len().max(core.len()), 0.0);
        all.iter_mut().zip(core).for_each(|(sum, rate)| *sum += rate);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn cores_are_added_step_by_step() {
        assert_eq!(sum([&[1.0, 2.0][..], &[], &[10.0, 20.0, 30.0]]), [11.0, 22.0, 30.0]);
    }

    #[test]
    fn there_is_a_rate_for_each_step() {
        let steps = ringway_runtime::block_on(async {
            let count = Cell::new(0);
            let done = || count.replace(count.get() + 10);
            watch(Instant::now(), Duration::from_millis(20), done, None).await
        });
        let steps = steps.expect("a runtime");
        assert_eq!(steps.len(), limits::TIMELINE_STEPS as usize);
        assert!(steps.iter().all(|&rate| rate > 0.0), "{steps:?}");
    }
}
