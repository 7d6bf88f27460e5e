//! Snapshots of an invented report in its three forms.

use serde_json::json;

use super::*;
use crate::args::Format;
use crate::args::{SendMode, Transport};
use crate::histogram::Percentiles;
use crate::repeats::Spread;

pub(super) fn row(suite: &'static str, parameters: serde_json::Value, rates: &[f64]) -> Row {
    let serde_json::Value::Object(parameters) = parameters else { panic!("an object") };
    let size = parameters["size"].as_u64().expect("a size") as f64;
    let rate = Spread::of(rates).expect("at least one run");
    Row {
        suite,
        parameters,
        rate,
        repeat: rates.len() as u32,
        detail: Detail { rates: rates.to_vec(), ..Detail::default() },
        unit: if suite == "receive" { "packets/s" } else { "messages/s" },
        open_loop: None,
        goodput_mib_s: Some(rate.median * size / f64::from(1 << 20)),
        latency: Percentiles::default(),
        errors: Errors::default(),
        verified: 1_234_567,
        server: Cost::default(),
        client: Cost::default(),
        versus_epoll: Versus::default(),
        warnings: Vec::new(),
        clock: None,
    }
}

fn ping_pong(server: &str, connections: u32, size: u32, rates: &[f64]) -> Row {
    let parameters =
        json!({"server": server, "transport": "tcp", "connections": connections, "size": size});
    Row {
        latency: Percentiles {
            mean_us: Some(11.02),
            p50_us: Some(10.123),
            p90_us: Some(12.5),
            p95_us: Some(13.5),
            p99_us: Some(44.04),
            p999_us: None,
            max_us: Some(20_512.0),
        },
        server: Cost {
            cpu_us_per_op: Some(4.417),
            syscalls_per_op: Some(0.1044),
            allocations_per_op: Some(0.0),
        },
        client: Cost { cpu_us_per_op: Some(5.02), ..Cost::default() },
        ..row("pingpong", parameters, rates)
    }
}

fn report() -> Report {
    let receive = |mode: SendMode, rates: &[f64]| {
        let parameters = json!({"server": "ringway", "transport": Transport::Tcp.as_str(),
                                "mode": mode.to_string(), "connections": 100, "size": 32});
        row("receive", parameters, rates)
    };
    Report {
        environment: Environment::example(),
        rows: vec![
            ping_pong("ringway", 1, 16384, &[92_000.0, 93_000.0, 91_500.0, 93_400.0, 92_700.0]),
            ping_pong("epoll", 1, 16384, &[18_000.0, 17_500.0]),
            ping_pong("ringway", 100, 64, &[219_000.0]),
            receive(SendMode::Batch(2048), &[125e6, 131e6]),
            receive(SendMode::PerPacket, &[22.9e6]),
        ],
        left_out: Vec::new(),
        failure: None,
    }
}

#[test]
fn table() {
    insta::assert_snapshot!(report().render(Format::Table, Screen::PLAIN));
}

#[test]
fn a_wide_table_has_all_columns_side_by_side() {
    insta::assert_snapshot!(report().render(Format::Table, Screen::WIDE));
}

/// A table with bars and colours. The runs of one row differ too much.
#[test]
fn a_terminal_shows_more() {
    let mut report = report();
    report.rows[1].rate = Spread::of(&[10_000.0, 17_500.0]).expect("two runs");
    let text = report.render(Format::Table, Screen::TERMINAL);
    insta::assert_snapshot!(text.replace('\x1b', "^"));
}

#[test]
fn rows_whose_runs_differ_are_marked() {
    let mut report = report();
    for (rates, is_marked) in [([100.0, 115.0], false), ([100.0, 116.0], true)] {
        report.rows[0].rate = Spread::of(&rates).expect("two runs");
        let text = report.render(Format::Table, Screen::PLAIN);
        assert_eq!(text.contains(" % !  "), is_marked, "{text}");
        assert_eq!(text.contains("warning: !: "), is_marked, "{text}");
    }
}

#[test]
fn markdown() {
    insta::assert_snapshot!(report().render(Format::Markdown, Screen::PLAIN));
}

#[test]
fn json() {
    let mut report = report();
    report.rows.truncate(2);
    insta::assert_snapshot!(report.render(Format::Json, Screen::PLAIN));
}

#[test]
fn errors_and_warnings_stand_below_the_table() {
    let mut report = report();
    report.rows.truncate(1);
    report.rows[0].errors = Errors { refused: 2, mismatched: 1, ..Errors::default() };
    report.rows[0].warnings.push("server and client shared a core".to_owned());
    insta::assert_snapshot!(report.render(Format::Table, Screen::PLAIN));
}

/// Connections that were not made have no status of a call.
#[test]
fn statuses_of_calls_hide_no_other_error() {
    let by_status = [("NOT_FOUND", 2)].into();
    let errors = Errors { timed_out: 1, other: 2, mismatched: 4, by_status, ..Errors::default() };
    let kinds: Vec<(&str, u64)> = errors.kinds().collect();
    assert_eq!(kinds, [("mismatched", 4), ("other", 1), ("NOT_FOUND", 2)]);
    assert_eq!(kinds.iter().map(|(_, count)| count).sum::<u64>(), errors.total());
}

#[test]
fn rows_that_count_differently_have_tables_of_their_own() {
    let calls = |mode: &str, unit: &'static str, rate: f64, due: Option<f64>| {
        let parameters = json!({"server": "ringway", "mode": mode, "connections": 8, "size": 47});
        let open_loop = due.map(|due| OpenLoop { due, begun: rate + 400.0, achieved: rate / due });
        Row { unit, open_loop, ..row("rpc", parameters, &[rate]) }
    };
    let mut report = report();
    report.rows = vec![
        calls("unary", "calls/s", 2e6, None),
        calls("unary", "calls/s", 498_000.0, Some(500_000.0)),
        calls("bidi", "streams/s", 3e5, None),
        calls("client_stream", "streams/s", 4e5, None),
    ];
    insta::assert_snapshot!(report.render(Format::Table, Screen::PLAIN));
}

/// A row with every figure that a server can have.
#[test]
fn tables_fit_100_columns() {
    let mut report = report();
    report.rows[0].latency.p999_us = Some(20_512.0);
    report.rows[0].errors.reset = 12;
    report.rows[1].parameters.insert("transport".into(), "unix".into());
    let text = report.render(Format::Table, Screen::PLAIN);
    let (tables, _notes) = text.split_once("error:").expect("notes stand below");
    let widest = tables.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns:\n{tables}");
}

#[test]
fn a_table_is_printed_as_soon_as_it_is_whole() {
    let report = report();
    let printed = |count: usize| {
        let mut out = Vec::new();
        let mut printer = Printer::new(Format::Table, Screen::PLAIN, &mut out);
        printer.add(&report.rows[..count]).expect("a vector has room");
        String::from_utf8(out).expect("UTF-8")
    };
    assert_eq!(printed(3), "", "another row of the same table may follow");
    assert!(printed(4).starts_with("pingpong"), "{}", printed(4));
    assert!(!printed(5).contains("receive"));
}

#[test]
fn a_bench_that_ended_early_is_no_success_and_says_so() {
    let mut report = report();
    report.failure = Some("the server has ended".to_owned());
    assert!(!report.is_clean());
    let text = report.render(Format::Table, Screen::PLAIN);
    assert!(text.contains("error: the bench ended early: the server has ended"), "{text}");
    assert!(!text.contains("all right"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&report.render(Format::Json, Screen::PLAIN)).expect("JSON");
    assert_eq!(json["failure"], "the server has ended");
}

#[test]
fn rows_that_are_left_out_are_told_in_every_form() {
    let mut report = report();
    report.left_out = vec!["Go's net/rpc: Go is not installed".to_owned()];
    assert!(report.is_clean(), "what is not installed is no error");
    for format in [Format::Table, Format::Markdown] {
        let text = report.render(format, Screen::PLAIN);
        assert!(text.contains("left out: Go's net/rpc: Go is not installed"), "{text}");
    }
    let document = document(&report);
    assert_eq!(document.left_out, report.left_out);
    assert!(page::render(&document).contains("Left out: Go&#39;s net/rpc: Go is not installed"));
}

#[test]
fn only_a_report_with_rows_and_without_errors_is_clean() {
    let mut report = report();
    assert!(report.is_clean());
    report.rows[3].errors.unanswered = 1;
    assert!(!report.is_clean());
    report.rows.clear();
    assert!(!report.is_clean());
}

#[test]
fn costs_are_per_operation() {
    let cpu = std::time::Duration::from_millis(5);
    let cost = Cost::per_operation(1000, Some(cpu), Some(250), None);
    let expected =
        Cost { cpu_us_per_op: Some(5.0), syscalls_per_op: Some(0.25), allocations_per_op: None };
    assert_eq!(cost, expected);
    assert_eq!(Cost::per_operation(0, Some(cpu), Some(1), Some(1)), Cost::default());
}

#[test]
fn figures_stand_only_beside_the_workload_they_belong_to() {
    let found = |row: &Row| reference::find(row).map(|(figure, source)| (figure, source.name));
    let tcp = ping_pong("ringway", 10, 16384, &[1.0]);
    assert_eq!(found(&tcp), Some(("427 MiB/s", "muduo")));
    let mut unix = tcp.clone();
    unix.parameters.insert("transport".into(), "unix".into());
    assert_eq!(found(&unix), None);
    assert_eq!(found(&ping_pong("ringway", 10, 64, &[1.0])), None);
    assert_eq!(found(&report().rows[3]), None, "batches are not the report's workload");
    assert_eq!(found(&report().rows[4]), Some(("1.87 M/s", "NewLife")));
}

fn document(report: &Report) -> read::ReadReport {
    read::ReadReport::parse(&report.render(Format::Json, Screen::PLAIN)).expect("a report")
}

/// A row of an open loop in which this share was answered in time.
fn rung(due: f64, achieved: f64, p99_us: f64) -> Row {
    let parameters = json!({"server": "ringway", "client": "ringway", "protocol": "native",
                            "connections": 10, "due": due, "size": 256});
    Row {
        unit: "calls/s",
        open_loop: Some(OpenLoop { due, begun: due, achieved }),
        latency: Percentiles {
            p50_us: Some(p99_us / 3.0),
            p99_us: Some(p99_us),
            ..Percentiles::default()
        },
        ..row("rpc", parameters, &[due * achieved])
    }
}

#[test]
fn a_page_has_charts_and_the_report_inside_it() {
    let mut report = report();
    report.rows[0].detail.curve = vec![(0.5, 10.0), (0.9, 12.0), (0.99, 44.0)];
    report.rows[0].detail.timeline = vec![1e5, 1.1e5, 1.2e5];
    report.rows.extend([rung(1e4, 1.0, 100.0), rung(2e4, 0.995, 300.0), rung(4e4, 0.995, 9e4)]);
    report.environment.command = "ringway </script><script>alert(1)</script>".to_owned();
    let document = document(&report);
    let page = page::render(&document);
    for part in
        ["Latency by percentile", "Rate over time", "knee of ringway, native: 20.0k", "<polyline"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script>"), "text from outside stays text");
    let read = read::ReadReport::parse(&page).expect("the report is inside");
    assert_eq!(read.rows.len(), report.rows.len());
    assert_eq!(read::plain(&read.environment["command"]), report.environment.command);
}

/// At low rates there are too few samples for a 99th percentile.
#[test]
fn a_rate_without_a_percentile_bends_no_ladder() {
    let mut report = report();
    let few = Row { latency: Percentiles::default(), ..rung(1e3, 1.0, 0.0) };
    report.rows = vec![few, rung(1e4, 1.0, 100.0), rung(2e4, 0.995, 300.0), rung(4e4, 0.8, 9e4)];
    let page = page::render(&document(&report));
    assert!(page.contains("sustained up to 20.0k a second"), "{page}");
}

#[test]
fn a_debug_build_is_not_compared_in_silence() {
    let mut debug = report();
    debug.environment.optimised = false;
    let (before, after) = (document(&report()), document(&debug));
    let (screen, mut out) = (Screen::PLAIN, Vec::new());
    compare::print(&before, &after, Format::Table, &screen, &mut out).expect("rows in common");
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.contains("optimised differs"), "{text}");
}

#[test]
fn differences_within_the_noise_are_called_so() {
    let with_rates = |rates: [&[f64]; 4]| {
        let mut report = report();
        report.rows.truncate(1);
        report.rows = [10, 20, 30, 40]
            .iter()
            .zip(rates)
            .map(|(&connections, rates)| ping_pong("ringway", connections, 64, rates))
            .collect();
        document(&report)
    };
    let (low, high) = ([1e5, 1.1e5, 1.2e5, 1.15e5, 1.05e5], [1.3e5, 1.4e5, 1.35e5, 1.5e5, 1.32e5]);
    let before = with_rates([&low, &high, &low, &low[..3]]);
    let after = with_rates([&high, &low, &low, &high[..3]]);
    let mut out = Vec::new();
    let screen = Screen::PLAIN;
    compare::print(&before, &after, Format::Table, &screen, &mut out).expect("rows in common");
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    insta::assert_snapshot!("comparison", text);
    let mut other = with_rates([&low, &low, &low, &low]);
    other.rows.iter_mut().for_each(|row| row.suite = "rpc".to_owned());
    compare::print(&before, &other, Format::Table, &screen, &mut Vec::new())
        .expect_err("no row in common");
}
