//! `ringway report`, and the page of `ringway bench --report`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::run;

/// Measures a little, and leaves the results in `folder` as `name.json` and `name.html`.
fn measure(folder: &Path, name: &str) {
    let page = folder.join(format!("{name}.html"));
    let words = "bench rpc -c 2 -s 64 -d 0.05 --warmup 0.02 --repeat 4 --format json --report";
    let ended = run(&format!("{words} {}", page.display()));
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
    fs::write(folder.join(format!("{name}.json")), ended.out).expect("a folder of ours");
}

#[test]
fn results_are_drawn_and_compared() {
    let folder = tempdir().expect("a folder");
    measure(folder.path(), "a");
    measure(folder.path(), "b");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let page = fs::read_to_string(at("a.html")).expect("a page");
    assert!(page.contains("<polyline") && page.contains("Rate over time"), "{page}");
    assert!(!page.contains("src=") && !page.contains("href="), "nothing is loaded from elsewhere");

    let table = run(&format!("report {} {}", at("a.json"), at("b.html")));
    assert_eq!(table.status.code(), Some(0), "{}", table.err);
    assert!(table.out.lines().all(|line| line.chars().count() <= 100), "{}", table.out);
    let json = run(&format!("report {} {} --format json", at("a.json"), at("a.json")));
    let compared: Value = serde_json::from_str(&json.out).expect("one JSON object");
    assert_eq!(compared["rows"][0]["ratio"], 1.0);
    assert_eq!(compared["rows"][0]["verdict"], "within the noise");

    let drawn = run(&format!("report {} --html {}", at("a.json"), at("c.html")));
    assert_eq!(drawn.status.code(), Some(0), "{}", drawn.err);
    assert_eq!(fs::read_to_string(at("c.html")).expect("a page"), page, "the same page");

    let missing = run(&format!("report {} {}", at("a.json"), at("none.json")));
    assert_eq!(missing.status.code(), Some(1));
    assert!(missing.err.contains("none.json"), "{}", missing.err);
}

#[test]
fn a_ladder_ends_where_the_server_does_not_keep_up() {
    let words = "bench rpc -c 2 -s 64 -d 0.05 --warmup 0.02 --repeat 1 --format json";
    let ended = run(&format!("{words} --rate 1k,90M,95M"));
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    let due: Vec<_> = report["rows"].as_array().expect("an array").iter().collect();
    let due: Vec<_> = due.iter().map(|row| row["open_loop"]["due"].as_f64()).collect();
    // A machine that stands still for a moment keeps up with nothing.
    assert!([&[Some(1e3), Some(90e6)][..], &[Some(1e3)]].contains(&&due[..]), "{due:?}");
}
