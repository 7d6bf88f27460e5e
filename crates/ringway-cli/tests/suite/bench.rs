//! `ringway bench` as a user meets it: short runs, and what they report.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Server, Sink, Status, Streaming};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::support::{Ended, Ringway, run, run_alone};

/// Runs a bench that is to succeed and returns its rows, their common fields checked.
///
/// A loaded machine may finish too few operations in a short time, so it is given more then.
fn rows(words: &str) -> Vec<Value> {
    for seconds in ["0.1", "0.4", "1.5"] {
        let ended =
            run(&format!("bench {words} -d {seconds} --warmup 0.02 --repeat 2 --format json"));
        assert_eq!(ended.status.code(), Some(0), "{words}: {}{}", ended.out, ended.err);
        let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
        assert!(report["environment"]["kernel"].is_string());
        assert!(ended.err.contains("done in"), "progress goes to standard error: {}", ended.err);
        let rows = report["rows"].as_array().expect("an array").clone();
        if rows.iter().all(has_enough) {
            rows.iter().for_each(|row| check(words, row));
            return rows;
        }
    }
    panic!("{words}: a row of a handful of operations in 1.5 s");
}

/// Whether operations ended, and enough of them for a median where they are timed.
fn has_enough(row: &Value) -> bool {
    row["rate"].as_f64().is_some_and(|rate| rate > 0.0)
        && (row["p50_us"].is_f64() || row["max_us"].is_null())
}

/// The first row of one short run that exits with `code`.
fn single_row(words: &str, code: i32) -> Value {
    row_of(words, "0.1", code)
}

/// The same for a run of `seconds`: enough for some calls on a loaded machine.
fn row_of(words: &str, seconds: &str, code: i32) -> Value {
    let ended = run(&format!("bench {words} -d {seconds} --repeat 1 --format json"));
    assert_eq!(ended.status.code(), Some(code), "{words}: {}{}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    report["rows"][0].clone()
}

fn check(words: &str, row: &Value) {
    let number =
        |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{words}: {name}: {row}"));
    assert!(number("rate") > 0.0 && number("goodput_mib_s") > 0.0, "{words}: {row}");
    assert!(number("verified") > 0.0 && number("errors") == 0.0, "{words}: {row}");
    assert!(row["suite"].is_string() && row["unit"].is_string() && row["parameters"].is_object());
    for name in ["mean_us", "p50_us", "p90_us", "p95_us", "p99_us", "p999_us", "max_us"] {
        let value = row.get(name).unwrap_or_else(|| panic!("{words}: no {name}"));
        assert!(value.is_null() || value.is_f64(), "{words}: {name}: {value}");
    }
    for side in ["server", "client"] {
        for cost in ["cpu_us_per_op", "syscalls_per_op", "allocations_per_op"] {
            let value = &row[side][cost];
            assert!(
                value.as_f64().is_some_and(|cost| cost >= 0.0),
                "{words}: {side} {cost}: {row}"
            );
        }
    }
}

#[test]
fn ping_pong_over_every_driver_and_transport() {
    for flags in ["--backend auto", "--backend epoll", "--unix", "--spin 0", "--client-spin 0"] {
        let rows = rows(&format!("pingpong -c 1,7 -s 5,64,40000 {flags}"));
        assert_eq!(rows.len(), 6, "{flags}");
        for row in &rows {
            assert_eq!((&row["suite"], &row["unit"]), (&"pingpong".into(), &"messages/s".into()));
            assert!(row["p50_us"].is_f64() && row["max_us"].is_f64(), "{row}");
        }
    }
}

#[test]
fn idle_connections_cost_memory() {
    for flags in ["--backend auto", "--backend epoll", "--unix"] {
        let words =
            format!("bench idle -c 1,300 {flags} -d 0.05 --warmup 0 --repeat 2 --format json");
        let ended = run(&words);
        assert_eq!(ended.status.code(), Some(0), "{words}: {}{}", ended.out, ended.err);
        let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
        let rows = report["rows"].as_array().expect("an array");
        assert_eq!(rows.len(), 2, "{report}");
        for row in rows {
            assert_eq!((&row["suite"], &row["unit"]), (&"idle".into(), &"connections/s".into()));
            assert!(row["rate"].as_f64() > Some(0.0) && row["goodput_mib_s"].is_null(), "{row}");
            assert_eq!(row["verified"].as_u64().map(|count| count > 0), Some(true), "{row}");
            assert!(row["server_bytes_per_connection"].is_f64(), "{row}");
        }
        // A megabyte is more than any bound of a connection; what one costs is for a quiet machine.
        let bytes = rows[1]["server_bytes_per_connection"].as_f64().expect("a number");
        assert!(bytes < f64::from(1 << 20), "{report}");
    }
}

#[test]
fn receive_in_every_mode() {
    for flags in ["--backend auto", "--backend epoll", "--unix"] {
        let rows = rows(&format!("receive -c 1,9 -s 32,50 --batch 64 --per-packet {flags}"));
        assert_eq!(rows.len(), 8, "{flags}");
        for row in &rows {
            assert_eq!((&row["suite"], &row["unit"]), (&"receive".into(), &"packets/s".into()));
            assert!(row["p50_us"].is_null(), "{row}");
        }
    }
}

#[test]
fn bulk_transfer_with_acknowledgements() {
    for flags in ["--backend auto", "--backend epoll", "--unix"] {
        let rows = rows(&format!("ttcp -c 1,5 -s 16,65536,300001 {flags}"));
        assert_eq!(rows.len(), 6, "{flags}");
        for row in &rows {
            assert_eq!((&row["suite"], &row["unit"]), (&"ttcp".into(), &"messages/s".into()));
            assert!(row["p50_us"].is_f64() && row["max_us"].is_f64(), "{row}");
        }
    }
}

/// Acknowledges two messages, and repeats itself for the third, as for one that is wrong.
#[test]
fn a_message_that_arrived_wrong_fails_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client connects");
        for told in [1_u32, 2, 2] {
            stream.read_exact(&mut [0; 64]).expect("a message");
            stream.write_all(&told.to_le_bytes()).expect("the client reads");
        }
        stream.read(&mut [0]).expect("the client closes")
    });
    let row = row_of(&format!("ttcp --addr tcp://{address} -s 64 --warmup 0"), "1", 1);
    assert_eq!(server.join().expect("the server does not panic"), 0, "no message follows");
    assert_eq!((&row["errors"], &row["errors_by_kind"]["mismatched"]), (&1.into(), &1.into()));
    assert_eq!(row["verified"], 3, "{row}");
    let warning = row["warnings"][0].as_str().expect("what was wrong");
    assert!(warning.contains("message 2 of connection 0 was acknowledged with [2,"), "{warning}");
}

/// Both sides have one clock, so the true offset is none.
#[test]
fn round_trips_tell_the_clocks_offset() {
    for flags in ["--backend auto", "--backend epoll", "--pause 1ms -c 3"] {
        let words = format!("roundtrip --transport tcp,udp,unix {flags}");
        let ended = run(&format!("bench {words} -d 0.3 --warmup 0.02 --repeat 2 --format json"));
        assert_eq!(ended.status.code(), Some(0), "{words}: {}{}", ended.out, ended.err);
        let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
        let rows = report["rows"].as_array().expect("an array");
        assert_eq!(rows.len(), 3, "{words}");
        for row in rows {
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{row}"));
            assert_eq!((&row["unit"], &row["errors"]), (&"exchanges/s".into(), &0.into()), "{row}");
            assert!(number(&row["verified"]) > 0.0 && number(&row["max_us"]) > 0.0, "{row}");
            let (offset, error) = (&row["clock"]["offset_us"], &row["clock"]["error_us"]);
            assert!(number(offset).abs() <= number(error), "{row}");
        }
    }
}

#[test]
fn what_is_no_clock_is_named_as_such() {
    let server = Ringway::start(
        "serve echo --listen tcp://127.0.0.1:0 --listen udp://127.0.0.1:0 --cores 0",
    );
    for _transport in ["tcp", "udp"] {
        let uri = server.line().replace("listening on ", "");
        let row = single_row(&format!("roundtrip --addr {uri} -c 2"), 1);
        assert_eq!(row["errors_by_kind"]["mismatched"], 2, "{row}");
        assert!(row["warnings"].to_string().contains("ringway serve clock"), "{row}");
    }
    // The number of this port belongs to a socket of TCP that does not listen.
    let silent = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let free: SocketAddr = "127.77.0.3:0".parse().expect("an address");
    silent.bind(&free.into()).expect("a free port");
    let address = silent.local_addr().ok().and_then(|it| it.as_socket()).expect("bound");
    for scheme in ["tcp", "udp"] {
        let row = single_row(&format!("roundtrip --addr {scheme}://{address} -c 2"), 1);
        assert_eq!((&row["errors"], &row["errors_by_kind"]["refused"]), (&2.into(), &2.into()));
    }
}

#[test]
fn calls_of_every_kind_and_pace() {
    for flags in ["--backend auto", "--backend epoll", "--unix"] {
        let kinds = "-m unary,client_stream,server_stream,bidi";
        let closed = rows(&format!("rpc -c 2 -l 1,3 -s 47,100000 {kinds} {flags}"));
        assert_eq!(closed.len(), 16, "{flags}");
        for row in &closed {
            assert_eq!(row["suite"], "rpc");
            assert!(row["p50_us"].is_f64() && row["max_us"].is_f64(), "{row}");
        }
        let open = rows(&format!("rpc --rate 500 --slow 10 -c 2 -s 47 {flags}"));
        let rate = open[0]["rate"].as_f64().expect("a number");
        // Stalls move calls between the runs and out of them; without a pace there are thousands.
        assert!((100.0..1000.0).contains(&rate), "as fast as was asked for: {rate}");
        assert_eq!(open[0]["open_loop"]["due"], 500.0);
        assert!(closed[0]["open_loop"].is_null());
        let busy = rows(&format!("rpc --rate 20000 -c 2 -s 47 {flags}"));
        let allocations = busy[0]["client"]["allocations_per_op"].as_f64().expect("a number");
        assert!(allocations < 0.5, "a call of the open loop allocates: {allocations}");
    }
}

#[test]
fn streams_with_windows_and_one_way() {
    for flags in ["--backend auto", "--backend epoll", "--unix"] {
        let echoed = rows(&format!("stream -c 3 -f 4 -w 1,4 -s 128,70000 {flags}"));
        assert_eq!(echoed.len(), 4, "{flags}");
        assert!(echoed.iter().all(|row| row["unit"] == "frames/s" && row["p50_us"].is_f64()));
        let one_way = rows(&format!("stream --one-way -s 128 {flags}"));
        assert_eq!((one_way.len(), &one_way[0]["unit"]), (1, &"messages/s".into()));
    }
}

#[test]
fn calls_and_streams_over_grpc() {
    let closed = rows("grpc -c 2 -l 1,3 -s 47,100000 -m unary,client_stream,server_stream,bidi");
    assert_eq!(closed.len(), 16);
    for row in &closed {
        assert_eq!((&row["suite"], spoken(row)), (&"rpc".into(), "grpc"));
        assert!(row["p50_us"].is_f64() && row["max_us"].is_f64(), "{row}");
    }
    let open = rows("grpc --rate 500 --slow 10 -c 2 -s 47 --backend epoll");
    assert_eq!(open[0]["open_loop"]["due"], 500.0);
    let echoed = rows("stream -c 3 -f 4 -w 1,4 -s 128,70000 --protocol native,grpc");
    let all: Vec<&str> = echoed.iter().map(spoken).collect();
    assert_eq!(all, ["native", "grpc"].repeat(4));
    let one_way = rows("stream --one-way -s 128 --protocol grpc");
    assert_eq!(spoken(&one_way[0]), "grpc");
}

#[test]
fn calls_over_json_rpc() {
    let closed = rows("jsonrpc -c 2 -l 1,3 -s 47,5000 -m unary,server_stream --transport tcp,unix");
    assert_eq!(closed.len(), 16);
    for row in &closed {
        assert_eq!((&row["suite"], spoken(row)), (&"rpc".into(), "jsonrpc"));
        assert!(row["p50_us"].is_f64() && row["verified"].as_u64() > Some(0), "{row}");
    }
    let through_http = rows("jsonrpc -c 2 -l 1,3 -s 47,10240 --transport http,ws");
    let transports = through_http.iter().map(|row| row["parameters"]["transport"].as_str());
    let of_each = |transport: &str| transports.clone().filter(|it| *it == Some(transport)).count();
    assert_eq!((of_each("http"), of_each("ws")), (4, 4));
    let three = rows("rpc --protocol native,grpc,jsonrpc -c 2 -s 47");
    let all: Vec<&str> = three.iter().map(spoken).collect();
    assert_eq!(all, ["native", "grpc", "jsonrpc"]);
}

fn spoken(row: &Value) -> &str {
    row["parameters"]["protocol"].as_str().expect("calls have a protocol")
}

/// Go's row stands beside ours where Go is installed, and the report says so where it is not.
#[test]
fn json_rpc_of_go_is_measured_or_said_to_be_missing() {
    // The packages that it needs take longer than a run may, and are built once.
    let mut go = Command::new("go");
    go.args(["build", "-o", "/dev/null", "."]).env("GOTOOLCHAIN", "local");
    let built = go.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/go")).status();
    let has_go = built.is_ok_and(|status| status.success());
    if !has_go {
        eprintln!("skipped: Go is not installed (https://go.dev/doc/install)");
    }
    let words = "bench jsonrpc -c 2 -l 3 -s 5,64 --transport tcp,unix --peers";
    let words = format!("{words} -d 0.3 --warmup 0.02 --repeat 1 --format json");
    let check = |ended: Ended, has_go: bool| {
        assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
        let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
        let rows = report["rows"].as_array().expect("an array");
        assert!(rows.iter().all(|row| row["verified"].as_f64() > Some(0.0)), "{rows:?}");
        let of_go = rows.iter().filter(|row| row["parameters"]["server"] == "go-rpc");
        assert_eq!((rows.len(), of_go.count()), if has_go { (8, 4) } else { (4, 0) }, "{rows:?}");
        report["left_out"].as_array().expect("an array").clone()
    };
    if has_go {
        assert!(check(run(&words), true).is_empty());
    }
    let left_out = check(run_alone(&words), false);
    assert_eq!(left_out, ["Go's net/rpc: Go is not installed (https://go.dev/doc/install)"]);
}

/// Whatever the rows say, it is by these bytes that a server knows what is spoken to it.
#[test]
fn clients_over_grpc_begin_as_http2_has_it() {
    const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (suite, is_http2) in [
        ("rpc", false),
        ("grpc", true),
        ("stream", false),
        ("stream --protocol grpc", true),
        ("stream --one-way --protocol grpc", true),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let bench = Ringway::start(&format!(
            "bench {suite} --addr tcp://{address} -c 1 -d 0.1 --warmup 0 --repeat 1"
        ));
        let mut first = [0; PREFACE.len()];
        let (mut client, _) = listener.accept().expect("the client connects");
        client.read_exact(&mut first).expect("the client speaks first");
        assert_eq!(first == *PREFACE, is_http2, "{suite}: {first:?}");
        drop((client, listener));
        assert_eq!(bench.wait().status.code(), Some(1), "{suite}: nobody has answered");
    }
}

#[test]
fn a_running_server_is_measured_over_grpc() {
    let server = Ringway::start("serve rpc --listen tcp://127.0.0.1:0 --cores 0");
    let uri = server.line().replace("listening on ", "");
    let grpc = uri.replace("tcp://", "grpc://");
    for (words, named) in [
        (format!("grpc --addr {grpc}"), &grpc),
        (format!("grpc --addr {uri}"), &uri),
        (format!("stream --protocol grpc --addr {grpc}"), &grpc),
    ] {
        let row = single_row(&format!("{words} -c 2 -s 64"), 0);
        assert_eq!((&row["parameters"]["server"], spoken(&row)), (&named.as_str().into(), "grpc"));
        assert!(row["verified"].as_u64().is_some_and(|count| count > 0), "{row}");
    }
}

/// Answers to the name of the tool's service, and not always rightly.
#[ringway_rpc::service(package = "ringway.bench", name = "Echo", crate = "::ringway_rpc")]
trait Liar {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status>;
}

struct Lying(AtomicU32);

impl Liar for Lying {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            1 => Ok(request.iter().rev().copied().collect()),
            2 => Err(Status::resource_exhausted("no more")),
            _ => Ok(request),
        }
    }
}

#[test]
fn a_wrong_or_failed_reply_fails_the_run() {
    for suite in ["rpc", "grpc"] {
        let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
        let server =
            server.service(LiarServer::new(Lying(AtomicU32::new(0)))).start().expect("starts");
        let address = &server.addresses()[0];
        let row = row_of(&format!("{suite} --addr {address} -c 1 -s 47 --warmup 0"), "1", 1);
        assert_eq!((&row["errors"], &row["errors_by_kind"]["mismatched"]), (&2.into(), &1.into()));
        let warning = row["warnings"][0].as_str().expect("what was wrong");
        assert!(warning.contains("is wrong from byte"), "{warning}");
    }
}

/// Answers each second frame with other bytes.
#[ringway_rpc::service(package = "ringway.bench", name = "Echo", crate = "::ringway_rpc")]
trait FrameLiar {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status>;
    async fn chat(&self, frames: Streaming<Bytes>, replies: Sink<Bytes>) -> Result<(), Status>;
}

struct EverySecond;

impl FrameLiar for EverySecond {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        Ok(request)
    }

    async fn chat(
        &self,
        mut frames: Streaming<Bytes>,
        mut replies: Sink<Bytes>,
    ) -> Result<(), Status> {
        for number in 0.. {
            let Some(frame) = frames.next().await? else { break };
            let wrong = || frame.iter().rev().copied().collect();
            replies.send(if number % 2 == 0 { frame.clone() } else { wrong() }).await?;
        }
        Ok(())
    }
}

#[test]
fn a_stream_with_a_wrong_frame_has_no_latency() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(FrameLiarServer::new(EverySecond)).start().expect("starts");
    let address = &server.addresses()[0];
    let row = row_of(&format!("stream --addr {address} -c 1 -f 2 -s 47 --warmup 0"), "1", 1);
    assert!(row["errors_by_kind"]["mismatched"].as_u64() > Some(0), "{row}");
    assert!(row["rate"].as_f64() > Some(0.0), "the other frames are right: {row}");
    assert!(row["max_us"].is_null(), "{row}");
}

/// Gives the reply of another request where it has one that fits.
struct Mixing {
    asked: Mutex<Vec<Bytes>>,
    /// The request whose bytes are the reply, given all that were asked before and the one to answer.
    choose: fn(&[Bytes], &Bytes) -> Option<Bytes>,
}

impl Liar for Mixing {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        if request.is_empty() {
            return Ok(request);
        }
        let mut asked = self.asked.lock().expect("nobody panics");
        let reply = (self.choose)(&asked, &request);
        asked.push(request.clone());
        Ok(reply.unwrap_or(request))
    }
}

/// How many replies of the last of `runs` benches are found wrong where `choose` mixes them up.
///
/// A loaded machine may finish too few calls in a short time, so it is given more then.
fn mixed_up(words: &str, runs: usize, choose: fn(&[Bytes], &Bytes) -> Option<Bytes>) -> (u64, u64) {
    for seconds in ["0.02", "0.2", "5"] {
        let (wrong, verified) = mixed(words, runs, seconds, choose);
        if wrong > 0 && verified > 1 {
            return (wrong, verified);
        }
    }
    panic!("{words}: not two calls in 5 s, or none of them was found wrong");
}

/// The same for runs of `seconds` on a new server.
fn mixed(
    words: &str,
    runs: usize,
    seconds: &str,
    choose: fn(&[Bytes], &Bytes) -> Option<Bytes>,
) -> (u64, u64) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let service = LiarServer::new(Mixing { asked: Mutex::default(), choose });
    let server = server.service(service).start().expect("starts");
    let address = &server.addresses()[0];
    let words = format!(
        "bench rpc --addr {address} {words} --warmup 0 -d {seconds} --repeat 1 --format json"
    );
    let ended = (0..runs).map(|_| run(&words)).reduce(|_, next| next).expect("at least one");
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report}"));
    let row = &report["rows"][0];
    (number(&row["errors_by_kind"]["mismatched"]), number(&row["verified"]))
}

#[test]
fn a_reply_to_another_request_of_the_same_connection_is_found() {
    for size in [1, 2, 8, 16, 47, 5000, 100_000] {
        let (mismatched, verified) =
            mixed_up(&format!("-c 1 -s {size}"), 1, |asked, _| asked.last().cloned());
        assert!(verified > 1, "{size} bytes");
        assert_eq!(mismatched, verified - 1, "{size} bytes: all but the first are wrong");
    }
}

#[test]
fn a_reply_to_the_same_request_of_another_connection_is_found() {
    for size in [16, 47, 5000] {
        // A name is the sequence in eight bytes, and then the lane in four.
        let (mismatched, verified) = mixed_up(&format!("-c 2 -s {size}"), 1, |asked, request| {
            let of_other = |one: &&Bytes| one[..8] == request[..8] && one[8..12] != request[8..12];
            asked.iter().find(of_other).cloned()
        });
        assert!(mismatched > 0 && verified > mismatched, "{size} bytes: {mismatched}, {verified}");
    }
}

#[test]
fn a_reply_to_the_same_request_of_another_run_is_found() {
    for size in [16, 47, 5000] {
        let (mismatched, verified) = mixed_up(&format!("-c 1 -s {size}"), 2, |asked, request| {
            let of_other =
                |one: &&Bytes| one[..12] == request[..12] && one[12..16] != request[12..16];
            asked.iter().find(of_other).cloned()
        });
        assert!(mismatched > 0 && verified >= mismatched, "{size} bytes: {mismatched}, {verified}");
    }
}

/// Takes its time, and so cannot keep up.
struct Slow;

impl Liar for Slow {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        if !request.is_empty() {
            ringway_runtime::sleep(Duration::from_millis(50)).await;
        }
        Ok(request)
    }
}

/// A connection has at most 1,024 calls under way, so at most 20,480 a second are answered. Half of 8,000
/// are due in the first 50 ms; when the 4,000th is answered, 200 ms have passed. Counted from its beginning it
/// would have taken 100 ms: 2,048 are begun at once.
#[test]
fn an_open_loop_counts_what_calls_have_waited_for_their_turn() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(LiarServer::new(Slow)).start().expect("starts");
    let address = &server.addresses()[0];
    let row = single_row(&format!("rpc --addr {address} --rate 80000 -c 1 -s 47 --warmup 0"), 0);
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{row}"));
    assert!(number(&row["verified"]) >= 8000.0, "each call that was due is made: {row}");
    assert!(number(&row["p50_us"]) > 130_000.0, "{row}");
    assert!(number(&row["open_loop"]["achieved"]) < 0.99, "{row}");
    let warning = row["warnings"][0].as_str().expect("that it was too much");
    assert!(warning.starts_with("1 of 1 runs did not achieve the 80000 a second"), "{warning}");
}

#[test]
fn a_running_server_is_measured_without_its_costs() {
    let server = Ringway::start("serve echo --listen tcp://127.0.0.1:0 --cores 0");
    let uri = server.line().replace("listening on ", "");
    let row = single_row(&format!("pingpong --addr {uri} -c 2 -s 64"), 0);
    assert_eq!(row["parameters"]["server"], uri.as_str());
    assert!(row["server"]["cpu_us_per_op"].is_null() && row["client"]["cpu_us_per_op"].is_f64());
    let ended = run(&format!("bench pingpong --addr {uri} -c 2 -s 64 -d 0.02 --repeat 1"));
    assert!(ended.out.contains("server: not started here"), "{}", ended.out);
}

#[test]
fn a_corrupted_reply_fails_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let server = thread::spawn(move || flip_a_byte_of_the_tenth_message(&listener));
    let row = row_of(&format!("pingpong --addr tcp://{address} -c 1 -s 64"), "1", 1);
    server.join().expect("the server does not panic");
    assert_eq!((&row["errors"], &row["errors_by_kind"]["mismatched"]), (&1.into(), &1.into()));
    let warning = row["warnings"][0].as_str().expect("what was wrong");
    assert!(warning.contains("payload 9 of connection 0 is wrong at byte 40"), "{warning}");
}

fn flip_a_byte_of_the_tenth_message(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().expect("the client connects");
    let mut message = [0; 64];
    for sequence in 0.. {
        if stream.read_exact(&mut message).is_err() {
            return;
        }
        message[40] ^= u8::from(sequence == 9);
        if stream.write_all(&message).is_err() {
            return;
        }
    }
}

#[test]
fn a_server_without_tallies_is_no_receiver() {
    let server = Ringway::start("serve echo --listen tcp://127.0.0.1:0 --cores 0");
    let uri = server.line().replace("listening on ", "");
    let ended = run(&format!("bench receive --addr {uri} -c 1 --per-packet -d 0.1 --repeat 1"));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.out);
    assert!(ended.out.contains("serve discard --frame"), "{}", ended.out);
}

/// Each of them listens, and is of another kind than the suite needs.
#[test]
fn a_server_of_another_kind_is_named_as_such() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1).start();
    let server = server.expect("starts without a service");
    let address = &server.addresses()[0];
    for (suite, part) in [
        ("pingpong", "ringway serve echo"),
        ("ttcp", "--acknowledge"),
        ("rpc", "ringway bench call"),
        ("grpc", "ringway bench call"),
    ] {
        let row = single_row(&format!("{suite} --addr {address} -c 1 -s 64"), 1);
        let warnings = row["warnings"].as_array().expect("an array");
        let is_hint = |warning: &Value| warning.as_str().is_some_and(|text| text.contains(part));
        assert!(warnings.iter().any(is_hint), "{suite}: {row}");
    }
}

#[test]
fn nobody_listening_is_an_error_that_is_counted() {
    // Bound, and never listening: even a copy of it in a process that begins takes no connection.
    let silent = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let free: SocketAddr = "127.77.0.2:0".parse().expect("an address");
    silent.bind(&free.into()).expect("a free port");
    let address = silent.local_addr().ok().and_then(|it| it.as_socket()).expect("bound");
    for suite in ["pingpong", "ttcp", "rpc", "grpc", "rpc --rate 100", "stream", "stream --one-way"]
    {
        let row = single_row(&format!("{suite} --addr tcp://{address} -c 2 -s 64"), 1);
        assert_eq!(row["errors_by_kind"]["refused"], 2, "{suite}: {row}");
        assert_eq!(row["errors"], 2, "{suite}: {row}");
    }
}

/// The server takes one connection for the first row and none for the second.
#[test]
fn a_row_without_connections_leaves_the_others_as_they_are() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(LiarServer::new(Leaving::default())).start().expect("starts");
    let address = &server.addresses()[0];
    let ended =
        run(&format!("bench rpc --addr {address} -c 1,2 -s 47 -d 0.1 --warmup 0 --repeat 1"));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
    let errors: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{}", ended.out);
    assert!(errors[0].ends_with(": 2 other"), "two connections were refused: {errors:?}");
    assert!(ended.out.contains("no more connections"), "{}", ended.out);
}

/// Answers the first connection, and then refuses every call.
#[derive(Default)]
struct Leaving(AtomicU32);

impl Liar for Leaving {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        if request.is_empty() && self.0.fetch_add(1, Ordering::Relaxed) > 0 {
            return Err(Status::permission_denied("no more connections"));
        }
        Ok(request)
    }
}

#[test]
fn a_server_with_a_name_instead_of_a_path_is_measured() {
    let name = format!("unix://@ringway-bench-{}", std::process::id());
    let server = Ringway::start(&format!("serve echo --listen {name} --cores 0"));
    assert!(server.line().starts_with("listening on "));
    let row = single_row(&format!("pingpong --addr {name} -c 2 -s 64"), 0);
    assert_eq!(row["parameters"]["transport"], "unix");
}

#[test]
fn the_table_is_for_people() {
    let ended = run("bench pingpong -c 1 -s 16384 -d 0.1 --warmup 0 --repeat 1");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    for part in ["muduo", "payloads compared, all right", "pinned to"] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
}

#[test]
fn codecs_are_measured_beside_each_other() {
    let ended = run("bench codec -d 0.001 --warmup 0 --repeat 2 --format json");
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    let rows = report["rows"].as_array().expect("an array");
    assert_eq!(rows.len(), 2 * (5 * 2 + 2));
    for row in rows {
        let (rate, time) = (row["rate"].as_f64(), row["ns_per_op"].as_f64());
        assert!(
            rate.zip(time).is_some_and(|(rate, time)| (rate * time - 1e9).abs() < 1.0),
            "{row}"
        );
        assert_eq!((&row["verified"], &row["errors"]), (&2.into(), &0.into()), "{row}");
        let ours = row["parameters"]["codec"] == "ringway";
        let allocations = row["client"]["allocations_per_op"].as_f64().expect("a number");
        match row["parameters"]["operation"] == "encode-new" {
            true => assert!(allocations > 0.99, "it has no buffer to use again: {row}"),
            false => assert!(!ours || allocations < 0.01, "{row}"),
        }
    }
    let shown = run("bench codec -d 0.001 --warmup 0 --repeat 1");
    assert!(
        shown.out.contains("ns/op") && shown.out.contains("thread: pinned to"),
        "{}",
        shown.out
    );
}

#[test]
fn events_of_one_core_are_measured_beside_a_plain_loop() {
    for flags in ["--backend auto", "--backend epoll"] {
        let words = format!("bench event -n 1,20 -a 1 -w 0,50 --peers {flags}");
        let ended = run(&format!("{words} -d 0.02 --warmup 0.01 --repeat 2 --format json"));
        assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
        let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
        let rows = report["rows"].as_array().expect("an array");
        assert_eq!(rows.len(), 8, "{report}");
        for row in rows {
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{row}"));
            let events = number(&row["parameters"]["writes"]) + 1.0;
            let iterations = number(&row["us_per_iteration"]) * number(&row["rate"]) / 1e6;
            assert!((iterations - events).abs() < 1e-6, "{row}");
            assert!((number(&row["ns_per_op"]) * number(&row["rate"]) - 1e9).abs() < 1.0, "{row}");
            assert!(number(&row["verified"]) > 0.0 && number(&row["max_us"]) > 0.0, "{row}");
            assert_eq!((&row["errors"], &row["unit"]), (&0.into(), &"events/s".into()));
            let ours = row["parameters"]["loop"] == "ringway";
            assert_eq!(row["versus_epoll"]["rate"].is_f64(), ours, "{row}");
            assert!(row["client"]["syscalls_per_op"].is_f64(), "{row}");
        }
    }
    let shown = run("bench event -d 0.02 --repeat 1").out;
    for part in ["event, events/s", "ns/op", "iteration", "thread: pinned to"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn latencies_are_written_for_plotters() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name));
    let total = |text: &str| -> u64 {
        let (_, rest) = text.split_once("Total count    = ").expect("a summary");
        rest.split(']').next().and_then(|count| count.trim().parse().ok()).expect("a number")
    };
    let hist = folder.path().join("all.hgrm").display().to_string();
    let row = row_of(&format!("rpc --rate 500 -c 2 -s 47 --warmup 0 --hist {hist}"), "0.5", 0);
    let text = file("all.hgrm").expect("one row has one file");
    assert!(
        text.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n\n"),
        "{text}"
    );
    assert!(text.contains("#[Row     = rpc ringway ringway tcp native unary"), "{text}");
    // What was due before the clock started is compared, and not timed.
    let verified = row["verified"].as_u64().expect("a number");
    assert!((1..=verified).contains(&total(&text)), "{row}: {text}");
    let ended = run(&format!("bench event -n 3,4 -d 0.02 --repeat 2 --hist {hist}"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    for name in ["all-pipes-3-writes-3.hgrm", "all-pipes-4-writes-4.hgrm"] {
        assert!(ended.err.contains(name), "{}", ended.err);
        assert!(total(&file(name).expect(name)) > 0, "{name}");
    }
}

/// What was measured is not lost with a file.
#[test]
fn a_file_that_cannot_be_written_fails_after_the_result() {
    for (suite, flag) in [
        ("pingpong -c 1 -s 64", "--report"),
        ("pingpong -c 1 -s 64", "--hist"),
        ("codec", "--report"),
    ] {
        let words = format!("bench {suite} {flag} /nowhere/x -d 0.05 --repeat 1 --format json");
        let ended = run(&words);
        assert_eq!(ended.status.code(), Some(1), "{words}: {}", ended.err);
        assert!(ended.err.contains("cannot write /nowhere/x"), "{words}: {}", ended.err);
        let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
        assert!(report["rows"][0]["rate"].as_f64() > Some(0.0), "{words}: {report}");
    }
}
