//! What rows are called, and what tells them apart.

use std::fmt::Write;

use super::humane;
use super::row::Row;

/// Returns the parameters in the order of their first occurrence: those with one value in all rows, and
/// the others.
pub(super) fn parameter_names<'r>(rows: &[&'r Row]) -> (Vec<&'r str>, Vec<&'r str>) {
    let mut names: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| row.parameters.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let is_shared = |name: &&str| {
        let mut values = rows.iter().map(|row| row.parameters.get(*name));
        let first = values.next();
        values.all(|value| Some(value) == first)
    };
    names.into_iter().partition(is_shared)
}

/// Names the row in a note: `pingpong ringway tcp 100 16,384`.
pub(super) fn name_of(row: &Row) -> String {
    let mut name = row.suite.to_owned();
    for value in row.parameters.values() {
        write!(name, " {}", humane::parameter(Some(value))).expect("writing to a string");
    }
    name
}
