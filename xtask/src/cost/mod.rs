//! `cargo xtask cost`: what an operation costs, in numbers that do not depend on the time: instructions,
//! system calls, allocations. They are compared with a table that is committed.
//!
//! Client and server of a row are two processes of `ringway-cost` with one core each, and all bytes
//! between them go through a relay, which delivers only to a process that sleeps. So what one
//! turn of a core finds is the same in every run. Valgrind runs one thread at a time and lets none run
//! while one sleeps in io_uring, so it counts instructions over epoll; a second run, without it and over
//! io_uring, counts system calls and allocations.

mod asleep;
mod relay;
mod side;
mod table;

use crate::needs::VALGRIND;
use relay::Relay;
use side::{Counts, Mode, Side};
use std::path::Path;
use std::process::{Command, Stdio};
use table::{Cost, Table};

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CostSettings {
    /// Whether the table is renewed.
    pub(crate) writes: bool,
    /// The rows; all if empty.
    pub(crate) only: Vec<String>,
}

const TABLE: &str = "cost/table.txt";

/// Where profiles and data are put.
const FOLDER: &str = "target/cost/counts";

/// Measures the rows and compares them with the table. Returns whether none has grown.
///
/// # Errors
/// Valgrind is missing, the program does not build, or a row does not run.
pub(crate) fn run(root: &Path, settings: &CostSettings) -> Result<bool, String> {
    if !VALGRIND.is_there() {
        return Err(VALGRIND.otherwise.to_owned());
    }
    build(root)?;
    let program = root.join("target/cost/ringway-cost");
    let folder = root.join(FOLDER);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let rows = rows(&program, &settings.only)?;
    let path = root.join(TABLE);
    let old = match std::fs::read_to_string(&path) {
        Ok(text) => Table::parse(&text).map_err(|error| format!("{TABLE}: {error}"))?,
        Err(_) if settings.writes => Table::default(),
        Err(error) => return Err(format!("{TABLE}: {error}")),
    };
    let environment = environment()?;
    let is_same = old.environment == environment;
    if settings.writes && !settings.only.is_empty() && !is_same {
        return Err(format!("the table is of {}, so all rows have to be renewed", old.environment));
    }
    let mut grown = 0;
    let mut shrunk = 0;
    let mut new = Table { environment, costs: Vec::new() };
    println!("{}", table::HEAD_OF_COMPARISON);
    for row in &rows {
        for cost in measure(&program, &folder, row)? {
            let comparison = old.compare(&cost);
            print!("{}", comparison.text);
            grown += usize::from(comparison.is_grown);
            shrunk += usize::from(comparison.is_shrunk);
            new.costs.push(cost);
        }
    }
    if settings.writes {
        let table = if settings.only.is_empty() { new } else { old.with(new) };
        std::fs::write(&path, table.to_string()).map_err(|error| format!("{TABLE}: {error}"))?;
        println!("\n{TABLE} is written");
        return Ok(true);
    }
    println!("{}", verdict(grown, shrunk, &old.environment, &new.environment));
    Ok(grown == 0 || !is_same)
}

fn verdict(grown: usize, shrunk: usize, old: &str, new: &str) -> String {
    let again = "cargo xtask cost --write";
    let mut text = format!("\n{grown} grown, {shrunk} shrunk by more than 2 %");
    if old != new {
        text += &format!("; that is no failure, since the table is of other programs\n- {old}\n");
        text += &format!("+ {new}");
    } else if grown > 0 {
        text += &format!("\nIf that has its reason, renew the table in the same commit: {again}");
    } else if shrunk > 0 {
        text += &format!("\nKeep what was won: {again}");
    }
    text
}

fn build(root: &Path) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Not what the gate sets for tests, nor what others have set: the counts depend on it.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_TARGET_DIR"] {
        cargo.env_remove(name);
    }
    cargo.args(["build", "--locked", "--quiet", "--profile", "cost", "-p", "ringway-cost"]);
    let status = cargo.current_dir(root).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`ringway-cost` does not build: {status}")),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// What the counts depend on beside the source.
fn environment() -> Result<String, String> {
    let first_line = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok::<_, String>(text.lines().next().unwrap_or_default().to_owned())
    };
    let compiler = first_line("rustc", "--version")?;
    let compiler = compiler.split(" (").next().unwrap_or_default();
    let library = first_line("getconf", "GNU_LIBC_VERSION").unwrap_or_default();
    let valgrind = first_line("valgrind", "--version")?;
    // Functions that copy and compare are chosen by it.
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let avx2 = if flags.contains(" avx2 ") { "avx2" } else { "no avx2" };
    Ok(format!("{compiler}, {library}, {valgrind}, {avx2}"))
}

/// A row as the program lists it.
struct Row {
    name: String,
    warm: u32,
    counted: u32,
    has_server: bool,
}

fn rows(program: &Path, only: &[String]) -> Result<Vec<Row>, String> {
    let output = Command::new(program).arg("rows").output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let (warm, counted) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Row { name, warm, counted, has_server: words.next()? == "both" })
    };
    let rows = text.lines().map(parse).collect::<Option<Vec<Row>>>();
    let mut rows = rows.ok_or("`ringway-cost rows` says what is not understood")?;
    if let Some(unknown) = only.iter().find(|name| !rows.iter().any(|row| row.name == **name)) {
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        return Err(format!("no row `{unknown}`; there are: {}", names.join(", ")));
    }
    rows.retain(|row| only.is_empty() || only.contains(&row.name));
    Ok(rows)
}

fn measure(program: &Path, folder: &Path, row: &Row) -> Result<Vec<Cost>, String> {
    let of_row = |error| format!("row {}: {error}", row.name);
    let instructions = count(program, folder, row, Mode::Callgrind).map_err(of_row)?;
    let others = count(program, folder, row, Mode::Plain).map_err(of_row)?;
    let sides = [("client", 0), ("server", 1)];
    let sides = sides.into_iter().filter(|(_, at)| *at == 0 || row.has_server);
    let an_operation = |count: u64| count as f64 / f64::from(row.counted);
    let cost = |(side, at): (&'static str, usize)| Cost {
        row: row.name.clone(),
        side: side.to_owned(),
        counts: [
            an_operation(instructions[at].instructions),
            an_operation(others[at].syscalls),
            an_operation(others[at].allocations),
            an_operation(others[at].bytes),
        ],
    };
    Ok(sides.map(cost).collect())
}

/// Runs both sides of a row and returns what its counted operations took, client first.
fn count(program: &Path, folder: &Path, row: &Row, mode: Mode) -> Result<[Counts; 2], String> {
    let data = folder.join("data");
    _ = std::fs::remove_dir_all(&data); // most rows leave none
    let data = data.display().to_string();
    let mut server = Side::start(program, folder, mode, &["server", &row.name, &data])?;
    let address = server.answer()?;
    let mut relay = Relay::to(address.trim_start_matches("tcp://"))?;
    let mut client = Side::start(program, folder, mode, &["client", &row.name, &relay.address()])?;
    let mut marks = Vec::new();
    for operations in [row.warm, 0, row.counted] {
        client.tell(&format!("run {operations}"))?;
        relay.carry(&client, &server)?;
        marks.push([client.mark()?, server.mark()?]);
    }
    client.end()?;
    server.end()?;
    // What the command itself takes, without an operation, is subtracted.
    let taken = |at: usize| {
        let counts: Vec<Counts> =
            marks.iter().map(|mark| mark[at].read()).collect::<Result<_, _>>()?;
        Ok::<_, String>(counts[2].since(&counts[1], &counts[0]))
    };
    Ok([taken(0)?, taken(1)?])
}
