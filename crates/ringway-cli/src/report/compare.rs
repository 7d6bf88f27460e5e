//! Compares two results row by row, and tells which rows differ by more than the noise.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::json;

use super::humane;
use super::read::{ReadReport, ReadRow};
use super::screen::Screen;
use crate::args::Format;

/// What the two rates of a row show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Faster,
    Slower,
    /// Runs of the same program differ as much.
    Noise,
    /// There are so few runs that any result may be chance.
    TooFewRuns,
    /// One of them had failures, so it did not do the same work.
    Errors,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Noise => "within the noise",
            Self::TooFewRuns => "too few runs",
            Self::Errors => "had errors",
        }
    }
}

/// A row that both results have.
struct Pair<'d> {
    before: &'d ReadRow,
    after: &'d ReadRow,
}

/// Prints `after` beside `before`, row by row.
///
/// # Errors
/// They have no row in common, or the output cannot be written.
pub(super) fn print(
    before: &ReadReport,
    after: &ReadReport,
    format: Format,
    screen: &Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let pairs: Vec<Pair<'_>> = before.rows.iter().filter_map(|row| pair(row, after)).collect();
    if pairs.is_empty() {
        let text =
            "the two files have no row in common: a row is found again by its suite and parameters";
        return Err(io::Error::other(text));
    }
    match format {
        Format::Json => writeln!(out, "{:#}", json!({ "rows": values(&pairs) }))?,
        Format::Table | Format::Markdown => {
            let mut table = table(&pairs);
            match format {
                Format::Markdown => _ = table.load_style(comfy_table::presets::ASCII_MARKDOWN),
                _ => _ = table.load_style(comfy_table::presets::NOTHING),
            }
            for line in table.lines() {
                writeln!(out, "{}", line.trim_end())?;
            }
            writeln!(out)?;
            for note in notes(before, after, pairs.len()) {
                out.write_all(screen.note(&note).as_bytes())?;
            }
        }
    }
    out.flush()
}

fn pair<'d>(before: &'d ReadRow, after: &'d ReadReport) -> Option<Pair<'d>> {
    let is_same = |row: &&ReadRow| row.suite == before.suite && row.parameters == before.parameters;
    Some(Pair { before, after: after.rows.iter().find(is_same)? })
}

fn table(pairs: &[Pair<'_>]) -> Table {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(COLUMNS);
    let heads = ["row", "before /s", "after /s", "after ÷ before", "p99", "server CPU", ""];
    table.set_header(heads);
    for pair in pairs {
        let Pair { before, after } = pair;
        table.add_row([
            format!("{} {}", before.suite, shared_name(pairs, before)),
            format!("{} {}", humane::count(Some(before.rate)), spread(before)),
            format!("{} {}", humane::count(Some(after.rate)), spread(after)),
            ratio(after.rate, before.rate),
            optional_ratio(after.p99_us, before.p99_us),
            optional_ratio(after.server.cpu_us_per_op, before.server.cpu_us_per_op),
            pair.verdict().text().to_owned(),
        ]);
    }
    for index in 1..6 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Returns the parameters that identify the row.
fn shared_name(pairs: &[Pair<'_>], row: &ReadRow) -> String {
    let is_shared = |key: &str| {
        pairs.iter().all(|pair| pair.before.parameters.get(key) == row.parameters.get(key))
    };
    let shared: Vec<&str> =
        row.parameters.keys().map(String::as_str).filter(|key| is_shared(key)).collect();
    row.name(&shared)
}

fn spread(row: &ReadRow) -> String {
    row.rate_cv.map_or_else(String::new, |cv| format!("±{:.0} %", cv * 100.0))
}

fn ratio(after: f64, before: f64) -> String {
    if before > 0.0 { format!("{:.3}", after / before) } else { "–".to_owned() }
}

fn optional_ratio(after: Option<f64>, before: Option<f64>) -> String {
    after.zip(before).map_or_else(|| "–".to_owned(), |(after, before)| ratio(after, before))
}

fn values(pairs: &[Pair<'_>]) -> Vec<serde_json::Value> {
    let one = |pair: &Pair<'_>| {
        let Pair { before, after } = pair;
        json!({
            "suite": before.suite,
            "parameters": before.parameters,
            "unit": before.unit,
            "before": before.rate,
            "after": after.rate,
            "ratio": (before.rate > 0.0).then(|| after.rate / before.rate),
            "chance": chance(&before.rates, &after.rates),
            "verdict": pair.verdict().text(),
        })
    };
    pairs.iter().map(one).collect()
}

fn notes(before: &ReadReport, after: &ReadReport, paired: usize) -> Vec<String> {
    let mut notes = vec![format!(
        "faster or slower: the ranks of the runs' rates differ so much by chance in less than {:.0} of 100 \
         cases (Mann and Whitney's test); ± is the spread of the runs",
        CHANCE_MAX * 100.0
    )];
    let alone = before.rows.len() + after.rows.len() - 2 * paired;
    if alone > 0 {
        notes.push(format!("{alone} rows are in one file only, and not shown"));
    }
    for key in ["kernel", "cpu", "cores_allowed", "compiler"] {
        if before.environment.get(key) != after.environment.get(key) {
            notes.push(format!("the two were not measured in the same place: {key} differs"));
        }
    }
    if before.environment.get("optimised") != after.environment.get("optimised") {
        notes.push(
            "one of the two is a debug build, whose figures mean nothing: optimised differs".into(),
        );
    }
    notes
}

impl Pair<'_> {
    fn verdict(&self) -> Verdict {
        let Self { before, after } = self;
        if before.errors + after.errors > 0 {
            return Verdict::Errors;
        }
        if least_chance(before.rates.len(), after.rates.len()) > CHANCE_MAX {
            return Verdict::TooFewRuns;
        }
        match chance(&before.rates, &after.rates) {
            Some(chance) if chance <= CHANCE_MAX && after.rate > before.rate => Verdict::Faster,
            Some(chance) if chance <= CHANCE_MAX && after.rate < before.rate => Verdict::Slower,
            _ => Verdict::Noise,
        }
    }
}

/// Returns the probability that ranks differ at least as much between two samples of one distribution, two-sided;
/// `None` without samples.
fn chance(before: &[f64], after: &[f64]) -> Option<f64> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let above =
        |a: f64| before.iter().map(move |&b| if a > b { 1.0 } else { f64::from(a == b) / 2.0 });
    let wins: f64 = after.iter().flat_map(|&a| above(a)).sum();
    let fewer = wins.min((before.len() * after.len()) as f64 - wins);
    let ways = ways(before.len(), after.len());
    // Draws count half; half a win is taken for a whole one, which makes the difference smaller.
    let as_far: f64 = ways.iter().take(fewer.ceil() as usize + 1).sum();
    Some((2.0 * as_far / ways.iter().sum::<f64>()).min(1.0))
}

/// Returns the probability of the clearest result that this many runs can have.
fn least_chance(before: usize, after: usize) -> f64 {
    2.0 / ways(before, after).iter().sum::<f64>()
}

/// Returns, for each number of wins of one sample over the other, the number of orders with it.
fn ways(m: usize, n: usize) -> Vec<f64> {
    let (m, n) = (m.min(RUNS_MAX), n.min(RUNS_MAX));
    // The highest value is either of the first sample, and wins over all of the second, or it is of
    // the second and wins over nothing that is counted.
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=n {
            let mut all = vec![0.0; i * j + 1];
            for (wins, ways) in row[j].iter().enumerate() {
                all[wins + j] += ways;
            }
            for (wins, ways) in next[j - 1].iter().enumerate() {
                all[wins] += ways;
            }
            next.push(all);
        }
        row = next;
    }
    row.pop().unwrap_or_default()
}

/// One in twenty.
const CHANCE_MAX: f64 = 0.05;
/// More than the runs per row of `bench`.
const RUNS_MAX: usize = 100;
/// The width of all output that people compare.
const COLUMNS: u16 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_counted() {
        assert_eq!(ways(1, 1), [1.0, 1.0]);
        assert_eq!(ways(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(ways(5, 5).iter().sum::<f64>(), 252.0);
    }

    /// Values of the published table of the Mann-Whitney test.
    #[test]
    fn chances_are_those_of_the_table() {
        let low: Vec<f64> = (1..=5).map(f64::from).collect();
        let high: Vec<f64> = (6..=10).map(f64::from).collect();
        assert_eq!(chance(&low, &high), Some(2.0 / 252.0));
        assert_eq!(chance(&high, &low), Some(2.0 / 252.0));
        // Two of 25 pairs are won by the lower: the critical value of 5 and 5 at 5 %.
        assert!(chance(&[1.0, 2.0, 3.0, 4.0, 7.5], &high).expect("samples") <= 0.05);
        assert!(chance(&[1.0, 2.0, 3.0, 4.0, 8.5], &high).expect("samples") > 0.05);
        assert_eq!(chance(&low, &low), Some(1.0));
        // A draw is no win.
        let drawn = chance(&[1.0, 2.0, 3.0, 4.0, 6.0], &high).expect("samples");
        assert!(drawn > 2.0 / 252.0, "{drawn}");
        assert_eq!(chance(&low, &[]), None);
        assert!(least_chance(3, 3) > CHANCE_MAX && least_chance(4, 4) <= CHANCE_MAX);
    }
}
