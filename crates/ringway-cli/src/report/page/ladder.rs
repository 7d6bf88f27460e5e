//! Open loops at rising rates, with the rate at which the server stops keeping up.

use super::super::read::{ReadReport, ReadRow};
use super::charts::{bounds, microseconds};
use super::escape::Text;
use super::plot::{self, Axis, COLOURS, Curve, Mark};
use super::{contender, rate};

/// The rungs of one contender, lowest first.
struct Ladder<'d> {
    title: String,
    rungs: Vec<(f64, f64, &'d ReadRow)>,
}

/// The share of the due calls that must be answered for a rate to count as sustained.
const KEPT: f64 = 0.99;
/// The factor by which the 99th percentile of a sustained rate may exceed that of lower rates; beyond it, calls queue.
const SLOWER_MAX: f64 = 10.0;

/// Makes a section for each workload that was measured at several rates.
pub(super) fn sections(document: &ReadReport) -> String {
    let mut works: Vec<(String, Vec<Ladder<'_>>)> = Vec::new();
    for row in &document.rows {
        let Some(open) = &row.open_loop else { continue };
        let work = format!(
            "{} at rising rates: {}",
            row.suite,
            row.name(&["server", "client", "protocol", "due"])
        );
        let at = works.iter().position(|(known, _)| *known == work).unwrap_or_else(|| {
            works.push((work, Vec::new()));
            works.len() - 1
        });
        let (title, ladders) = (contender(row), &mut works[at].1);
        let rung = (open.due, open.achieved, row);
        match ladders.iter_mut().find(|ladder| ladder.title == title) {
            Some(ladder) => ladder.rungs.push(rung),
            None => ladders.push(Ladder { title, rungs: vec![rung] }),
        }
    }
    works.iter().map(|(work, ladders)| section(work, ladders)).collect()
}

fn section(work: &str, ladders: &[Ladder<'_>]) -> String {
    let knees: Vec<Option<f64>> = ladders.iter().map(Ladder::knee).collect();
    let sentence = |(ladder, knee): (&Ladder<'_>, &Option<f64>)| {
        let text = match knee {
            Some(knee) if ladder.highest() == *knee => {
                format!("all rates were sustained, up to {} a second", rate(*knee))
            }
            Some(knee) => format!("sustained up to {} a second", rate(*knee)),
            None => "not even the lowest rate was sustained".to_owned(),
        };
        format!("<li>{}: {text}</li>", Text(&ladder.title))
    };
    let sentences: String = ladders.iter().zip(&knees).map(sentence).collect();
    let marks: Vec<Mark> = ladders
        .iter()
        .zip(&knees)
        .filter_map(|(ladder, knee)| knee.map(|at| (ladder, at)))
        .filter(|(ladder, at)| ladder.highest() > *at)
        .map(|(ladder, at)| Mark { at, text: format!("knee of {}: {}", ladder.title, rate(at)) })
        .collect();
    let due = ladders.iter().flat_map(|ladder| ladder.rungs.iter().map(|rung| rung.0));
    let x = || Axis::linear("due a second", due.clone().fold(0.0, f64::max), rate);
    format!(
        "<section><h2>{}</h2>\n<ul>{sentences}</ul>\n<p class=\"note\">Sustained: {:.0} % of what was due was \
         answered, and the 99th percentile is at most {SLOWER_MAX} times those of lower rates.</p>\n\
         <div class=\"charts\">{}{}</div></section>\n",
        Text(work),
        KEPT * 100.0,
        answered(&x(), ladders, &marks),
        latencies(&x(), ladders, &marks),
    )
}

fn answered(x: &Axis, ladders: &[Ladder<'_>], marks: &[Mark]) -> String {
    let lines = ladders.iter().enumerate().take(COLOURS).map(|(colour, ladder)| Curve {
        name: ladder.title.clone(),
        points: ladder.rungs.iter().map(|&(due, _, row)| (due, row.rate)).collect(),
        colour,
        is_dashed: false,
    });
    let y = Axis::linear("answered a second", x.high / 1.05, rate);
    plot::chart("Answered, of what was due", x, &y, &lines.collect::<Vec<_>>(), marks)
}

fn latencies(x: &Axis, ladders: &[Ladder<'_>], marks: &[Mark]) -> String {
    let lines = ladders.iter().enumerate().take(COLOURS / 2).flat_map(|(colour, ladder)| {
        let line = |name: &str, is_dashed, part: fn(&ReadRow) -> Option<f64>| Curve {
            name: format!("{}, {name}", ladder.title),
            points: ladder.rungs.iter().filter_map(|rung| Some((rung.0, part(rung.2)?))).collect(),
            colour,
            is_dashed,
        };
        [line("p99", false, |row| row.p99_us), line("p50", true, |row| row.p50_us)]
    });
    let lines: Vec<Curve> = lines.collect();
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let y = Axis::log("latency from when it was due", bounds(values), microseconds);
    plot::chart("Latency", x, &y, &lines, marks)
}

impl Ladder<'_> {
    /// Returns the highest sustained rate; the rungs are in rising order.
    fn knee(&self) -> Option<f64> {
        let (mut knee, mut slowest) = (None, None::<f64>);
        for (due, achieved, row) in &self.rungs {
            // At low rates there may be too few samples to know it.
            let queues = slowest.zip(row.p99_us).is_some_and(|(slow, p99)| p99 > slow * SLOWER_MAX);
            if *achieved < KEPT || queues {
                break;
            }
            slowest = row.p99_us.map(|p99| slowest.map_or(p99, |slow| slow.max(p99))).or(slowest);
            knee = Some(*due);
        }
        knee
    }

    fn highest(&self) -> f64 {
        self.rungs.last().map_or(0.0, |rung| rung.0)
    }
}
