//! A limit of concurrent calls that finds itself.

use std::collections::VecDeque;
use std::time::Duration;

use crate::call::status::Code;
use crate::limits;

/// The number of calls that a method may run at once, from what it was seen to do: as many as keep
/// it at its best rate without letting its latency exceed about half as much again as the least one.
///
/// The limit is `rate_max × latency_min`, and half of that more, taken anew after each window of
/// calls. So it grows while that makes the method faster, and stops where calls only wait for each
/// other. What it knows fades: the best rate is that of the last windows; the least latency is
/// believed for a while, then measured anew by letting fewer calls run, and fewer again as long as
/// that makes them faster. And where few calls run and take long all the same, it is not the number
/// of them that makes them slow, so that latency is the least from then on. (This is how BBR finds
/// what a path can carry.)
///
/// It learns from calls that succeed. Others take their part of the work, but say nothing of how long
/// that should take: those that fail are often over at once.
#[derive(Clone, Debug)]
pub(crate) struct AdaptiveLimit {
    limit: u32,
    /// Seconds; `None` before anything was seen.
    latency_min: Option<f64>,
    /// When that was last seen.
    seen_at: Option<Duration>,
    /// Calls per second in the last windows with more calls than could run.
    rates: VecDeque<f64>,
    /// The latency before fewer calls were let run, to see whether there is a lower one.
    probing: Option<f64>,
    /// Since when the limit is as low as it is; calls that began before saw another one.
    lowered_at: Duration,
    /// More calls run than the limit allows, since it was lowered.
    settling: bool,
    window: Window,
}

#[derive(Clone, Debug, Default)]
struct Window {
    began: Duration,
    /// Calls that have succeeded, and the time that they took.
    successes: u32,
    success_sum: Duration,
    /// Those of them that have seen nothing but this limit, and theirs.
    measured: u32,
    measured_sum: Duration,
    /// The time that all took whose handler has answered.
    work_sum: Duration,
    is_pressed: bool,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) answer: Answer,
    /// Without its time in a queue.
    pub(crate) latency: Duration,
    pub(crate) now: Duration,
    /// Calls that still run.
    pub(crate) running: u32,
    /// More calls wanted to run than may.
    pub(crate) is_pressed: bool,
}

/// What the end of a call says of the work that it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It was done.
    Success,
    /// It was done as far as the caller made that possible.
    Failure,
    /// It was given up, or the server could not do it.
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

    /// Calls that may run at once.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// What a call takes that has nobody to wait for.
    pub(crate) fn latency_min(&self) -> Duration {
        Duration::from_secs_f64(self.latency_min.unwrap_or(0.0))
    }

    /// A call has ended. Whether a window of measuring has ended with it.
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
        let is_over = length >= limits::ADAPTIVE_WINDOW && is_enough;
        // What came long ago says nothing of now, unless it is all there was.
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
        // Those that fail have to run beside those that succeed.
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
            // Nobody waits, so this is the least latency, and the limit is not too low.
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

    /// Lets fewer calls run, to see what they take then.
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

    /// Calls that have to run for the best rate.
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

    /// A method under more load than it can bear, and the clock.
    struct Overloaded {
        limit: AdaptiveLimit,
        now: Duration,
        /// Of the calls that run: when each will have ended, and when it began.
        running: BinaryHeap<Reverse<(Duration, Duration)>>,
        /// What the handlers wait for: when each of it is free.
        places: BinaryHeap<Reverse<Duration>>,
        random: fastrand::Rng,
    }

    /// What a while has shown.
    #[derive(Debug)]
    struct Seen {
        /// How much of what could be done was done.
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
                places: BinaryHeap::new(),
                random: fastrand::Rng::with_seed(3),
            }
        }

        fn ended(&mut self, answer: Answer, latency: Duration) {
            let (now, running) = (self.now, self.running.len() as u32);
            self.limit.ended(Ended { answer, latency, now, running, is_pressed: true });
        }

        /// As many calls as may run share a resource with so many places, each for about `service`.
        fn run(&mut self, seconds: u64, service: Duration, places: usize) -> Seen {
            if self.places.len() != places {
                self.places = std::iter::repeat_n(Reverse(self.now), places).collect();
            }
            let (began, mut done, mut sum) = (self.now, 0_u32, Duration::ZERO);
            while self.now < began + Duration::from_secs(seconds) {
                while self.running.len() < self.limit.limit() as usize {
                    let Reverse(free) = self.places.pop().expect("there are places");
                    let took = service.mul_f64(0.9 + 0.2 * self.random.f64());
                    let end = free.max(self.now) + took;
                    self.places.push(Reverse(end));
                    self.running.push(Reverse((end, self.now)));
                }
                let Reverse((end, call_began)) = self.running.pop().expect("some run");
                self.now = self.now.max(end);
                self.ended(Answer::Success, self.now - call_began);
                (done, sum) = (done + 1, sum + (self.now - call_began));
            }
            let could = (self.now - began).as_secs_f64() / service.as_secs_f64() * places as f64;
            Seen { share: f64::from(done) / could, latency_mean: sum / done }
        }
    }

    #[test]
    fn it_finds_what_a_resource_can_do_at_once() {
        let cases = [(2, 20), (10, 50), (20, 64), (50, 100), (200, 8), (500, 4), (1_000, 8)];
        for (ms, places) in cases {
            let mut method = Overloaded::new();
            method.run(30, ms * MS, places);
            let seen = method.run(30, ms * MS, places);
            assert!(seen.share > 0.93, "{ms} ms, {places} places: {seen:?}");
            assert!(seen.latency_mean < (2 * ms).max(6) * MS, "{ms} ms, {places} places: {seen:?}");
        }
    }

    #[test]
    fn it_follows_what_becomes_slower_smaller_or_faster() {
        let mut method = Overloaded::new();
        for (ms, places) in [(10, 50), (100, 50), (10, 50), (80, 5), (80, 50), (20, 64)] {
            method.run(30, ms * MS, places);
            let seen = method.run(30, ms * MS, places);
            assert!(seen.share > 0.9, "{ms} ms, {places} places: {seen:?}");
            assert!(seen.latency_mean < 2 * ms * MS, "{ms} ms, {places} places: {seen:?}");
        }
    }

    #[test]
    fn handlers_that_compute_are_held_to_a_latency_that_nobody_minds() {
        // One at a time, whatever the limit; what is beyond waits in the core.
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
    fn calls_that_do_not_succeed_teach_no_latency() {
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
    fn failures_that_are_as_much_work_count_as_such() {
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
    fn a_limit_that_nobody_reaches_is_not_lowered() {
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
    fn it_never_leaves_its_bounds() {
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
