//! Warnings derived from a run's own figures.

use super::contender::{Contender, Program};
use super::outcome::{Latency, Outcome};
use super::plan::{Setting, Workload};
use crate::repeats;

pub(super) fn of(setting: &Setting, contender: &Contender, outcome: &Outcome) -> Vec<String> {
    let is_others = matches!(contender.server, Program::Running(_));
    let wrong_server = if is_others { wrong_server(setting, outcome) } else { None };
    check_littles_law(setting, outcome).into_iter().chain(wrong_server).collect()
}

/// Warns if rate, latencies and connections contradict each other. A failed operation was in flight too but has
/// no latency, so runs with failures are not checked.
fn check_littles_law(setting: &Setting, outcome: &Outcome) -> Option<String> {
    let Latency::Samples(latencies) = &outcome.latency else { return None };
    let in_flight = setting.in_flight().filter(|_| outcome.errors.total() == 0)?;
    repeats::check_littles_law(outcome.rate, latencies.mean_us()?, f64::from(in_flight))
}

/// Warns about a server that does not do what the suite needs, which its owner may not know.
fn wrong_server(setting: &Setting, outcome: &Outcome) -> Option<String> {
    let needs = match setting.workload {
        Workload::PingPong if outcome.verified == 0 && outcome.errors.reset > 0 => {
            "no connection echoed what was sent: this suite needs an echo server, such as `ringway serve echo`"
        }
        Workload::Ttcp if outcome.rate == 0.0 && outcome.errors.total() > 0 => {
            "no message was acknowledged: this suite needs `ringway serve discard --frame --acknowledge`"
        }
        Workload::Roundtrip { .. } if outcome.rate == 0.0 && outcome.errors.total() > 0 => {
            "no exchange was answered with a time: this suite needs `ringway serve clock`"
        }
        Workload::Rpc(_) | Workload::Stream(_)
            if outcome.warnings.iter().any(|warning| warning.contains("UNIMPLEMENTED")) =>
        {
            "this suite calls ringway.bench.Echo, as `ringway serve rpc` offers it; `ringway bench call` puts \
             load on other methods"
        }
        _ => return None,
    };
    Some(needs.to_owned())
}
