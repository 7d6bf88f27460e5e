//! Open loops at rising rates: where the server no longer keeps up.

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

/// The share of what is due that has to be answered for a rate to be sustained.
const KEPT: f64 = 0.99;
/// How many times the 99th percentile of the lowest rate a sustained rate may have: behind it, calls queue.
const SLOWER_MAX: f64 = 5.0;

/// A section for each piece of work that was done at several rates.
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
    let sentence = |(ladder, knee): (&Ladder<'_>, &Option<f64>)| match knee {
        Some(knee) => {
            format!("<li>{}: sustained up to {} a second</li>", Text(&ladder.title), rate(*knee))
        }
        None => format!("<li>{}: not even the lowest rate was sustained</li>", Text(&ladder.title)),
    };
    let sentences: String = ladders.iter().zip(&knees).map(sentence).collect();
    let marks: Vec<Mark> = ladders
        .iter()
        .zip(&knees)
        .filter_map(|(ladder, knee)| knee.map(|at| (ladder, at)))
        .map(|(ladder, at)| Mark { at, text: format!("knee of {}: {}", ladder.title, rate(at)) })
        .collect();
    let due = ladders.iter().flat_map(|ladder| ladder.rungs.iter().map(|rung| rung.0));
    let x = || Axis::linear("due a second", due.clone().fold(0.0, f64::max), rate);
    format!(
        "<section><h2>{}</h2>\n<ul>{sentences}</ul>\n<p class=\"note\">Sustained: {:.0} % of what was due was \
         answered, and the 99th percentile is at most {SLOWER_MAX} times that of the lowest rate.</p>\n\
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
    /// The highest rate that is sustained.
    fn knee(&self) -> Option<f64> {
        let lowest = self.rungs.first()?.2.p99_us;
        let is_quick = |row: &ReadRow| match (row.p99_us, lowest) {
            (Some(p99), Some(lowest)) => p99 <= lowest * SLOWER_MAX,
            _ => true,
        };
        let kept =
            self.rungs.iter().take_while(|(_, achieved, row)| *achieved >= KEPT && is_quick(row));
        kept.map(|rung| rung.0).last()
    }
}
