//! The measurements of a run, as one JSON object.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::limits::LATENCY_NS_MAX;

/// Counts of the measured interval, latencies of what began in it; errors and mismatches of the whole run.
pub(crate) struct Report {
    pub(crate) elapsed: Duration,
    /// CPU time of the client in the measured interval.
    pub(crate) cpu: Duration,
    /// Connections or calls that failed, and requests unanswered when the drain ended.
    pub(crate) errors: u64,
    /// Replies whose content was not what was sent.
    pub(crate) mismatches: u64,
    /// Intact replies.
    pub(crate) messages: u64,
    message_bytes: usize,
    latency_ns: Histogram<u64>,
}

impl Report {
    pub(crate) fn new(message_bytes: usize) -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the histogram accepts");
        Self {
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            errors: 0,
            mismatches: 0,
            messages: 0,
            message_bytes,
            latency_ns,
        }
    }

    /// Adds a latency to the percentiles.
    pub(crate) fn time(&mut self, latency: Duration) {
        self.latency_ns.saturating_record(latency.as_nanos() as u64);
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.errors == 0 && self.mismatches == 0
    }

    pub(crate) fn to_json(&self) -> String {
        let seconds = self.elapsed.as_secs_f64();
        let rate = ratio(self.messages as f64, seconds);
        let goodput = rate * self.message_bytes as f64 / f64::from(1 << 20);
        let cpu_us = ratio(self.cpu.as_secs_f64() * 1e6, self.messages as f64);
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|q| self.percentile_us(q));
        let max = self.max_us();
        let Self { errors, mismatches, messages, .. } = self;
        format!(
            "{{\"rate\":{rate:.1},\"messages\":{messages},\"seconds\":{seconds:.6},\
             \"goodput_mib_s\":{goodput:.2},\"p50_us\":{p50},\"p90_us\":{p90},\"p99_us\":{p99},\
             \"p999_us\":{p999},\"max_us\":{max},\"errors\":{errors},\
             \"mismatches\":{mismatches},\"client_cpu_us_per_op\":{cpu_us:.3}}}"
        )
    }

    /// `null` if fewer than ten samples lie above: such a percentile would be an accident.
    fn percentile_us(&self, quantile: f64) -> String {
        let above = self.latency_ns.len() as f64 * (1.0 - quantile);
        if above < SAMPLES_ABOVE_MIN {
            return "null".into();
        }
        format!("{:.3}", self.latency_ns.value_at_quantile(quantile) as f64 / 1e3)
    }

    fn max_us(&self) -> String {
        if self.latency_ns.is_empty() {
            return "null".into();
        }
        format!("{:.3}", self.latency_ns.max() as f64 / 1e3)
    }
}

const SIGNIFICANT_DIGITS: u8 = 3;
const SAMPLES_ABOVE_MIN: f64 = 10.0;

/// Returns zero instead of dividing by zero: a run without a message has no rate.
fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 { numerator / denominator } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_rates_percentiles_and_blanks() {
        let mut report = Report::new(1 << 20);
        report.messages = 100;
        (0..100).for_each(|_| report.time(Duration::from_micros(8)));
        report.elapsed = Duration::from_secs(2);
        report.cpu = Duration::from_millis(1);
        let json = report.to_json();
        assert!(
            json.starts_with("{\"rate\":50.0,\"messages\":100,\"seconds\":2.000000,"),
            "{json}"
        );
        assert!(json.contains("\"goodput_mib_s\":50.00,\"p50_us\":8.0"), "{json}");
        assert!(json.contains("\"p99_us\":null,\"p999_us\":null,\"max_us\":8.0"), "{json}");
        assert!(json.ends_with("\"client_cpu_us_per_op\":10.000}"), "{json}");
    }

    #[test]
    fn messages_and_latencies_may_differ_in_number() {
        let mut report = Report::new(64);
        report.elapsed = Duration::from_secs(1);
        report.messages = 160;
        (0..20).for_each(|_| report.time(Duration::from_micros(8)));
        let json = report.to_json();
        assert!(json.contains("\"rate\":160.0,\"messages\":160,"), "{json}");
        assert!(json.contains("\"p50_us\":8.0") && json.contains("\"p90_us\":null"), "{json}");
    }

    #[test]
    fn a_run_without_a_message_is_still_json() {
        let json = Report::new(64).to_json();
        assert!(json.contains("\"rate\":0.0,") && json.contains("\"max_us\":null,"), "{json}");
    }
}
