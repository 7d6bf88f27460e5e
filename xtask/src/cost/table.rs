//! The table: as it is written, read and compared.

use std::fmt;

/// A side of a row may grow by so much.
const GROWTH_MAX: f64 = 0.02;

/// What is no further apart is no difference: a thing that happens once in fifty operations, or a
/// pool's buffer of 68 KiB that one run in three makes while the operations are counted.
const DIFFERENCE_MIN: [f64; 4] = [1.0, 0.02, 0.02, 400.0];

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    /// The programs by which it was made.
    pub(super) environment: String,
    pub(super) costs: Vec<Cost>,
}

/// What an operation costs one side of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cost {
    pub(super) row: String,
    pub(super) side: String,
    /// In the order of [`NAMES`].
    pub(super) counts: [f64; 4],
}

const NAMES: [&str; 4] = ["instructions", "syscalls", "allocations", "bytes"];

/// How one side of a row differs from the table.
#[derive(Default)]
pub(super) struct Comparison {
    pub(super) text: String,
    pub(super) is_grown: bool,
    pub(super) is_shrunk: bool,
}

const ENVIRONMENT: &str = "# Made by ";

const HEAD: &str = "\
# What one operation costs each side: instructions as callgrind counts them (over epoll), system
# calls of the core (over io_uring), allocations and their bytes. cost/src/rows.rs has the work.
# `cargo xtask cost` fails when one has grown by more than 2 %; with --write it renews the table.
";

pub(super) const HEAD_OF_COMPARISON: &str =
    "row             side    count                was           is        %";

impl Table {
    /// # Errors
    /// The line that is no row.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        for line in text.lines() {
            if let Some(environment) = line.strip_prefix(ENVIRONMENT) {
                environment.trim_end_matches('.').clone_into(&mut table.environment);
            }
            if line.starts_with('#') || line.starts_with("row ") || line.is_empty() {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let cost = match words[..] {
                [row, side, a, b, c, d] => {
                    let counts = [a, b, c, d].map(|word| word.parse().unwrap_or(f64::NAN));
                    Cost { row: row.to_owned(), side: side.to_owned(), counts }
                }
                _ => return Err(format!("`{line}` is no row")),
            };
            if cost.counts.iter().any(|count| count.is_nan()) {
                return Err(format!("`{line}` is no row"));
            }
            table.costs.push(cost);
        }
        Ok(table)
    }

    /// This table with the rows of `new` in the place of its own.
    pub(super) fn with(mut self, new: Table) -> Table {
        for cost in new.costs {
            let is_same = |old: &&mut Cost| old.row == cost.row && old.side == cost.side;
            match self.costs.iter_mut().find(is_same) {
                Some(old) => *old = cost,
                None => self.costs.push(cost),
            }
        }
        self
    }

    /// Compares one side of a row with its line.
    pub(super) fn compare(&self, new: &Cost) -> Comparison {
        let (row, side) = (&new.row, &new.side);
        let mut comparison = Comparison::default();
        let Some(old) = self.costs.iter().find(|old| old.row == *row && old.side == *side) else {
            comparison.text = format!("{row:15} {side:7} is not in the table\n");
            comparison.is_grown = true;
            return comparison;
        };
        for (at, name) in NAMES.iter().enumerate() {
            let (was, is) = (old.counts[at], new.counts[at]);
            let growth = growth(was, is, DIFFERENCE_MIN[at]);
            comparison.is_grown |= growth > GROWTH_MAX;
            comparison.is_shrunk |= growth < -GROWTH_MAX;
            // Instructions always, since they are what one looks for; the others if they have moved.
            if at > 0 && growth.abs() <= GROWTH_MAX {
                continue;
            }
            let percent = growth * 100.0;
            let mark = if growth > GROWTH_MAX { "  grown" } else { "" };
            comparison.text += &format!(
                "{row:15} {side:7} {name:12} {was:>11.2} {is:>12.2} {percent:>+8.2}{mark}\n"
            );
        }
        comparison
    }
}

/// The share by which a count has grown; 0 if it is the same but for chance.
fn growth(was: f64, is: f64, difference_min: f64) -> f64 {
    if (is - was).abs() <= difference_min {
        return 0.0;
    }
    (is - was) / was.max(difference_min)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}{ENVIRONMENT}{}.\n", self.environment)?;
        writeln!(f, "row             side     instructions  syscalls  allocations       bytes")?;
        for Cost { row, side, counts: [instructions, syscalls, allocations, bytes] } in &self.costs
        {
            writeln!(
                f,
                "{row:15} {side:8} {instructions:>12.1} {syscalls:>9.2} {allocations:>12.2} {bytes:>11.1}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(row: &str, counts: [f64; 4]) -> Cost {
        Cost { row: row.to_owned(), side: "server".to_owned(), counts }
    }

    fn table() -> Table {
        let costs =
            vec![cost("call-1", [1000.0, 2.0, 0.0, 0.0]), cost("echo-64", [5e6, 1.0, 3.0, 99.5])];
        Table { environment: "rustc 1.95.0, glibc 2.36".to_owned(), costs }
    }

    #[test]
    fn a_table_is_read_as_it_is_written() {
        let text = table().to_string();
        assert_eq!(Table::parse(&text), Ok(table()));
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert!(Table::parse("call-1 server 1 2 3\n").is_err());
        assert!(Table::parse("call-1 server 1 2 3 many\n").is_err());
    }

    #[test]
    fn growth_of_more_than_two_percent_is_found_in_every_count() {
        let check = |counts, is_grown, is_shrunk| {
            let comparison = table().compare(&cost("call-1", counts));
            let found = (comparison.is_grown, comparison.is_shrunk);
            assert_eq!(found, (is_grown, is_shrunk), "{}", comparison.text);
        };
        check([1000.0, 2.0, 0.0, 0.0], false, false);
        check([1019.0, 2.02, 0.01, 3.0], false, false);
        check([1021.0, 2.0, 0.0, 0.0], true, false);
        check([1000.0, 2.1, 0.0, 0.0], true, false);
        check([1000.0, 2.0, 1.0, 0.0], true, false);
        check([1000.0, 2.0, 0.0, 640.0], true, false);
        check([979.0, 2.0, 0.0, 0.0], false, true);
        check([979.0, 2.1, 0.0, 0.0], true, true);
    }

    #[test]
    fn a_row_without_a_line_has_grown() {
        let comparison = table().compare(&cost("call-2", [1.0; 4]));
        assert!(
            comparison.is_grown && comparison.text.contains("is not in"),
            "{}",
            comparison.text
        );
    }

    #[test]
    fn single_rows_take_the_place_of_their_lines() {
        let new = Table { costs: vec![cost("echo-64", [4.0; 4])], ..table() };
        let both = table().with(new);
        assert_eq!(
            both.costs,
            [cost("call-1", [1000.0, 2.0, 0.0, 0.0]), cost("echo-64", [4.0; 4])]
        );
    }
}
