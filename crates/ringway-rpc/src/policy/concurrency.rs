//! An adaptive limit of concurrent calls.

use std::collections::VecDeque;
use std::time::Duration;

use crate::call::status::Code;
use crate::limits;

/// The number of calls that a method may run at once, derived from measurements: the number that
/// keeps its rate at the maximum without raising its latency by more than about half.
///
/// After each window of calls the limit is set to `rate_max × latency_min × 1.5`. So it grows while
/// that makes the method faster, and stops where calls only wait for each other. Measurements
/// expire. The maximum rate is that of the last windows. The minimum latency is valid for a while;
/// then it is measured again with fewer calls running, and with fewer still as long as that makes
/// them faster. If few calls run and still take long, concurrency is not the cause, and the higher
/// latency becomes the minimum. (BBR estimates the capacity of a network path in the same way.)
///
/// It measures the latency of successful calls only. Other calls count as work, but often end at
/// once, so their latency says nothing.
#[derive(Clone, Debug)]
pub(crate) struct AdaptiveLimit {
    limit: u32,
    /// The minimum latency in seconds; `None` before the first measurement.
    latency_min: Option<f64>,
    /// When the minimum latency was last measured.
    seen_at: Option<Duration>,
    /// Calls per second in the last windows in which calls had to wait.
    rates: VecDeque<f64>,
    /// The latency before a probe lowered the limit, while the probe runs.
    probing: Option<f64>,
    /// When the limit was last lowered; calls that began before ran under another limit.
    lowered_at: Duration,
    /// Whether more calls run than the limit allows, because it was lowered.
    settling: bool,
    window: Window,
}

#[derive(Clone, Debug, Default)]
struct Window {
    began: Duration,
    /// Successful calls and the sum of their latencies.
    successes: u32,
    success_sum: Duration,
    /// Successful calls that ran only under the current limit, and the sum of their latencies.
    measured: u32,
    measured_sum: Duration,
    /// The sum of the latencies of all answered calls, successful or not.
    work_sum: Duration,
    is_pressed: bool,
}

/// The measurements at the end of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) answer: Answer,
    /// The latency of the handler, without the time in a queue.
    pub(crate) latency: Duration,
    pub(crate) now: Duration,
    /// Calls that are still running.
    pub(crate) running: u32,
    /// Whether more calls wait than may run.
    pub(crate) is_pressed: bool,
}

/// How a call's end counts as work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The work was done.
    Success,
    /// The work was done as far as the caller's request allowed.
    Failure,
    /// The call was cancelled, or the server failed to execute it.
    None,
}

impl Answer {
    pub(crate) fn of(code: Code) -> Self {
        match code {
            Code::Ok => Self::Success,
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Unavailable
            | Code::ResourceExhausted
            | Code::Internal
            | Code::Unknown
            | Code::DataLoss => Self::None,
            _ => Self::Failure,
        }
    }
}

impl AdaptiveLimit {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            limit: limits::ADAPTIVE_START,
            latency_min: None,
            seen_at: None,
            rates: VecDeque::new(),
            probing: None,
            lowered_at: now,
            settling: false,
            window: Window { began: now, ..Window::default() },
        }
    }

    /// Returns the number of calls that may run at once.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the latency of a call that waits for no other.
    pub(crate) fn latency_min(&self) -> Duration {
        Duration::from_secs_f64(self.latency_min.unwrap_or(0.0))
    }

    /// Notes the end of a call; returns whether a measuring window has ended with it.
    pub(crate) fn ended(&mut self, ended: Ended) -> bool {
        let Ended { answer, latency, now, running, is_pressed } = ended;
        if self.settling {
            let is_late = now.saturating_sub(self.lowered_at) >= limits::ADAPTIVE_WINDOW_MAX;
            if running <= self.limit || is_late {
                self.settling = false;
                self.lowered_at = now;
                self.window = Window { began: now, ..Window::default() };
            }
            return false;
        }
        let window = &mut self.window;
        window.is_pressed |= is_pressed;
        if answer != Answer::None {
            window.work_sum += latency;
        }
        if answer == Answer::Success {
            window.successes += 1;
            window.success_sum += latency;
            if now.saturating_sub(latency) >= self.lowered_at {
                window.measured += 1;
                window.measured_sum += latency;
            }
        }
        let length = now.saturating_sub(window.began);
        let is_full = window.measured >= limits::ADAPTIVE_CALLS_MAX;
        let is_enough = window.measured >= limits::ADAPTIVE_CALLS_MIN.min(self.limit).max(1);
        let is_searching = self.seen_at.is_none() || self.probing.is_some();
        let shortest = match is_searching {
            true => limits::ADAPTIVE_SEARCH_WINDOW,
            false => limits::ADAPTIVE_WINDOW,
        };
        let is_over = length >= shortest && is_enough;
        // An old window says nothing about now, unless it had all the load.
        let is_stale = length >= limits::ADAPTIVE_WINDOW_MAX && !window.is_pressed;
        if !is_full && !is_over && !is_stale {
            return false;
        }
        let window =
            std::mem::replace(&mut self.window, Window { began: now, ..Window::default() });
        if is_enough && !length.is_zero() {
            self.learn(&window, length, now);
        }
        true
    }

    fn learn(&mut self, window: &Window, length: Duration, now: Duration) {
        let latency = window.measured_sum.as_secs_f64() / f64::from(window.measured);
        // Failing calls run beside successful ones and need room as well.
        let work = window.work_sum.as_secs_f64() / window.success_sum.as_secs_f64().max(1e-9);
        let rate = f64::from(window.successes) / length.as_secs_f64();
        let rate = rate * work.clamp(1.0, limits::ADAPTIVE_WORK_MAX);
        if let Some(before) = self.probing.take() {
            return self.end_probe(before, latency, rate, now);
        }
        let known = *self.latency_min.get_or_insert(latency);
        let is_old = |seen: Duration| now.saturating_sub(seen) > limits::ADAPTIVE_REMEASURE;
        let is_forgotten = self.seen_at.is_none_or(is_old);
        if !window.is_pressed {
            // No call waits, so this is the minimum latency, and the limit is not too low.
            if latency <= known || is_forgotten {
                self.see(latency, now);
            }
            self.note_rate(rate);
            self.limit = self.limit.max(self.wanted());
            return;
        }
        self.note_rate(rate);
        if latency > limits::ADAPTIVE_SLOW * known && f64::from(self.limit) <= self.enough() {
            self.forget_rates(rate);
            self.see(latency, now);
        } else if is_forgotten {
            return self.probe(latency, now);
        } else if latency <= known {
            self.see(latency, now);
        }
        self.set(self.wanted(), now);
    }

    fn see(&mut self, latency: f64, now: Duration) {
        (self.latency_min, self.seen_at) = (Some(latency), Some(now));
    }

    fn note_rate(&mut self, rate: f64) {
        if self.rates.len() >= limits::ADAPTIVE_RATES {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
    }

    fn forget_rates(&mut self, rate: f64) {
        self.rates.clear();
        self.rates.push_back(rate);
    }

    /// Lowers the limit to measure the latency with fewer calls.
    fn probe(&mut self, latency: f64, now: Duration) {
        self.probing = Some(latency);
        self.set(bounded(self.enough().min(self.limit.into()) / 2.0), now);
    }

    fn end_probe(&mut self, before: f64, latency: f64, rate: f64, now: Duration) {
        let known = self.latency_min.unwrap_or(latency);
        if latency > limits::ADAPTIVE_SAME * known {
            self.forget_rates(rate);
        }
        self.see(latency, now);
        let is_faster = latency * limits::ADAPTIVE_SAME < before;
        match is_faster && self.limit > limits::ADAPTIVE_MIN {
            true => self.probe(latency, now),
            false => self.set(self.wanted(), now),
        }
    }

    fn set(&mut self, limit: u32, now: Duration) {
        if f64::from(limit) < f64::from(self.limit) * 0.9 {
            (self.settling, self.lowered_at) = (true, now);
        }
        self.limit = limit;
    }

    fn rate_max(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the number of concurrent calls that the maximum rate needs.
    fn enough(&self) -> f64 {
        (self.rate_max() * self.latency_min.unwrap_or(0.0)).max(limits::ADAPTIVE_MIN.into())
    }

    fn wanted(&self) -> u32 {
        let latency = limits::ADAPTIVE_GAIN * self.latency_min.unwrap_or(0.0);
        let latency = latency.max(limits::ADAPTIVE_UNMINDED.as_secs_f64());
        bounded(self.rate_max() * latency).min(self.limit.saturating_mul(2))
    }
}

fn bounded(limit: f64) -> u32 {
    (limit.ceil() as u32).clamp(limits::ADAPTIVE_MIN, limits::ADAPTIVE_MAX)
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// An overloaded method and its clock.
    struct Overloaded {
        limit: AdaptiveLimit,
        now: Duration,
        /// The running calls: when each ends and when it began.
        running: BinaryHeap<Reverse<(Duration, Duration)>>,
        /// When each server of the shared resource becomes free.
        servers: BinaryHeap<Reverse<Duration>>,
        random: fastrand::Rng,
    }

    /// The results of a simulated period.
    #[derive(Debug)]
    struct Seen {
        /// The share of the possible work that was done.
        share: f64,
        latency_mean: Duration,
    }

    impl Overloaded {
        fn new() -> Self {
            let now = Duration::from_secs(1);
            Self {
                limit: AdaptiveLimit::new(now),
                now,
                running: BinaryHeap::new(),
                servers: BinaryHeap::new(),
                random: fastrand::Rng::with_seed(3),
            }
        }

        fn ended(&mut self, answer: Answer, latency: Duration) {
            let (now, running) = (self.now, self.running.len() as u32);
            self.limit.ended(Ended { answer, latency, now, running, is_pressed: true });
        }

        /// Runs as many calls as the limit allows on a resource with `servers` servers, each call
        /// for about `service`.
        fn run(&mut self, seconds: u64, service: Duration, servers: usize) -> Seen {
            if self.servers.len() != servers {
                self.servers = std::iter::repeat_n(Reverse(self.now), servers).collect();
            }
            let (began, mut done, mut sum) = (self.now, 0_u32, Duration::ZERO);
            while self.now < began + Duration::from_secs(seconds) {
                while self.running.len() < self.limit.limit() as usize {
                    let Reverse(free) = self.servers.pop().expect("there are servers");
                    let took = service.mul_f64(0.9 + 0.2 * self.random.f64());
                    let end = free.max(self.now) + took;
                    self.servers.push(Reverse(end));
                    self.running.push(Reverse((end, self.now)));
                }
                let Reverse((end, call_began)) = self.running.pop().expect("some run");
                self.now = self.now.max(end);
                self.ended(Answer::Success, self.now - call_began);
                (done, sum) = (done + 1, sum + (self.now - call_began));
            }
            let could = (self.now - began).as_secs_f64() / service.as_secs_f64() * servers as f64;
            Seen { share: f64::from(done) / could, latency_mean: sum / done }
        }
    }

    #[test]
    fn limit_finds_the_capacity_of_a_resource() {
        let cases = [(2, 20), (10, 50), (20, 64), (50, 100), (200, 8), (500, 4), (1_000, 8)];
        for (ms, servers) in cases {
            let mut method = Overloaded::new();
            method.run(30, ms * MS, servers);
            let seen = method.run(30, ms * MS, servers);
            assert!(seen.share > 0.93, "{ms} ms, {servers} servers: {seen:?}");
            assert!(
                seen.latency_mean < (2 * ms).max(6) * MS,
                "{ms} ms, {servers} servers: {seen:?}"
            );
        }
    }

    #[test]
    fn limit_follows_changes_of_speed_and_capacity() {
        let mut method = Overloaded::new();
        for (ms, servers) in [(10, 50), (100, 50), (10, 50), (80, 5), (80, 50), (20, 64)] {
            method.run(30, ms * MS, servers);
            let seen = method.run(30, ms * MS, servers);
            assert!(seen.share > 0.9, "{ms} ms, {servers} servers: {seen:?}");
            assert!(seen.latency_mean < 2 * ms * MS, "{ms} ms, {servers} servers: {seen:?}");
        }
    }

    #[test]
    fn computing_handlers_are_limited_to_a_few_milliseconds_of_waiting() {
        // One call runs at a time, whatever the limit; the others wait in the core.
        for service in [MS / 10, MS] {
            let mut method = Overloaded::new();
            for _ in 0..20_000 {
                method.now += service;
                method.ended(Answer::Success, service);
            }
            let waits = service * method.limit.limit();
            assert!((3 * MS..=8 * MS).contains(&waits), "{waits:?}");
        }
    }

    #[test]
    fn failed_calls_do_not_change_the_latency() {
        for answer in [Answer::Failure, Answer::None] {
            let mut method = Overloaded::new();
            method.run(30, 20 * MS, 64);
            method.running.clear();
            let before = method.limit.limit();
            for _ in 0..1_000_000 {
                method.now += Duration::from_micros(10);
                method.ended(answer, Duration::from_micros(10));
            }
            assert_eq!(method.limit.limit(), before);
            let seen = method.run(10, 20 * MS, 64);
            assert!(seen.share > 0.9 && seen.latency_mean < 40 * MS, "{seen:?}");
        }
    }

    #[test]
    fn failures_count_as_work() {
        let mut method = Overloaded::new();
        for _ in 0..5_000 {
            let running = method.limit.limit();
            let latency = 10 * MS * running.max(100) / 100;
            method.now += latency;
            for call in 0..running {
                let succeeds = call % 10 == 0;
                method.ended(if succeeds { Answer::Success } else { Answer::Failure }, latency);
            }
        }
        let limit = method.limit.limit();
        assert!((90..=250).contains(&limit), "{limit}");
    }

    #[test]
    fn limit_that_is_not_reached_is_not_lowered() {
        let mut limit = AdaptiveLimit::new(Duration::ZERO);
        for second in 1..500 {
            let now = Duration::from_secs(second);
            let latency = if second % 7 == 0 { 900 * MS } else { MS };
            let answer = Answer::Success;
            limit.ended(Ended { answer, latency, now, running: 0, is_pressed: false });
        }
        assert_eq!(limit.limit(), limits::ADAPTIVE_START);
    }

    #[test]
    fn limit_stays_within_its_bounds() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut now = Duration::ZERO;
        let mut limit = AdaptiveLimit::new(now);
        for _ in 0..200_000 {
            now += Duration::from_nanos(random.u64(..200_000));
            let latency = Duration::from_nanos(random.u64(..2_000_000_000));
            let answer = [Answer::Success, Answer::Failure, Answer::None][random.usize(..3)];
            let (running, is_pressed) = (random.u32(..100), random.bool());
            limit.ended(Ended { answer, latency, now, running, is_pressed });
            assert!((limits::ADAPTIVE_MIN..=limits::ADAPTIVE_MAX).contains(&limit.limit()));
            assert!(limit.rates.len() <= limits::ADAPTIVE_RATES);
        }
    }
}
