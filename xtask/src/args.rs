//! The command line of `cargo xtask`.

use crate::cost;
use crate::steps::{STEPS, Settings, Step};
use crate::tidy::View;

/// What the command line asks for.
pub(crate) enum Command {
    Help,
    Tidy(View),
    Cost(cost::CostSettings),
    Gate { settings: Settings, only: Option<&'static Step> },
}

/// Reads the words after `cargo xtask`.
///
/// # Errors
///
/// A message that names the word that is unknown or missing, and what is possible.
pub(crate) fn parse(words: &[String]) -> Result<Command, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        return Ok(Command::Help);
    }
    match words[..] {
        [] | ["help"] => Ok(Command::Help),
        ["tidy"] => Ok(Command::Tidy(View::Findings)),
        ["tidy", "--lines"] => Ok(Command::Tidy(View::Lines)),
        ["cost", ref rest @ ..] => cost(rest),
        ["test", ref rest @ ..] => gate(Settings::local(), rest),
        ["ci", ref rest @ ..] => gate(Settings::ci(), rest),
        [command, ..] => Err(format!("unknown: `{command}`; try `cargo xtask --help`")),
    }
}

fn cost(rest: &[&str]) -> Result<Command, String> {
    let mut settings = cost::CostSettings::default();
    for word in rest {
        match *word {
            "--write" => settings.writes = true,
            word if word.starts_with('-') => {
                return Err(format!("unknown: `{word}`; try `cargo xtask --help`"));
            }
            row => settings.only.push(row.to_owned()),
        }
    }
    Ok(Command::Cost(settings))
}

fn gate(settings: Settings, rest: &[&str]) -> Result<Command, String> {
    let only = match rest {
        [] => None,
        ["--only", name] => Some(step(name)?),
        ["--only"] => return Err(format!("`--only` needs a step: {}", names())),
        [word, ..] => return Err(format!("unknown: `{word}`; try `cargo xtask --help`")),
    };
    Ok(Command::Gate { settings, only })
}

fn step(name: &str) -> Result<&'static Step, String> {
    let found = STEPS.iter().find(|step| step.name == name);
    found.ok_or_else(|| format!("no step `{name}`; there are: {}", names()))
}

fn names() -> String {
    STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join(", ")
}

/// The help text, with the steps from their table.
pub(crate) fn help() -> String {
    let steps: String =
        STEPS.iter().map(|step| format!("  {:8} {}\n", step.name, step.summary)).collect();
    format!("{HELP_HEAD}\nSteps:\n{steps}\n{HELP_EXAMPLES}")
}

const HELP_HEAD: &str = "\
Runs the project's checks and tests.

Usage: cargo xtask <COMMAND> [OPTIONS]

Commands:
  test     Run the whole gate: every step below, each with its time
  ci       Like test, with the settings of CI: locked versions, no colours, fixed snapshots
  tidy     Run only the project's own checks, and print the longest files
  cost     Count what an operation costs, and compare with cost/table.txt: fails when it has grown

Options (test, ci):
  --only <STEP>   Run one step
  -h, --help      Print this help

Options (tidy):
  --lines         Print only the numbers of lines of each crate: product, tests, comments

Options (cost):
  <ROW>...        Measure these rows only
  --write         Renew the table instead of comparing with it
";

const HELP_EXAMPLES: &str = "\
Examples:
  cargo xtask test               everything that CI runs, before you share a commit
  cargo xtask test --only loom   the model-checked tests of the core-to-core mailbox
  cargo xtask tidy               imports, sizes, words and links, in about a second
  cargo xtask tidy --lines       the amount of code
  cargo xtask cost call-1        what a call costs now, beside what the table says
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_are_read() {
        assert!(matches!(parse_line("tidy"), Ok(Command::Tidy(View::Findings))));
        assert!(matches!(parse_line("tidy --lines"), Ok(Command::Tidy(View::Lines))));
        assert!(matches!(parse_line("test --help"), Ok(Command::Help)));
        assert!(matches!(parse_line(""), Ok(Command::Help)));
        let Ok(Command::Cost(settings)) = parse_line("cost --write call-1 echo-64") else {
            panic!("a command");
        };
        assert!(settings.writes);
        assert_eq!(settings.only, ["call-1", "echo-64"]);
        let Ok(Command::Gate { settings, only }) = parse_line("ci --only loom") else {
            panic!("`ci --only loom` is a gate");
        };
        assert!(settings.is_locked);
        assert_eq!(only.map(|step| step.name), Some("loom"));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("tset", "`tset`"),
            ("test --only", "fmt, "),
            ("test --only docs", "`docs`; there are: fmt, "),
            ("test --fast", "`--fast`"),
            ("tidy now", "`tidy`"),
            ("cost --fast", "`--fast`"),
        ] {
            let message = parse_line(line).err().expect("a mistake");
            assert!(message.contains(part), "{line}: {message}");
        }
    }

    #[test]
    fn the_help_lists_every_step() {
        for step in STEPS {
            assert!(help().contains(&format!("\n  {:8} {}\n", step.name, step.summary)));
        }
    }
}
