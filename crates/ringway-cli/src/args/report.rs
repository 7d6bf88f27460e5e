//! The configuration of `ringway report`, resolved.

use std::path::PathBuf;

use super::choices::Format;
use super::flags::ReportFlags;
use super::values::ValueError;

/// What to make of the results of earlier runs.
#[derive(Debug, PartialEq)]
pub(crate) enum ReportConfig {
    /// A table with the rows of both, and what differs by more than the noise.
    Compare { before: PathBuf, after: PathBuf, format: Format },
    /// A page with charts of one.
    Draw { results: PathBuf, page: PathBuf },
}

/// # Errors
/// One file and nothing to do with it, or two and a page to draw.
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
