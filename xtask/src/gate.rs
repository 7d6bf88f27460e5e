//! Runs the steps one after the other and sums up.

use crate::needs;
use crate::steps::{STEPS, Settings, Step};
use std::time::{Duration, Instant};

/// The whole gate, first build included, on a machine of two cores.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);

enum Done {
    /// It passed, and so many tests in it.
    Passed(u64),
    /// What it needs is missing.
    Skipped(&'static str),
}

/// How a step ended.
struct Outcome {
    name: &'static str,
    /// What was done, or what failed.
    result: Result<Done, String>,
    time: Duration,
}

/// Runs all steps, or `only` one, to the end, and tells whether all passed.
///
/// # Errors
///
/// When a program that the steps need is missing and cannot be installed.
pub(crate) fn run(settings: &Settings, only: Option<&Step>) -> Result<bool, String> {
    needs::provide(crate::root())?;
    let is_done_elsewhere = |step: &Step| settings.lints_as_it_builds && step.name == "clippy";
    let steps = STEPS
        .iter()
        .filter(|step| only.map_or(!is_done_elsewhere(step), |only| only.name == step.name));
    let outcomes: Vec<Outcome> = steps.map(|step| run_step(step, settings)).collect();
    print!("{}", summary(&outcomes));
    Ok(outcomes.iter().all(|outcome| outcome.result.is_ok()))
}

fn run_step(step: &Step, settings: &Settings) -> Outcome {
    println!("==> {}: {}", step.name, step.summary);
    let start = Instant::now();
    let result = match step.requires.filter(|required| !required.is_there()) {
        Some(missing) => Ok(Done::Skipped(missing.otherwise)),
        None => step.work.run(crate::root(), settings).map(Done::Passed),
    };
    let outcome = Outcome { name: step.name, result, time: start.elapsed() };
    println!("{}", outcome.row());
    outcome
}

impl Outcome {
    fn row(&self) -> String {
        let verdict = match &self.result {
            Ok(Done::Passed(0)) => "ok".to_owned(),
            Ok(Done::Passed(1)) => "ok, 1 test".to_owned(),
            Ok(Done::Passed(tests)) => format!("ok, {tests} tests"),
            Ok(Done::Skipped(why)) => format!("skipped, {why}"),
            Err(failure) => format!("FAILED, {failure}"),
        };
        format!("<== {:8}{:7.1} s  {verdict}", self.name, self.time.as_secs_f64())
    }
}

fn summary(outcomes: &[Outcome]) -> String {
    let total: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    let is_skipped = |outcome: &&Outcome| matches!(outcome.result, Ok(Done::Skipped(_)));
    let skipped = outcomes.iter().filter(is_skipped).count();
    let mut text = String::from("\n");
    for outcome in outcomes {
        text += &format!("{}\n", outcome.row());
    }
    let late = if total > TIME_MAX { ", more than the 15 minutes it may take" } else { "" };
    text += &format!("total      {:7.1} s{late}\n", total.as_secs_f64());
    text += &format!("{} passed, {failed} failed", outcomes.len() - failed - skipped);
    text += &if skipped > 0 { format!(", {skipped} skipped\n") } else { "\n".to_owned() };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_ends_with_the_count_of_steps() {
        let outcome =
            |name, result, seconds| Outcome { name, result, time: Duration::from_secs(seconds) };
        let outcomes = [
            outcome("fmt", Ok(Done::Passed(0)), 2),
            outcome("test", Ok(Done::Passed(7)), 898),
            outcome("interop", Ok(Done::Skipped("`go` is missing")), 0),
            outcome("doc", Err("cargo doc".into()), 1),
        ];
        let expected = "
<== fmt         2.0 s  ok
<== test      898.0 s  ok, 7 tests
<== interop     0.0 s  skipped, `go` is missing
<== doc         1.0 s  FAILED, cargo doc
total        901.0 s, more than the 15 minutes it may take
2 passed, 1 failed, 1 skipped
";
        assert_eq!(summary(&outcomes), expected);
    }
}
