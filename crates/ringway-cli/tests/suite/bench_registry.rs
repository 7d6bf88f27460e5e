//! `ringway bench registry` as a user meets it.

use std::process::{Command, Stdio};

use ringway_discovery::etcd_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, Kv, KvServer,
    PutRequest, PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use ringway_rpc::{Server, Status};
use serde_json::Value;

use crate::support::run;

/// The rows of a short run that exits with `code`.
fn rows(words: &str, code: i32) -> Vec<Value> {
    let ended = run(&format!("bench registry {words} --warmup 0.02 --repeat 1 --format json"));
    assert_eq!(ended.status.code(), Some(code), "{words}: {}{}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    report["rows"].as_array().expect("an array").clone()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"))
}

fn has_etcd() -> bool {
    let mut command = Command::new("etcd");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn every_load_beside_etcd_and_the_disk() {
    let peers = if has_etcd() { "--peers" } else { "" };
    let rows = rows(&format!("-d 0.3 -c 3 -s 64 {peers}"), 0);
    let named: Vec<[&str; 3]> = rows
        .iter()
        .map(|row| {
            ["mode", "server", "client"]
                .map(|name| row["parameters"][name].as_str().expect("a text"))
        })
        .collect();
    let expected = [
        ["range", "ringway", "ringway"],
        ["range", "etcd", "ringway"],
        ["put", "ringway", "ringway"],
        ["put", "etcd", "ringway"],
        ["put", "disk", "fsync"],
        ["keep-alive", "ringway", "ringway"],
        ["keep-alive", "etcd", "ringway"],
        ["watch", "ringway", "ringway"],
        ["watch", "etcd", "ringway"],
    ];
    let is_there = |row: &[&str; 3]| row[1] != "etcd" || has_etcd();
    assert_eq!(named, expected.into_iter().filter(is_there).collect::<Vec<_>>());
    for row in &rows {
        let (mode, server) = (&row["parameters"]["mode"], &row["parameters"]["server"]);
        assert!(number(row, "rate") > 0.0 && number(row, "errors") == 0.0, "{row}");
        assert!(row["max_us"].is_f64(), "each request is timed: {row}");
        assert_eq!(
            number(row, "verified") > 0.0,
            server != "disk",
            "each answer is looked at: {row}"
        );
        assert_eq!(row["goodput_mib_s"].is_f64(), mode == "put", "only puts carry values: {row}");
        assert_eq!(row["server"]["cpu_us_per_op"].is_f64(), server != "disk", "{row}");
        assert_eq!(row["unit"], if mode == "watch" { "notices/s" } else { "requests/s" });
    }
}

#[test]
fn a_registry_inside_the_process() {
    let ended = run("bench registry -w 7 -d 1.1 --warmup 0 --repeat 1 --format json");
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("second 1: "), "each second is told: {}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    let [register, look_up] = &report["rows"].as_array().expect("an array")[..] else {
        panic!("two rows: {report}");
    };
    assert_eq!(register["parameters"]["workers"], 7);
    assert_eq!(look_up["parameters"]["cores"], 1);
    for row in [register, look_up] {
        assert!(number(row, "rate") > 0.0 && number(row, "errors") == 0.0, "{row}");
        assert!(number(row, "verified") > 0.0, "{row}");
    }
    assert_eq!(format!("{:.4}", number(&look_up["client"], "allocations_per_op")), "0.0000");
}

/// Answers everything, and nothing rightly.
struct Lying;

impl Kv for Lying {
    async fn range(&self, _: RangeRequest) -> Result<RangeResponse, Status> {
        Ok(RangeResponse::default())
    }

    async fn put(&self, _: PutRequest) -> Result<PutResponse, Status> {
        Ok(PutResponse::default())
    }

    async fn delete_range(&self, _: DeleteRangeRequest) -> Result<DeleteRangeResponse, Status> {
        Ok(DeleteRangeResponse::default())
    }

    async fn txn(&self, _: TxnRequest) -> Result<TxnResponse, Status> {
        Ok(TxnResponse::default())
    }

    async fn compact(&self, _: CompactionRequest) -> Result<CompactionResponse, Status> {
        Ok(CompactionResponse::default())
    }
}

#[test]
fn wrong_answers_and_missing_services_fail_the_run() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(KvServer::new(Lying)).start().expect("starts");
    let address = server.addresses()[0].to_string();
    let rows = rows(&format!("--addr {address} -c 1 -d 0.1"), 1);
    let kinds = ["mismatched", "mismatched", "other", "other"];
    for (row, kind) in rows.iter().zip(kinds) {
        assert!(number(&row["errors_by_kind"], kind) > 0.0, "{kind}: {row}");
        assert!(number(row, "rate") == 0.0 && row["max_us"].is_null(), "no success: {row}");
    }
    assert_eq!(rows.len(), kinds.len());
}
