//! Makes the rows of the report from the runs of a setting.

use std::sync::Arc;

use super::contender::{Client, Contender, Program};
use super::outcome::{self, Outcome};
use super::plan::Setting;
use crate::clock::ClockReading;
use crate::histogram::Latencies;
use crate::repeats;
use crate::report::{Detail, Errors, OpenLoop, Row, Versus};

/// Returns one row for each contender of `setting`; `runs` are theirs, in the same order.
pub(super) fn rows(setting: &Setting, runs: &[Vec<Outcome>]) -> Vec<Row> {
    let contenders = setting.contenders.iter().zip(runs);
    contenders.map(|(contender, own)| row(setting, contender, own, runs)).collect()
}

fn row(setting: &Setting, contender: &Contender, own: &[Outcome], all: &[Vec<Outcome>]) -> Row {
    let rate = outcome::rates(own);
    let mut errors = Errors::default();
    own.iter().for_each(|run| errors.add(&run.errors));
    let mut warnings: Vec<String> = own.iter().flat_map(|run| run.warnings.clone()).collect();
    warnings.dedup();
    let open_loop = setting.due().map(|due| OpenLoop {
        due,
        begun: repeats::median(own.iter().map(|run| Some(run.begun))).unwrap_or(0.0),
        achieved: rate.median / due,
    });
    warnings.extend(setting.due().and_then(|due| check_rate(due, own)));
    let samples = outcome::samples(own).map(Arc::from);
    let detail = Detail {
        rates: own.iter().map(|run| run.rate).collect(),
        curve: samples.as_deref().map(Latencies::curve).unwrap_or_default(),
        samples: samples.clone(),
        memory: repeats::median(own.iter().map(|run| run.memory)),
        timeline: own.iter().flat_map(|run| run.timeline.iter().copied()).collect(),
    };
    Row {
        suite: setting.suite(),
        detail,
        parameters: setting.parameters(contender),
        rate,
        repeat: own.len() as u32,
        unit: setting.unit(),
        open_loop,
        goodput_mib_s: setting
            .has_payload()
            .then(|| rate.median * f64::from(setting.size) / f64::from(1 << 20)),
        latency: outcome::percentiles(own, samples.as_deref()),
        errors,
        verified: own.iter().map(|run| run.verified).sum(),
        server: outcome::cost(own, |run| run.server),
        client: outcome::cost(own, |run| run.client),
        versus_epoll: versus_epoll(setting, contender, own, all),
        warnings,
        clock: own.iter().filter_map(|run| run.clock).reduce(ClockReading::better),
    }
}

fn versus_epoll(
    setting: &Setting,
    contender: &Contender,
    own: &[Outcome],
    all: &[Vec<Outcome>],
) -> Versus {
    let epoll = |client: Client| {
        let wanted = Contender { server: Program::Peer("epoll"), client };
        let at = setting.contenders.iter().position(|contender| *contender == wanted)?;
        all.get(at).map(Vec::as_slice).filter(|_| *contender != wanted)
    };
    let ratio = |partner: Option<&[Outcome]>, part: fn(&Outcome) -> Option<f64>| {
        let pairs = own.iter().zip(partner?);
        repeats::median(pairs.map(|(ours, theirs)| Some(part(ours)? / part(theirs)?)))
    };
    let rate = |run: &Outcome| Some(run.rate).filter(|&rate| rate > 0.0);
    let both = (contender.server == Program::Ringway).then(|| epoll(Client::Epoll)).flatten();
    let same_client = epoll(contender.client);
    Versus {
        rate: ratio(same_client, rate),
        server_cpu: ratio(same_client, |run| run.server.cpu_us_per_op),
        rate_both_sides: ratio(both, rate),
    }
}

/// Warns if open-loop runs did not reach the rate `due`.
fn check_rate(due: f64, runs: &[Outcome]) -> Option<String> {
    let short = runs.iter().filter(|run| run.rate < due * (1.0 - SHORTFALL_MAX));
    let least = short.clone().map(|run| run.rate).reduce(f64::min)?;
    let begun = runs.iter().map(|run| run.begun).reduce(f64::min)?;
    Some(format!(
        "{} of {} runs did not achieve the {due:.0} a second that were due: at the least {begun:.0} were begun \
         and {least:.0} answered; latencies count from when each was due",
        short.count(),
        runs.len(),
    ))
}

/// The share of the due calls that may be missing: a few are under way when the clock stops.
const SHORTFALL_MAX: f64 = 0.01;
