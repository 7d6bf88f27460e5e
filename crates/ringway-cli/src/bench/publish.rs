//! What is done with a report: it is printed, and then the files are written that were asked for.

use std::io::{self, Write};

use crate::args::BenchConfig;
use crate::report::{Printer, Report, Screen};
use crate::stderr;

/// Prints `report` to `out` as a whole and writes its files.
///
/// # Errors
/// The output or a file cannot be written.
pub(super) fn publish(
    config: &BenchConfig,
    report: &Report,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut printer = Printer::new(config.format, Screen::of_stdout(config.is_wide), out);
    printer.add(&report.rows)?;
    printer.finish(report)?;
    write_files(config, report)
}

/// Writes the files of a report that is printed already, so that a disk that is full takes no result away.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write_files(config: &BenchConfig, report: &Report) -> io::Result<()> {
    if let Some(page) = &config.report {
        report.draw(page)?;
    }
    if let Some(file) = &config.histogram {
        for written in report.write_histograms(file)? {
            stderr::say(format_args!("latencies: {}", written.display()));
        }
    }
    Ok(())
}
