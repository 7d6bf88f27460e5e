//! Numbers in a readable form.

use serde_json::Value;

/// Formats three significant digits with `k`, `M` or `G`: `133k`, `1.87M`, `42.0`; `–` for unknown.
pub(super) fn count(value: Option<f64>) -> String {
    let Some(value) = known(value) else {
        return UNKNOWN.to_owned();
    };
    let (scale, suffix) = match value.abs() {
        // The bounds lie where three digits would round up to a fourth.
        v if v < 999.5 => (1.0, ""),
        v if v < 999.5e3 => (1e3, "k"),
        v if v < 999.5e6 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    format!("{}{suffix}", three_digits(value / scale))
}

/// Formats three significant digits with grouped thousands: `0.125`, `42.1`, `1,836`; `–` for unknown.
pub(super) fn plain(value: Option<f64>) -> String {
    let Some(value) = known(value) else {
        return UNKNOWN.to_owned();
    };
    if value.abs() < 999.5 { three_digits(value) } else { grouped(value.round() as i64) }
}

/// Formats a whole number with grouped thousands: `16,384`.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    if number < 0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a share as a percentage: `2.1 %`; `–` for unknown.
pub(super) fn percent(share: Option<f64>) -> String {
    known(share).map_or_else(|| UNKNOWN.to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Formats a row's parameter: grouped numbers, text without quotes; `–` for one that the row lacks.
pub(super) fn parameter(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => UNKNOWN.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => match value.as_i64() {
            Some(number) => grouped(number),
            None => value.to_string(),
        },
    }
}

/// Draws a share from 0 to 1 as a bar, with a character for each tenth: `██████▍`.
pub(super) fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * BAR_WIDTH as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

const BAR_WIDTH: usize = 10;

fn known(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.0005 => "<0.001".to_owned(),
        v if v < 0.9995 => format!("{value:.3}"),
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The placeholder of an unknown value.
pub(super) const UNKNOWN: &str = "–";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let check = |value: f64, text: &str| assert_eq!(count(Some(value)), text);
        check(0.0, "0");
        check(42.0, "42.0");
        check(133_807.0, "134k");
        check(999_600.0, "1.00M");
        check(1_868_000.0, "1.87M");
        check(22_600_000.0, "22.6M");
        check(1.25e11, "125G");
        assert_eq!(count(None), "–");
        assert_eq!(count(Some(f64::NAN)), "–");
    }

    #[test]
    fn plain_numbers() {
        let check = |value: f64, text: &str| assert_eq!(plain(Some(value)), text);
        check(0.0001, "<0.001");
        check(0.125, "0.125");
        check(4.4789, "4.48");
        check(9.999, "10.0");
        check(42.14, "42.1");
        check(427.4, "427");
        check(999.7, "1,000");
        check(2_380.0, "2,380");
    }

    #[test]
    fn bars() {
        for (share, text) in
            [(0.0, ""), (0.01, "▏"), (0.55, "█████▌"), (1.0, "██████████"), (f64::NAN, "")]
        {
            assert_eq!(bar(share), text);
        }
    }

    #[test]
    fn groups_of_three() {
        for (number, text) in [(0, "0"), (-1234, "-1,234"), (999, "999"), (1_048_576, "1,048,576")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
