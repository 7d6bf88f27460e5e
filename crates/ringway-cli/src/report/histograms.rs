//! Files with the latencies of rows, which other programs can draw and compare.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::names::{name_of, parameter_names};
use super::row::Row;
use crate::histogram::Latencies;

/// Writes the latencies of each row that has some: to `path`, or where there are several rows, to files beside it whose
/// names say by which parameters the rows differ. Returns the names.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(rows: &[Row], path: &Path) -> io::Result<Vec<PathBuf>> {
    let with_samples: Vec<(&Row, &Latencies)> = rows
        .iter()
        .filter_map(|row| row.detail.samples.as_deref().map(|samples| (row, samples)))
        .filter(|(_, samples)| samples.count() > 0)
        .collect();
    let names = names(with_samples.iter().map(|(row, _)| *row).collect(), path);
    for ((row, samples), name) in with_samples.iter().zip(&names) {
        let text =
            format!("{}#[Row     = {}, microseconds]\n", samples.percentile_text(), name_of(row));
        fs::write(name, text).map_err(|error| {
            io::Error::other(format!("cannot write {}: {error}", name.display()))
        })?;
    }
    Ok(names)
}

fn names(rows: Vec<&Row>, path: &Path) -> Vec<PathBuf> {
    if rows.len() < 2 {
        return rows.iter().map(|_| path.to_owned()).collect();
    }
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (stem, extension) = (text(path.file_stem()), text(path.extension()));
    let has_suites = rows.iter().any(|row| row.suite != rows[0].suite);
    let (_, distinct) = parameter_names(&rows);
    let mut taken = HashSet::new();
    rows.iter()
        .map(|row| {
            let mut name = stem.clone();
            if has_suites {
                name = format!("{name}-{}", row.suite);
            }
            for parameter in &distinct {
                if let Some(value) = row.parameters.get(*parameter) {
                    name = format!("{name}-{}", in_a_name(&format!("{parameter}-{value}")));
                }
            }
            while !taken.insert(name.clone()) {
                name.push('x');
            }
            let dot = if extension.is_empty() { "" } else { "." };
            path.with_file_name(format!("{name}{dot}{extension}"))
        })
        .collect()
}

/// Returns what of `text` is safe in the name of a file.
fn in_a_name(text: &str) -> String {
    let is_kept = |letter: &char| letter.is_ascii_alphanumeric() || ".-_".contains(*letter);
    let kept = text.replace('"', "");
    kept.chars().map(|letter| if is_kept(&letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::row;
    use super::*;

    fn found(rows: &[Row]) -> Vec<String> {
        let names = names(rows.iter().collect(), Path::new("out/lat.hgrm"));
        names.iter().map(|name| name.display().to_string()).collect()
    }

    #[test]
    fn names_say_what_tells_the_rows_apart() {
        let of = |server: &str, size: u32| {
            row("rpc", json!({"server": server, "connections": 3, "size": size}), &[1.0])
        };
        assert_eq!(found(&[]), Vec::<String>::new());
        assert_eq!(found(&[of("ringway", 1)]), ["out/lat.hgrm"]);
        let expected = ["out/lat-size-1.hgrm", "out/lat-size-2.hgrm"];
        assert_eq!(found(&[of("ringway", 1), of("ringway", 2)]), expected);
        let expected = ["out/lat-server-tcp___a_1.hgrm", "out/lat-server-tcp___a_1x.hgrm"];
        assert_eq!(found(&[of("tcp://a:1", 1), of("tcp://a/1", 1)]), expected);
        let other = row("stream", json!({"connections": 3, "size": 1}), &[1.0]);
        let expected = ["out/lat-rpc-server-ringway.hgrm", "out/lat-stream.hgrm"];
        assert_eq!(found(&[of("ringway", 1), other]), expected);
    }
}
