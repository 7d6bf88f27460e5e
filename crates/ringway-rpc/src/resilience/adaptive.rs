//! A limit of concurrent calls that finds itself.

use std::time::Duration;

use crate::limits;

/// The number of calls that a method may run at once, from what it was seen to do: as many as keep
/// it at its best rate without letting its latency exceed about twice the least one.
///
/// The limit is `rate_max × ((2 + slack) × latency_min − latency)`, taken anew after each window of
/// calls. From time to time it is lowered for a while, so that the least latency shows again. The
/// formula is brpc's (docs/cn/auto_concurrency_limiter.md).
#[derive(Clone, Debug)]
pub(crate) struct AdaptiveLimit {
    limit: u32,
    /// Seconds.
    latency_min: Option<f64>,
    /// Calls per second.
    rate_max: f64,
    window: Window,
    /// When the least latency is measured anew.
    remeasure_at: Duration,
    remeasuring: bool,
}

#[derive(Clone, Debug)]
struct Window {
    began: Duration,
    calls: u32,
    latency_sum: Duration,
}

impl AdaptiveLimit {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            limit: limits::ADAPTIVE_START,
            latency_min: None,
            rate_max: 0.0,
            window: Window { began: now, calls: 0, latency_sum: Duration::ZERO },
            remeasure_at: now + limits::ADAPTIVE_REMEASURE,
            remeasuring: false,
        }
    }

    /// Calls that may run at once.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// A call has ended with an answer of its handler, after `latency` without its time in a queue.
    /// Whether a window of measuring has ended with it.
    pub(crate) fn ended(&mut self, latency: Duration, now: Duration) -> bool {
        self.window.calls += 1;
        self.window.latency_sum += latency;
        let length = now.saturating_sub(self.window.began);
        let is_full = self.window.calls >= limits::ADAPTIVE_CALLS_MAX;
        let is_over = length >= limits::ADAPTIVE_WINDOW;
        let ends = is_full || is_over;
        if ends {
            if self.window.calls >= limits::ADAPTIVE_CALLS_MIN && !length.is_zero() {
                self.update(length, now);
            }
            self.window = Window { began: now, calls: 0, latency_sum: Duration::ZERO };
        }
        ends
    }

    fn update(&mut self, length: Duration, now: Duration) {
        let calls = f64::from(self.window.calls);
        let latency = self.window.latency_sum.as_secs_f64() / calls;
        let rate = calls / length.as_secs_f64();
        if self.remeasuring {
            self.latency_min = Some(latency);
            self.remeasuring = false;
            self.remeasure_at = now + limits::ADAPTIVE_REMEASURE;
        }
        let latency_min = smooth_down(self.latency_min.unwrap_or(latency), latency);
        self.latency_min = Some(latency_min);
        self.rate_max = smooth_up(self.rate_max, rate);
        if now >= self.remeasure_at {
            self.remeasuring = true;
            self.limit = bounded(self.rate_max * latency_min * 0.5);
            return;
        }
        let room = (2.0 + limits::ADAPTIVE_SLACK) * latency_min - latency;
        let next = bounded(self.rate_max * room.max(latency_min * 0.5));
        // Half-way: one window is one opinion.
        self.limit = self.limit.midpoint(next).max(limits::ADAPTIVE_MIN);
    }
}

/// Follows a lower value soon, and not a higher one.
fn smooth_down(old: f64, new: f64) -> f64 {
    if new < old { old + (new - old) * 0.5 } else { old }
}

/// Follows a higher value at once, and a lower one slowly.
fn smooth_up(old: f64, new: f64) -> f64 {
    if new > old { new } else { old + (new - old) * 0.1 }
}

fn bounded(limit: f64) -> u32 {
    (limit.ceil() as u32).clamp(limits::ADAPTIVE_MIN, limits::ADAPTIVE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that does `capacity` calls at once, each in `service`; more of them share it.
    fn run(limit: &mut AdaptiveLimit, now: &mut Duration, service: Duration, capacity: u32) {
        for _ in 0..200 {
            let running = limit.limit().max(1);
            let latency = service * running.max(capacity) / capacity;
            // Each round: all that may run do so, and end together.
            *now += latency;
            for _ in 0..running {
                limit.ended(latency, *now);
            }
        }
    }

    #[test]
    fn it_settles_near_the_capacity() {
        let mut now = Duration::from_secs(1);
        let mut limit = AdaptiveLimit::new(now);
        run(&mut limit, &mut now, Duration::from_millis(10), 50);
        let settled = limit.limit();
        assert!((50..=130).contains(&settled), "{settled}");
    }

    #[test]
    fn it_falls_when_the_service_slows_down() {
        let mut now = Duration::from_secs(1);
        let mut limit = AdaptiveLimit::new(now);
        run(&mut limit, &mut now, Duration::from_millis(10), 50);
        let before = limit.limit();
        run(&mut limit, &mut now, Duration::from_millis(80), 5);
        assert!(limit.limit() < before / 2, "{} after {before}", limit.limit());
    }

    #[test]
    fn few_calls_change_nothing() {
        let mut limit = AdaptiveLimit::new(Duration::ZERO);
        for second in 1..50 {
            limit.ended(Duration::from_millis(900), Duration::from_secs(second));
        }
        assert_eq!(limit.limit(), limits::ADAPTIVE_START);
    }

    #[test]
    fn it_never_leaves_its_bounds() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut now = Duration::ZERO;
        let mut limit = AdaptiveLimit::new(now);
        for _ in 0..200_000 {
            now += Duration::from_nanos(random.u64(..200_000));
            limit.ended(Duration::from_nanos(random.u64(..2_000_000_000)), now);
            assert!((limits::ADAPTIVE_MIN..=limits::ADAPTIVE_MAX).contains(&limit.limit()));
        }
    }
}
