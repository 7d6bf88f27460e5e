//! Outlier ejection: taking a failing host out of use for a while.

use std::time::Duration;

use crate::limits;

/// The evidence of one call, or of one attempt to connect, about its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Evidence {
    /// The host answered. Errors that are the caller's fault are answers too.
    Good,
    /// The host answered that it cannot serve.
    Bad,
    /// There was no answer: connecting failed or timed out, or the connection broke.
    Silent,
}

/// The record of a host's failures, and whether it is in use.
///
/// ```text
/// serving ──(too many failures)──► ejected ──(time is up)──► on trial ──(good)──► serving
///                                     ▲                          │
///                                     └──────────(bad)───────────┘  for twice as long
/// ```
///
/// A trial is one call. A trial that takes long proves nothing and allows another one; a stream
/// that lasts that long counts as an answer. Several calls in a row that callers stopped waiting
/// for count as a failure.
#[derive(Clone, Debug)]
pub(crate) struct HostHealth {
    state: EjectionState,
    /// The shares of failures over a short and a long past.
    short: FailureRate,
    long: FailureRate,
    silent_in_a_row: u32,
    /// Ejections since the host last stayed in use for a while.
    ejections: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EjectionState {
    Serving {
        since: Duration,
    },
    Ejected {
        until: Duration,
    },
    /// The time of the ejection is over.
    OnTrial {
        /// When the first call began that counts for the trial.
        since: Option<Duration>,
        /// The trial under way.
        trial: Option<Trial>,
        /// Calls since then that were cancelled without an answer.
        unanswered: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trial {
    began: Duration,
    is_stream: bool,
}

impl HostHealth {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            state: EjectionState::Serving { since: now },
            short: FailureRate::new(limits::FAILURES_SHORT),
            long: FailureRate::new(limits::FAILURES_LONG),
            silent_in_a_row: 0,
            ejections: 0,
        }
    }

    /// Whether a call may use the host now.
    pub(crate) fn is_available(&mut self, now: Duration) -> bool {
        match self.state {
            EjectionState::Ejected { until } if now >= until => {
                self.state = EjectionState::OnTrial { since: None, trial: None, unanswered: 0 };
                true
            }
            EjectionState::Ejected { .. } => false,
            EjectionState::OnTrial { trial: Some(trial), .. } => {
                let is_long = now.saturating_sub(trial.began) >= limits::TRIAL_MAX;
                if is_long && trial.is_stream {
                    self.serve_again(now);
                }
                is_long
            }
            EjectionState::OnTrial { trial: None, .. } | EjectionState::Serving { .. } => true,
        }
    }

    /// Whether the host is out of use, including on trial; the limit of ejections counts these.
    pub(crate) fn is_ejected(&self) -> bool {
        !matches!(self.state, EjectionState::Serving { .. })
    }

    /// Notes that a call uses the host.
    pub(crate) fn called(&mut self, now: Duration, is_stream: bool) {
        if let EjectionState::OnTrial { since, trial, .. } = &mut self.state {
            since.get_or_insert(now);
            *trial = Some(Trial { began: now, is_stream });
        }
    }

    /// Notes that a call begun at `begun` ended without evidence, for example cancelled by its
    /// caller.
    pub(crate) fn told_nothing(&mut self, begun: Duration) {
        if let EjectionState::OnTrial { trial, .. } = &mut self.state {
            trial.take_if(|trial| begun >= trial.began);
        }
    }

    /// Whether calls decide whether the host is used again.
    pub(crate) fn is_on_trial(&self) -> bool {
        matches!(self.state, EjectionState::OnTrial { .. })
    }

    /// Notes that a call begun at `begun` was cancelled after a time in which other hosts answer.
    pub(crate) fn left_unanswered(&mut self, begun: Duration, now: Duration) {
        self.told_nothing(begun);
        if let EjectionState::OnTrial { since: Some(since), unanswered, .. } = &mut self.state
            && begun >= *since
        {
            *unanswered += 1;
            if *unanswered >= limits::SILENT_IN_A_ROW {
                self.eject(now);
            }
        }
    }

    /// Records the evidence of a call begun at `begun`, or of an attempt to connect (`None`).
    /// Returns true if the host should be ejected: see [`may_eject`], then [`eject`](Self::eject).
    #[must_use]
    pub(crate) fn learn(
        &mut self,
        evidence: Evidence,
        begun: Option<Duration>,
        now: Duration,
    ) -> bool {
        let failed = evidence != Evidence::Good;
        let is_from_before = |since: Option<Duration>| {
            begun.is_some_and(|begun| since.is_none_or(|since| begun < since))
        };
        match self.state {
            EjectionState::Ejected { .. } => return false,
            EjectionState::OnTrial { since, .. } if is_from_before(since) => return false,
            EjectionState::OnTrial { .. } if failed => {
                self.eject(now);
                return false;
            }
            EjectionState::OnTrial { .. } => self.serve_again(now),
            EjectionState::Serving { since } => {
                if now.saturating_sub(since) > limits::EJECTION_MAX {
                    self.ejections = 0;
                }
            }
        }
        self.silent_in_a_row = match evidence {
            Evidence::Silent => self.silent_in_a_row + 1,
            _ => 0,
        };
        self.short.observe(failed);
        self.long.observe(failed);
        self.silent_in_a_row >= limits::SILENT_IN_A_ROW
            || self.short.exceeds(limits::FAILURES_SHORT_SHARE)
            || self.long.exceeds(limits::FAILURES_LONG_SHARE)
    }

    /// Ejects the host, each time for twice as long.
    pub(crate) fn eject(&mut self, now: Duration) {
        let doubled = 2_u32.saturating_pow(self.ejections);
        let time = limits::EJECTION_FIRST.saturating_mul(doubled).min(limits::EJECTION_MAX);
        self.ejections = self.ejections.saturating_add(1);
        self.state = EjectionState::Ejected { until: now + time };
    }

    fn serve_again(&mut self, now: Duration) {
        let ejections = self.ejections;
        *self = Self { ejections, ..Self::new(now) };
    }
}

/// Whether one more host may be ejected: at most 30 percent, or one of two or three hosts.
pub(crate) fn may_eject(ejected: usize, hosts: usize) -> bool {
    let ceiling = (hosts * limits::EJECTED_PERCENT_MAX / 100).max(usize::from(hosts >= 2));
    ejected < ceiling
}

/// An exponentially weighted share of failures.
#[derive(Clone, Debug)]
struct FailureRate {
    /// The approximate number of calls that the average remembers.
    window: u32,
    /// Calls seen, at most `window`; before that the share is not reliable.
    seen: u32,
    share: f64,
}

impl FailureRate {
    fn new(window: u32) -> Self {
        Self { window, seen: 0, share: 0.0 }
    }

    fn observe(&mut self, failed: bool) {
        self.seen = (self.seen + 1).min(self.window);
        let failed = if failed { 1.0 } else { 0.0 };
        self.share += (failed - self.share) / f64::from(self.seen);
    }

    fn exceeds(&self, share: f64) -> bool {
        self.seen == self.window && self.share > share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn learn(health: &mut HostHealth, evidence: Evidence, count: u32, now: Duration) -> bool {
        (0..count).fold(false, |wants, _| health.learn(evidence, Some(now), now) || wants)
    }

    #[test]
    fn several_silent_calls_in_a_row_eject() {
        let mut health = HostHealth::new(SECOND);
        let few = limits::SILENT_IN_A_ROW - 1;
        assert!(!learn(&mut health, Evidence::Silent, few, SECOND));
        assert!(!learn(&mut health, Evidence::Good, 1, SECOND), "an answer ends the row");
        assert!(!learn(&mut health, Evidence::Silent, few, SECOND));
        assert!(learn(&mut health, Evidence::Silent, 1, SECOND));
    }

    #[test]
    fn share_of_failures_ejects_after_enough_calls() {
        let mut health = HostHealth::new(SECOND);
        let before = limits::FAILURES_SHORT - 1;
        assert!(!learn(&mut health, Evidence::Bad, before, SECOND), "too few calls");
        assert!(learn(&mut health, Evidence::Bad, 1, SECOND));

        let mut health = HostHealth::new(SECOND);
        let mut wants = false;
        for _ in 0..limits::FAILURES_LONG {
            // A third of the calls fails: no burst, but too many in the long run.
            wants |= learn(&mut health, Evidence::Good, 2, SECOND);
            wants |= learn(&mut health, Evidence::Bad, 1, SECOND);
        }
        assert!(wants);
    }

    #[test]
    fn a_few_failures_do_not_eject() {
        let mut health = HostHealth::new(SECOND);
        for _ in 0..1_000 {
            assert!(!learn(&mut health, Evidence::Good, 12, SECOND));
            assert!(!learn(&mut health, Evidence::Bad, 1, SECOND));
        }
    }

    #[test]
    fn trial_of_one_call_decides_and_ejections_double() {
        let mut health = HostHealth::new(Duration::ZERO);
        let mut now = SECOND;
        let mut time = limits::EJECTION_FIRST;
        health.eject(now);
        for _ in 0..12 {
            assert!(!health.is_available(now + time - Duration::from_millis(1)));
            now += time;
            assert!(health.is_available(now));
            health.called(now, false);
            assert!(!health.is_available(now), "one call at a time");
            health.told_nothing(now);
            assert!(health.is_available(now), "a cancelled call decides nothing");
            health.called(now, false);
            assert!(!health.learn(Evidence::Bad, Some(now), now));
            assert!(health.is_ejected());
            time = (time * 2).min(limits::EJECTION_MAX);
        }
        now += time;
        assert!(health.is_available(now));
        health.called(now, false);
        assert!(!health.learn(Evidence::Good, Some(now), now));
        assert!(!health.is_ejected());
    }

    #[test]
    fn several_cancelled_trials_count_as_a_failure() {
        let mut health = HostHealth::new(Duration::ZERO);
        health.left_unanswered(Duration::ZERO, SECOND);
        health.eject(SECOND);
        let mut now = SECOND + limits::EJECTION_FIRST;
        for _ in 0..limits::SILENT_IN_A_ROW {
            assert!(health.is_available(now));
            health.called(now, false);
            health.left_unanswered(SECOND, now); // begun before the trial
            assert!(!health.is_available(now), "one at a time");
            now += Duration::from_millis(1);
            health.left_unanswered(now - Duration::from_millis(1), now);
        }
        assert!(!health.is_available(now + limits::EJECTION_FIRST), "for twice as long");
        now += 2 * limits::EJECTION_FIRST;
        assert!(health.is_available(now));
        health.called(now, false);
        health.left_unanswered(now, now);
        assert!(health.is_available(now), "the count starts again");
    }

    #[test]
    fn calls_begun_before_an_ejection_do_not_decide_a_trial() {
        let (before, mut now) = (SECOND, SECOND + limits::EJECTION_FIRST);
        let mut health = HostHealth::new(Duration::ZERO);
        health.eject(before);
        assert!(health.is_available(now));
        for evidence in [Evidence::Good, Evidence::Bad, Evidence::Silent] {
            assert!(!health.learn(evidence, Some(before), now));
            assert!(health.is_available(now) && health.is_ejected(), "before the trial");
        }
        health.called(now, false);
        health.told_nothing(before);
        for evidence in [Evidence::Good, Evidence::Bad, Evidence::Silent] {
            assert!(!health.learn(evidence, Some(before), now));
            assert!(!health.is_available(now) && health.is_ejected(), "while it is under way");
        }
        assert!(!health.learn(Evidence::Good, Some(now), now));
        assert!(!health.is_ejected());

        health.eject(now);
        now += 2 * limits::EJECTION_FIRST;
        assert!(health.is_available(now));
        assert!(!health.learn(Evidence::Silent, None, now), "it cannot be connected to");
        assert!(!health.is_available(now));
    }

    #[test]
    fn long_trial_allows_another_call() {
        let long = limits::TRIAL_MAX;
        let on_trial = |is_stream| {
            let mut health = HostHealth::new(Duration::ZERO);
            health.eject(Duration::ZERO);
            assert!(health.is_available(SECOND));
            health.called(SECOND, is_stream);
            assert!(!health.is_available(SECOND + long - Duration::from_millis(1)));
            assert!(health.is_available(SECOND + long));
            health
        };
        let mut call = on_trial(false);
        assert!(call.is_ejected(), "nothing is known yet");
        call.called(SECOND + long, false);
        assert!(!call.is_available(SECOND + long), "another trial");
        assert!(!call.learn(Evidence::Good, Some(SECOND), SECOND + 2 * long));
        assert!(!call.is_ejected(), "the first trial has succeeded after all");

        let mut stream = on_trial(true);
        assert!(!stream.is_ejected(), "a stream that lasts is an answer");
        assert!(stream.is_available(SECOND + long));
    }

    #[test]
    fn ejections_are_forgotten_after_a_while_in_use() {
        let mut health = HostHealth::new(Duration::ZERO);
        for _ in 0..5 {
            health.eject(Duration::ZERO);
        }
        health.serve_again(SECOND);
        let much_later = SECOND * 2 + limits::EJECTION_MAX;
        assert!(!health.learn(Evidence::Good, Some(much_later), much_later));
        health.eject(much_later);
        assert!(health.is_available(much_later + limits::EJECTION_FIRST));
    }

    #[test]
    fn most_hosts_are_never_ejected() {
        assert!(!may_eject(0, 0));
        assert!(!may_eject(0, 1), "the only host stays");
        assert!(may_eject(0, 2) && !may_eject(1, 2));
        assert!(may_eject(0, 3) && !may_eject(1, 3));
        assert!(may_eject(2, 10) && !may_eject(3, 10));
    }
}
