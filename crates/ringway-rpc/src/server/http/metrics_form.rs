//! The form of metrics that a request asks for.

use ringway_http::http::{HeaderMap, header};

use crate::metrics::MetricsForm;

/// Returns OpenMetrics if the client takes it at least as gladly as Prometheus' form (RFC 9110, section 12.5.1).
pub(super) fn wanted(headers: &HeaderMap) -> MetricsForm {
    let accept = || headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let weight = |kind: &str| {
        let ranges = accept().flat_map(|value| value.split(','));
        ranges.filter_map(|range| weight_of(range, kind)).max().unwrap_or(0)
    };
    match weight("application/openmetrics-text") {
        0 => MetricsForm::Prometheus,
        open if open >= weight("text/plain") => MetricsForm::OpenMetrics,
        _ => MetricsForm::Prometheus,
    }
}

/// The weight of a media range in thousandths, if it is of this kind.
fn weight_of(range: &str, kind: &str) -> Option<u16> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(kind) {
        return None;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    let weight: f32 = weight.map_or(Ok(1.0), str::parse).ok()?;
    (0.0..=1.0).contains(&weight).then_some((weight * 1000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_who_asks_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, form) in [
            ("", MetricsForm::Prometheus),
            ("*/*", MetricsForm::Prometheus),
            ("text/html, text/plain", MetricsForm::Prometheus),
            (prometheus, MetricsForm::OpenMetrics),
            ("Application/OpenMetrics-Text", MetricsForm::OpenMetrics),
            ("application/openmetrics-text; q=0", MetricsForm::Prometheus),
            ("application/openmetrics-text; q=2", MetricsForm::Prometheus),
            ("text/plain, application/openmetrics-text;q=0.9", MetricsForm::Prometheus),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("a value"));
            assert_eq!(wanted(&headers), form, "{accept}");
        }
        assert_eq!(wanted(&HeaderMap::new()), MetricsForm::Prometheus);
    }
}
