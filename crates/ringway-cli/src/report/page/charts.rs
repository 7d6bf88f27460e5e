//! The charts of one group of rows.

use super::super::humane;
use super::super::read::ReadRow;
use super::escape::Text;
use super::plot::{self, Axis, COLOURS, Curve};
use super::{Group, contender, rate};

/// Draws a bar for each row: its rate with the range of its runs, and its figures beside it.
pub(super) fn bars(group: &Group<'_>) -> String {
    let most = group.rows.iter().map(|row| row.rate_max).fold(0.0, f64::max).max(1e-9);
    let bar = |(at, row): (usize, &&ReadRow)| {
        let share = |value: f64| value / most * 100.0;
        let errors = match row.errors {
            0 => String::new(),
            errors => {
                format!("<span class=\"alarm\">{} errors</span>", humane::grouped(errors as i64))
            }
        };
        format!(
            "<tr><th>{}</th><td class=\"bar\"><div class=\"c{}\" style=\"width:{:.2}%\"></div><div class=\"range\" \
             style=\"left:{:.2}%;width:{:.2}%\" title=\"{} to {} in {} runs\"></div></td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{errors}</td></tr>\n",
            Text(&contender(row)),
            at % COLOURS,
            share(row.rate),
            share(row.rate_min),
            share(row.rate_max - row.rate_min),
            rate(row.rate_min),
            rate(row.rate_max),
            row.repeat,
            rate(row.rate),
            humane::plain(row.p50_us),
            humane::plain(row.p99_us),
            humane::plain(row.server.cpu_us_per_op),
            humane::plain(row.client.cpu_us_per_op),
        )
    };
    let bars: String = group.rows.iter().enumerate().map(bar).collect();
    format!(
        "<div class=\"wide\"><table class=\"bars\"><thead><tr><th></th><th></th><th>{}</th><th>p50 µs</th>\
         <th>p99 µs</th><th>server µs/op</th><th>client µs/op</th><th></th></tr></thead>\n<tbody>{bars}</tbody>\
         </table></div>\n",
        Text(group.unit)
    )
}

/// Draws latency by percentile, both on logarithmic axes.
pub(super) fn latencies(group: &Group<'_>) -> String {
    let series: Vec<Curve> = series(group, |row| {
        let curve = row.latency_us_by_quantile.iter().filter(|(at, us)| *at >= 0.5 && *us > 0.0);
        curve.map(|&(at, us)| (1.0 / (1.0 - at), us)).collect()
    });
    let points = || series.iter().flat_map(|line| line.points.iter());
    let (low, high) = bounds(points().map(|point| point.1));
    let last = points().map(|point| point.0).fold(100.0, f64::max);
    let x = Axis {
        title: "percentile",
        ticks: (0..7).map(percentile_tick).filter(|(at, _)| *at <= last).collect(),
        low: 2.0,
        high: last,
        is_log: true,
    };
    let y = Axis::log("latency", (low, high), microseconds);
    plot::chart("Latency by percentile", &x, &y, &series, &[])
}

/// The percentiles 50, 90, 99, 99.9 and so on, at the positions 2, 10, 100, …
fn percentile_tick(nines: u32) -> (f64, String) {
    match nines {
        0 => (2.0, "50".to_owned()),
        1 => (10.0, "90".to_owned()),
        2 => (100.0, "99".to_owned()),
        more => (10_f64.powi(more as i32), format!("99.{}", "9".repeat(more as usize - 2))),
    }
}

/// Draws the rate over the time of all runs, one after the other.
pub(super) fn rates(group: &Group<'_>) -> String {
    let series: Vec<Curve> = series(group, |row| {
        let steps = row.rate_over_time.len() as f64 / f64::from(row.repeat.max(1));
        let run = |at: usize| (at as f64 + 0.5) / steps.max(1.0);
        row.rate_over_time.iter().enumerate().map(|(at, &rate)| (run(at), rate)).collect()
    });
    let points = || series.iter().flat_map(|line| line.points.iter());
    let runs = group.rows.iter().map(|row| row.repeat).max().unwrap_or(1);
    let x = Axis {
        title: "run",
        ticks: (1..=runs).map(|run| (f64::from(run) - 0.5, run.to_string())).collect(),
        low: 0.0,
        high: f64::from(runs),
        is_log: false,
    };
    let y = Axis::linear("rate", points().map(|point| point.1).fold(0.0, f64::max), rate);
    plot::chart("Rate over time, run after run", &x, &y, &series, &[])
}

/// Draws a line for each row while there are colours.
fn series(group: &Group<'_>, points: impl Fn(&ReadRow) -> Vec<(f64, f64)>) -> Vec<Curve> {
    let rows = group.rows.iter().enumerate().take(COLOURS);
    let line = |(colour, row): (usize, &&ReadRow)| Curve {
        name: contender(row),
        points: points(row),
        colour,
        is_dashed: false,
    };
    rows.map(line).filter(|line| !line.points.is_empty()).collect()
}

/// Returns the smallest and the greatest value; a range around 1 without values.
pub(super) fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let found = values.fold(None, |bounds, value| match bounds {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    });
    found.unwrap_or((1.0, 1.0))
}

/// Formats a latency with the unit that makes it short.
pub(super) fn microseconds(us: f64) -> String {
    match us {
        us if us >= 999_500.0 => format!("{} s", humane::plain(Some(us / 1e6))),
        us if us >= 999.5 => format!("{} ms", humane::plain(Some(us / 1e3))),
        us => format!("{} µs", humane::plain(Some(us))),
    }
}
