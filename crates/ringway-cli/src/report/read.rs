//! Reads a JSON report of this version or of an earlier one with fewer fields.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::limits;

/// A report as it was printed.
#[derive(Debug, Deserialize)]
pub(super) struct ReadReport {
    pub(super) environment: Map<String, Value>,
    pub(super) rows: Vec<ReadRow>,
    #[serde(default)]
    pub(super) left_out: Vec<String>,
    pub(super) failure: Option<String>,
    /// The whole document as it was read.
    #[serde(skip)]
    pub(super) text: String,
}

/// One row; missing figures are unknown.
#[derive(Debug, Deserialize)]
pub(super) struct ReadRow {
    pub(super) suite: String,
    pub(super) parameters: Map<String, Value>,
    pub(super) rate: f64,
    pub(super) unit: String,
    pub(super) rate_min: f64,
    pub(super) rate_max: f64,
    pub(super) rate_cv: Option<f64>,
    pub(super) repeat: u32,
    #[serde(default)]
    pub(super) rates: Vec<f64>,
    pub(super) open_loop: Option<ReadOpenLoop>,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    #[serde(default)]
    pub(super) latency_us_by_quantile: Vec<(f64, f64)>,
    #[serde(default)]
    pub(super) rate_over_time: Vec<f64>,
    pub(super) errors: u64,
    pub(super) server: ReadCost,
    pub(super) client: ReadCost,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadOpenLoop {
    pub(super) due: f64,
    pub(super) achieved: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadCost {
    pub(super) cpu_us_per_op: Option<f64>,
}

impl ReadReport {
    /// Reads a file: the output of `bench --format json`, or a page that contains it.
    ///
    /// # Errors
    /// The file is missing, too long, or contains no report.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let named = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {error}", path.display()))
        };
        let mut text = String::new();
        let file = File::open(path).map_err(|error| named(&error))?;
        let mut file = file.take(limits::REPORT_BYTES_MAX + 1);
        file.read_to_string(&mut text).map_err(|error| named(&error))?;
        if text.len() as u64 > limits::REPORT_BYTES_MAX {
            return Err(named(&format!("longer than {} MiB", limits::REPORT_BYTES_MAX >> 20)));
        }
        Self::parse(&text).map_err(|error| {
            named(&format!("not a report of `ringway bench --format json` ({error})"))
        })
    }

    /// Parses the report in `text`, which is JSON or a page that contains it.
    ///
    /// # Errors
    /// The text contains no report.
    pub(super) fn parse(text: &str) -> serde_json::Result<Self> {
        let inside = text.split_once(JSON_BEGIN).and_then(|(_, rest)| rest.split_once(JSON_END));
        let json = inside.map_or(text, |(json, _)| json);
        let document: Self = serde_json::from_str(json)?;
        Ok(Self { text: json.to_owned(), ..document })
    }
}

/// The markup around the report in a page.
pub(super) const JSON_BEGIN: &str = r#"<script type="application/json" id="report">"#;
pub(super) const JSON_END: &str = "</script>";

impl ReadRow {
    /// Returns the settings that identify a row, as `key value, key value`.
    pub(super) fn name(&self, leave_out: &[&str]) -> String {
        let told = self.parameters.iter().filter(|(key, _)| !leave_out.contains(&key.as_str()));
        let parts: Vec<String> =
            told.map(|(key, value)| format!("{key} {}", plain(value))).collect();
        parts.join(", ")
    }

    /// Returns a setting as text, if the row has it.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.parameters.get(name).map(plain)
    }
}

/// Formats a value without the quotation marks and brackets of JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
