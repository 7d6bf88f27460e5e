//! Metrics as text, in Prometheus' form and in that of OpenMetrics (prometheus.io/docs/specs/om/open_metrics_spec).

use std::fmt::Write as _;
use std::time::Duration;

use super::call_counters::MethodSnapshot;
use super::side::Side;
use crate::call::status::Code;

/// A form of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsForm {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricsForm {
    /// The content type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The last line.
    pub(crate) fn end(self) -> &'static str {
        match self {
            Self::Prometheus => "",
            Self::OpenMetrics => "# EOF\n",
        }
    }

    /// Writes the head of a metric, before its samples.
    pub(crate) fn head(self, text: &mut String, name: &str, kind: &str, help: &str) {
        let name = match self {
            Self::Prometheus => name,
            // A counter and its samples have different names ("Counter" of the specification).
            Self::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        };
        let _infallible = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }
}

/// The number of gRPC status codes.
const CODES: u8 = 17;

/// Upper bounds of the latency buckets, at usual thresholds for alerts.
const BOUNDS_US: [u64; 14] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 10_000_000,
];

/// Writes the metrics without the last line of their form. Methods that were never called have no samples.
pub(super) fn text(all: &[MethodSnapshot], form: MetricsForm) -> String {
    let mut text = String::new();
    for (side, name) in [(Side::Server, "server"), (Side::Client, "client")] {
        let asked = |method: &&MethodSnapshot| method.side == side && was_asked_for(method);
        let methods: Vec<_> = all.iter().filter(asked).collect();
        if methods.is_empty() {
            continue;
        }
        calls(&mut text, form, name, &methods);
        for family in FAMILIES {
            family.write(&mut text, form, name, &methods);
        }
        latency(&mut text, form, name, &methods);
    }
    text
}

/// Whether there were calls, also if none of them could begin.
fn was_asked_for(method: &MethodSnapshot) -> bool {
    method.started > 0 || method.shed > 0 || method.expired > 0
}

/// A metric with one value for each method.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&MethodSnapshot) -> u64,
}

const fn counter(
    name: &'static str,
    help: &'static str,
    value: fn(&MethodSnapshot) -> u64,
) -> Family {
    Family { name, kind: "counter", help, value }
}

const FAMILIES: &[Family] = &[
    Family {
        name: "in_flight",
        kind: "gauge",
        help: "Calls begun and not ended.",
        value: MethodSnapshot::in_flight,
    },
    counter("request_bytes_total", "Bytes of request messages.", |method| method.bytes_in),
    counter("reply_bytes_total", "Bytes of reply messages.", |method| method.bytes_out),
    counter("stream_requests_total", "Request messages of streams.", |method| method.messages_in),
    counter("stream_replies_total", "Reply messages of streams.", |method| method.messages_out),
    counter("retries_total", "Attempts after one that failed.", |method| method.retries),
    counter("hedges_total", "Attempts beside one that took long.", |method| method.hedges),
    counter("over_budget_total", "Attempts that the budget refused.", |method| method.over_budget),
    counter("expired_total", "Calls whose deadline passed in a queue.", |method| method.expired),
    counter("shed_total", "Calls refused because of a limit.", |method| method.shed),
];

impl Family {
    fn write(&self, text: &mut String, form: MetricsForm, side: &str, methods: &[&MethodSnapshot]) {
        let Self { name, kind, help, value } = self;
        form.head(text, &format!("ringway_{side}_{name}"), kind, help);
        for method in methods {
            line(text, &format!("ringway_{side}_{name}"), &labels(method, ""), value(method));
        }
    }
}

fn calls(text: &mut String, form: MetricsForm, side: &str, methods: &[&MethodSnapshot]) {
    let name = format!("ringway_{side}_calls_total");
    form.head(text, &name, "counter", "Calls ended, by status.");
    for method in methods {
        for code in (0..CODES).map(Code::from_wire) {
            let count = method.with_code(code);
            if count > 0 {
                let status = format!(",status=\"{}\"", code.name());
                line(text, &name, &labels(method, &status), count);
            }
        }
    }
}

fn latency(text: &mut String, form: MetricsForm, side: &str, methods: &[&MethodSnapshot]) {
    let name = format!("ringway_{side}_latency_seconds");
    form.head(text, &name, "histogram", "From a call's arrival to its end.");
    for method in methods {
        let bucket = format!("{name}_bucket");
        for bound in BOUNDS_US {
            let bound = Duration::from_micros(bound);
            let le = format!(",le=\"{}\"", bound.as_secs_f64());
            line(text, &bucket, &labels(method, &le), method.total.within(bound));
        }
        let count = method.total.count();
        line(text, &bucket, &labels(method, ",le=\"+Inf\""), count);
        line(text, &format!("{name}_sum"), &labels(method, ""), method.total.sum().as_secs_f64());
        line(text, &format!("{name}_count"), &labels(method, ""), count);
    }
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _infallible = writeln!(text, "{name}{{{labels}}} {value}");
}

fn labels(method: &MethodSnapshot, more: &str) -> String {
    let (service, name) = method.method.rsplit_once('/').unwrap_or(("", &method.method));
    format!("service=\"{}\",method=\"{}\"{more}", escaped(service), escaped(name))
}

/// Escapes a label value as the format requires.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::{CallEnd, Metrics};
    use super::*;

    #[test]
    fn a_served_method_is_written_out() {
        let metrics = Metrics::new();
        let counters = metrics.counters(Side::Server, "market.v1.Market/Quote");
        metrics.counters(Side::Server, "market.v1.Market/Never");
        for (code, micros) in [(Code::Ok, 20), (Code::Ok, 700), (Code::NotFound, 20)] {
            counters.started(10);
            let service = Duration::from_micros(micros);
            counters.ended(CallEnd { code, bytes_out: 5, queue: Duration::ZERO, service });
        }
        let text = metrics.snapshot().prometheus();
        let labels = "service=\"market.v1.Market\",method=\"Quote\"";
        for expected in [
            "# TYPE ringway_server_calls_total counter".to_owned(),
            format!("ringway_server_calls_total{{{labels},status=\"OK\"}} 2"),
            format!("ringway_server_calls_total{{{labels},status=\"NOT_FOUND\"}} 1"),
            format!("ringway_server_in_flight{{{labels}}} 0"),
            format!("ringway_server_request_bytes_total{{{labels}}} 30"),
            format!("ringway_server_reply_bytes_total{{{labels}}} 15"),
            format!("ringway_server_latency_seconds_bucket{{{labels},le=\"0.000025\"}} 2"),
            format!("ringway_server_latency_seconds_bucket{{{labels},le=\"0.001\"}} 3"),
            format!("ringway_server_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("ringway_server_latency_seconds_sum{{{labels}}} 0.00074"),
            format!("ringway_server_latency_seconds_count{{{labels}}} 3"),
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
        }
        assert!(!text.contains("Never") && !text.contains("client"), "{text}");
    }

    #[test]
    fn a_method_is_written_out_whose_calls_were_all_refused() {
        let metrics = Metrics::new();
        metrics.counters(Side::Server, "a/Shed").shed();
        metrics.counters(Side::Server, "a/Late").expired();
        let text = metrics.snapshot().prometheus();
        for expected in [
            "ringway_server_shed_total{service=\"a\",method=\"Shed\"} 1",
            "ringway_server_expired_total{service=\"a\",method=\"Late\"} 1",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn counters_of_open_metrics_are_named_without_their_suffix() {
        let metrics = Metrics::new();
        metrics.counters(Side::Server, "a/B").shed();
        let text = metrics.snapshot().open_metrics();
        for expected in [
            "# TYPE ringway_server_shed counter",
            "# HELP ringway_server_shed Calls refused because of a limit.",
            "ringway_server_shed_total{service=\"a\",method=\"B\"} 1",
            "# TYPE ringway_server_in_flight gauge",
            "# TYPE ringway_server_latency_seconds histogram",
            "ringway_server_latency_seconds_bucket{service=\"a\",method=\"B\",le=\"+Inf\"} 0",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
        }
        let heads = text.lines().filter(|line| line.starts_with('#'));
        assert!(heads.into_iter().all(|line| !line.contains("_total ")), "{text}");
    }

    #[test]
    fn label_values_cannot_break_out() {
        let metrics = Metrics::new();
        metrics.counters(Side::Client, "a\"b\\c\nd/E").started(1);
        let text = metrics.snapshot().prometheus();
        assert!(text.contains("service=\"a\\\"b\\\\c\\nd\",method=\"E\""), "{text}");
        assert!(text.lines().all(|line| line.starts_with('#') || line.starts_with("ringway_")));
    }
}
