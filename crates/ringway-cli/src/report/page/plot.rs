//! Line charts as SVG.

use std::fmt::Write;

use super::escape::Text;

/// One line of a chart.
pub(super) struct Curve {
    pub(super) name: String,
    /// Its points, in the order of x.
    pub(super) points: Vec<(f64, f64)>,
    /// The number of its colour.
    pub(super) colour: usize,
    pub(super) is_dashed: bool,
}

/// One axis: its title, and the values of its grid lines.
pub(super) struct Axis {
    pub(super) title: &'static str,
    /// Values with labels, within the bounds.
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) is_log: bool,
}

/// A vertical line with a label.
pub(super) struct Mark {
    pub(super) at: f64,
    pub(super) text: String,
}

/// Colours of the style sheet.
pub(super) const COLOURS: usize = 8;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;

impl Axis {
    /// Makes an axis from zero to `high` with round numbers.
    pub(super) fn linear(title: &'static str, high: f64, label: impl Fn(f64) -> String) -> Self {
        let high = if high > 0.0 { high * 1.05 } else { 1.0 };
        let step = round_step(high / 5.0);
        let count = (high / step) as u32;
        let ticks = (0..=count).map(|at| f64::from(at) * step);
        let ticks = ticks.map(|at| (at, label(at))).collect();
        Self { title, ticks, low: 0.0, high, is_log: false }
    }

    /// Makes a logarithmic axis around positive values, with a line at each power of ten, and at 2 and 5 if there
    /// is room.
    pub(super) fn log(
        title: &'static str,
        (low, high): (f64, f64),
        label: impl Fn(f64) -> String,
    ) -> Self {
        let (low, high) = (low / 1.2, high * 1.2);
        let decades = (high / low).log10();
        let factors: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let exponents = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let all = exponents.flat_map(|e| factors.iter().map(move |f| f * 10_f64.powi(e)));
        let within = all.filter(|at| (low..=high).contains(at));
        Self { title, ticks: within.map(|at| (at, label(at))).collect(), low, high, is_log: true }
    }

    /// Returns the position of a value, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.is_log { value.max(self.low).ln() } else { value };
        let (low, high) = (scaled(self.low), scaled(self.high));
        ((scaled(value) - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// Returns 1, 2, 2.5 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= step);
    factor.unwrap_or(10.0) * power
}

/// Draws a chart with its title, and with a legend for several lines; empty without points.
pub(super) fn chart(title: &str, x: &Axis, y: &Axis, series: &[Curve], marks: &[Mark]) -> String {
    if series.iter().all(|series| series.points.is_empty()) {
        return String::new();
    }
    let mut svg = format!(
        "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{}\">\n",
        Text(title),
        Text(title)
    );
    draw_axes(&mut svg, x, y);
    let px = |value| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
    let py = |value| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM);
    for mark in marks {
        let at = px(mark.at);
        let (anchor, shift) = if at > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
        writeln!(
            svg,
            "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/><text class=\"mark\" \
             x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - BOTTOM,
            at + shift,
            TOP + 12.0,
            Text(&mark.text)
        )
        .expect("writing to a string");
    }
    for line in series {
        let points: Vec<String> =
            line.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", px(x), py(y))).collect();
        let dashed = if line.is_dashed { " dashed" } else { "" };
        let colour = line.colour % COLOURS;
        match &points[..] {
            [] => {}
            [one] => {
                let (x, y) = one.split_once(',').unwrap_or_default();
                writeln!(svg, "<circle class=\"c{colour}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>")
                    .expect("writing to a string");
            }
            points => writeln!(
                svg,
                "<polyline class=\"c{colour}{dashed}\" points=\"{}\"><title>{}</title></polyline>",
                points.join(" "),
                Text(&line.name)
            )
            .expect("writing to a string"),
        }
    }
    svg.push_str("</svg>\n");
    if series.len() > 1 {
        svg.push_str(&legend(series));
    }
    svg.push_str("</figure>\n");
    svg
}

fn draw_axes(svg: &mut String, x: &Axis, y: &Axis) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (value, label) in &y.ticks {
        let at = bottom - y.place(*value) * (bottom - TOP);
        writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            Text(label)
        )
        .expect("writing to a string");
    }
    for (value, label) in &x.ticks {
        let at = LEFT + x.place(*value) * (right - LEFT);
        writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/><text x=\"{at:.1}\" \
             y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            Text(label)
        )
        .expect("writing to a string");
    }
    writeln!(
        svg,
        "<text class=\"title\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n<text class=\"title side\" \
         transform=\"translate(12 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        right,
        HEIGHT - 6.0,
        Text(x.title),
        (TOP + bottom) / 2.0,
        Text(y.title)
    )
    .expect("writing to a string");
}

fn legend(series: &[Curve]) -> String {
    let item = |line: &Curve| {
        let dashed = if line.is_dashed { " dashed" } else { "" };
        let colour = line.colour % COLOURS;
        format!("<li><i class=\"c{colour}{dashed}\"></i>{}</li>", Text(&line.name))
    };
    format!("<ul class=\"legend\">{}</ul>\n", series.iter().map(item).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!([0.7, 1.1, 23.0, 51.0].map(round_step), [1.0, 2.0, 25.0, 100.0]);
    }

    #[test]
    fn values_stand_between_the_bounds() {
        let axis = Axis::log("", (1.0, 1000.0), |at| at.to_string());
        assert!(axis.place(1.0) < axis.place(10.0) && axis.place(10.0) < axis.place(1000.0));
        assert_eq!([axis.place(0.0), axis.place(1e9)], [0.0, 1.0]);
        let labels: Vec<_> = axis.ticks.iter().map(|(at, _)| *at).collect();
        assert!(labels.contains(&1.0) && labels.contains(&1000.0), "{labels:?}");
        let axis = Axis::linear("", 0.0, |at| at.to_string());
        assert_eq!(axis.place(0.0), 0.0);
    }
}
