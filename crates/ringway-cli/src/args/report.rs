//! The configuration of `ringway report`, resolved.

use std::path::PathBuf;

use super::choices::Format;
use super::flags::ReportFlags;
use super::values::ValueError;

/// What to do with the results of earlier runs.
#[derive(Debug, PartialEq)]
pub(crate) enum ReportConfig {
    /// Prints a table with the rows of both, and what differs by more than the noise.
    Compare { before: PathBuf, after: PathBuf, format: Format },
    /// Writes a page with charts of one.
    Draw { results: PathBuf, page: PathBuf },
}

/// # Errors
/// There is one file without a page to draw, or two files with one.
pub(super) fn resolve(raw: ReportFlags) -> Result<ReportConfig, ValueError> {
    let mut files = raw.files.into_iter();
    match (files.next(), files.next(), raw.html) {
        (Some(before), Some(after), None) => {
            Ok(ReportConfig::Compare { before, after, format: raw.format })
        }
        (Some(results), None, Some(page)) => Ok(ReportConfig::Draw { results, page }),
        (_, _, Some(_)) => Err(ValueError::new("a page shows one file; drop --html")),
        (_, _, None) => Err(ValueError::new(
            "one file is compared with nothing: name a second one, or draw it with --html FILE",
        )),
    }
}
