//! The table of docs/mongo.md for those who come from MongoDB's driver: each of its cells stands in a program that is
//! compiled.

/// Its left column as a program. Nobody runs it.
#[expect(dead_code, reason = "that it is compiled is all that is wanted")]
#[path = "official.rs"]
mod official;

const DOCUMENT: &str = include_str!("../../../docs/mongo.md");
const OFFICIAL: &str = include_str!("official.rs");

/// The section without its heading.
fn section() -> &'static str {
    let (_, rest) =
        DOCUMENT.split_once("## Coming from the official driver\n").expect("it is there");
    rest.split("\n## ").next().expect("its text")
}

/// The program of the section, which the documentation's tests compile.
fn ours() -> &'static str {
    let (_, program) = section().split_once("```rust,no_run\n").expect("a program");
    program.split("```").next().expect("its text")
}

/// How source is compared: where its lines end is no matter.
fn squeezed(source: &str) -> String {
    source.split_whitespace().collect()
}

/// The code in a cell.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_table_says_what_is_compiled() {
    let (official, ours) = (squeezed(OFFICIAL), squeezed(ours()));
    let rows = section().lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut count = 0;
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [to, left, right] = cells[..] else { panic!("three cells: {row}") };
        let (left, mut right) = (code(left), code(right));
        if right.is_empty() {
            right.clone_from(&left);
        }
        assert!(!right.is_empty(), "{to}");
        for (side, snippets, program) in [("left", left, &official), ("right", right, &ours)] {
            for snippet in snippets {
                assert!(program.contains(&squeezed(snippet)), "{to}, {side}: {snippet}");
            }
        }
        count += 1;
    }
    assert!(count >= 10, "{count} rows");
}
