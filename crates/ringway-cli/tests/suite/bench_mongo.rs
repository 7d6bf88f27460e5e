//! `ringway bench mongo` and `ringway serve mongo-responder` as a user meets them.

use std::process::Command;

use serde_json::Value;

use crate::support::run;

/// The rows of a short run that exits with `code`.
fn rows(words: &str, code: i32) -> Vec<Value> {
    let ended = run(&format!("bench mongo {words} --warmup 0.02 --repeat 1 --format json"));
    assert_eq!(ended.status.code(), Some(code), "{words}: {}{}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    report["rows"].as_array().expect("an array").clone()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"))
}

#[test]
fn every_operation_of_the_mongo_client() {
    let rows = rows("-d 0.3 -c 3", 0);
    let ops: Vec<&str> =
        rows.iter().map(|row| row["parameters"]["op"].as_str().expect("a text")).collect();
    let expected = [
        "ping",
        "find_one",
        "insert_one",
        "find_raw",
        "find_struct",
        "find_owned",
        "bulk",
        "mixed",
    ];
    assert_eq!(ops, expected);
    for row in &rows {
        assert!(number(row, "rate") > 0.0 && number(row, "errors") == 0.0, "{row}");
        assert!(number(row, "verified") > 0.0, "each answer is looked at: {row}");
        assert!(row["client"]["cpu_us_per_op"].is_f64() && row["server"]["cpu_us_per_op"].is_f64());
        assert_eq!(row["unit"], "operations/s");
        assert!(row["goodput_mib_s"].is_null(), "{row}");
    }
}

#[test]
fn threads_that_block_in_the_mongo_client() {
    let rows = rows("-d 0.3 -c 3 --sync --op ping,find_one,find_struct", 0);
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(row["parameters"]["mode"], "sync");
        assert!(number(row, "rate") > 0.0 && number(row, "errors") == 0.0, "{row}");
        assert!(number(row, "verified") > 0.0, "each answer is looked at: {row}");
        assert!(row["client"]["cpu_us_per_op"].is_f64(), "{row}");
    }
}

#[test]
fn pipelines_of_the_mongo_client() {
    let rows = rows("-d 0.3 -c 2 --mode pipeline --batch-size 8", 0);
    let ops: Vec<&Value> = rows.iter().map(|row| &row["parameters"]["op"]).collect();
    assert_eq!(ops, ["ping", "find_one"]);
    for row in &rows {
        assert_eq!(row["parameters"]["batch"], 8);
        assert!(number(row, "rate") > 0.0 && number(row, "errors") == 0.0, "{row}");
        assert!(number(row, "verified") > 0.0, "each answer is looked at: {row}");
    }
}

#[test]
fn fans_of_the_mongo_client() {
    let rows = rows("-d 0.3 -c 2 --fanout 4 --op ping,find_one,mixed --timeout-sec 5", 0);
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(row["parameters"]["fanout"], 4);
        assert!(number(row, "rate") > 0.0 && number(row, "errors") == 0.0, "{row}");
        assert!(number(row, "verified") > 0.0, "each answer is looked at: {row}");
        assert!(row["client"]["allocations_per_op"].is_f64(), "{row}");
    }
}

#[test]
fn a_run_ends_after_its_operations() {
    // In the time alone it would not end before the test does.
    let begun = std::time::Instant::now();
    let rows = rows("-d 600 -c 2 --total 500 --op ping", 0);
    assert!(begun.elapsed() < std::time::Duration::from_secs(500));
    assert!(number(&rows[0], "rate") > 0.0 && number(&rows[0], "verified") >= 500.0, "{rows:?}");
}

#[test]
fn a_late_responder_bounds_the_rate() {
    let rows = rows("-d 0.3 -c 4 --op ping --delay 20ms", 0);
    let [row] = &rows[..] else { panic!("one row: {rows:?}") };
    assert!(number(row, "p50_us") >= 20_000.0, "no answer comes before its time: {row}");
}

#[test]
fn a_server_that_is_gone_is_an_error_of_the_row() {
    let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100";
    let rows = rows(&format!("-d 0.1 -c 1 --op ping --uri {uri}"), 1);
    assert!(number(&rows[0], "errors") > 0.0, "{rows:?}");
}

#[test]
fn a_fan_without_a_socket_for_each_of_its_operations_is_not_measured() {
    let script = format!(
        "ulimit -n 300; exec {} bench mongo --op find_one -c 50 --fanout 16 -d 0.1 --repeat 1",
        env!("CARGO_BIN_EXE_ringway"),
    );
    let ended = Command::new("sh").args(["-c", &script]).output().expect("there is a shell");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("800 connections need 864 file descriptors"), "{said}");
}
