//! The examples of calls and streams each run as a process that serves, calls itself and ends.

use std::io::{Read, Write};

use crate::example::{Example, connect};

/// Lets an example come to its end; what it prints after its addresses.
fn finish(example: Example) -> Vec<String> {
    let mut lines = example.rest();
    example.wait();
    let announced = lines.iter().take_while(|line| line.starts_with("listening on ")).count();
    assert!(announced > 0, "{lines:?}");
    lines.drain(..announced);
    lines
}

#[test]
fn rpc_quickstart() {
    let lines = finish(Example::start("rpc_quickstart", &[]));
    assert_eq!(lines, ["Hello, world!", "refused: the name is empty"]);
}

#[test]
fn rpc_console() {
    let example = Example::start("rpc_console", &[]);
    let (_, address) = example.listening();
    let mut socket = connect(address);
    let line = example.line();
    let (_, token) = line.split_once("/#").expect("a link with its token");
    let head = "GET /console/data HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let request = format!("{head}authorization: Bearer {token}\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("\"name\":\"shop.v1.Shop/Buy\""), "{answer}");
    example.stop();
}

#[test]
fn rpc_streams() {
    let lines = finish(Example::start("rpc_streams", &[]));
    let watched = ["watch: Some(100)", "watch: Some(101)", "watch: Some(102)"];
    assert_eq!(lines[..2], ["price: 300", "dearest: 180"]);
    assert_eq!(lines[2..5], watched);
    assert_eq!(lines[5..], ["prices: A Some(100)", "prices: BB Some(200)"]);
}

#[test]
fn rpc_deadlines() {
    let lines = finish(Example::start("rpc_deadlines", &[]));
    // The handler's lines and the caller's come from two threads.
    let of = |start: &str| -> Vec<&str> {
        lines.iter().filter_map(|line| line.strip_prefix(start)).collect()
    };
    let pondered: Vec<u64> = of("pondering for ")
        .iter()
        .map(|text| text.strip_suffix(" ms at most").expect("a time").parse().expect("a number"))
        .collect();
    let [until_the_deadline, until_dropped] = pondered[..] else { panic!("{lines:?}") };
    assert!(until_the_deadline <= 200, "the caller's deadline was not passed on: {lines:?}");
    assert!(until_dropped > 200, "{lines:?}");

    let answers = of("answer: ");
    assert!(answers[0].starts_with("DEADLINE_EXCEEDED"), "{lines:?}");
    assert_eq!(answers[1..], ["not done within 50ms", "Some(\"hm\")"]);

    // Of the two who watch one deadline either may be the first to say so.
    let when = of("\"when?\" ended: ")[0];
    assert!(when.starts_with("DEADLINE_EXCEEDED") || when.starts_with("CANCELLED"), "{lines:?}");
    assert!(of("\"why?\" ended: ")[0].starts_with("CANCELLED"), "{lines:?}");
    assert_eq!(of("\"how?\" ended: "), ["CANCELLED: I know enough"]);
}

#[test]
fn rpc_auth() {
    let mut lines = finish(Example::start("rpc_auth", &[]));
    let by_handler = lines.iter().position(|line| line == "ann gives carl 250 cents");
    lines.remove(by_handler.unwrap_or_else(|| panic!("no money was moved: {lines:?}")));
    let [none, wrong, not_allowed, done] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(none, "UNAUTHENTICATED: the call has no `authorization: Bearer …`");
    assert_eq!(wrong, "UNAUTHENTICATED: the token is not valid");
    assert_eq!(not_allowed, "PERMISSION_DENIED: the money is not yours");
    assert_eq!(done, "done");
}

#[test]
fn rpc_mtls() {
    let lines = finish(Example::start("rpc_mtls", &[]));
    let [ann, thief, nobody, old, new] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(ann, "ann opens the gate");
    assert_eq!(thief, "PERMISSION_DENIED: [\"bob.street.example\"] live elsewhere");
    assert!(nobody.starts_with("UNAVAILABLE") && nobody.contains("client_cert_pem"), "{nobody}");
    assert_eq!((&**old, &**new), ("ann opens the old connection", "eve opens the new connection"));
}

#[test]
fn rpc_local() {
    let lines = finish(Example::start("rpc_local", &[]));
    let user = rustix::process::geteuid().as_raw();
    let restarted = format!("cron is restarted for user {user}, this process: true");
    let refused = "UNAUTHENTICATED: this is served over the Unix socket only";
    assert_eq!(lines, [&*restarted, refused]);
}

#[test]
fn rpc_sharded() {
    let lines = finish(Example::start("rpc_sharded", &[]));
    let rounds = ["round 1: the sums are 4950 together", "round 2: the sums are 9900 together"];
    assert_eq!(lines[..2], rounds);
    let sizes = lines[2].strip_prefix("keys of each core: ").expect("the sizes");
    let sizes =
        sizes.trim_matches(['[', ']']).split(", ").map(|size| size.parse().expect("a size"));
    let sizes: Vec<u64> = sizes.collect();
    assert!(sizes.len() == 2 && sizes.iter().sum::<u64>() == 100, "{sizes:?}");
    assert!(!sizes.contains(&0), "{sizes:?}");
}

#[test]
fn rpc_drain() {
    let example = Example::start("rpc_drain", &["tcp://127.0.0.1:0"]);
    let (_, address) = example.listening();
    let method = &CLOCK;
    let client = ringway::rpc::Client::connect(format!("tcp://{address}")).expect("an address");
    let watched = ringway::runtime::block_on(async move {
        let options = ringway::rpc::CallOptions::new().wait_for_ready(true);
        let (raw, numbers) = (ringway::rpc::codec_of!(u64), ringway::rpc::codec_of!(u64));
        let mut ticks = client.with(options).server_stream(method, raw, numbers, 5);
        let first = ticks.next().await?;
        example.terminate();
        while ticks.next().await?.is_some() {}
        Ok::<_, ringway::rpc::Status>((first, example.rest()))
    });
    let (first, rest) = watched.expect("a core").expect("the stream ends in order");
    assert_eq!(first, Some(1));
    assert_eq!(rest, ["1 calls, 0 cut off"]);
}

static CLOCK: ringway::rpc::Method =
    ringway::rpc::Method::new("Clock/Watch", ringway::rpc::Kind::ServerStream);

#[test]
fn rpc_from_tokio() {
    let lines = finish(Example::start("rpc_from_tokio", &[]));
    assert_eq!(lines[..2], ["sum of squares: 338350", "sum of numbers: 500500"]);
    assert_eq!(lines[2..], ["largest prime: Err(Elapsed(()))"]);
}

#[test]
fn rpc_blocking() {
    let lines = finish(Example::start("rpc_blocking", &[]));
    assert_eq!(lines[0], "total: 1000");
    assert!(lines[1].starts_with("more: DEADLINE_EXCEEDED"), "{lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn rpc_discovery() {
    let example = Example::start("rpc_discovery", &[]);
    let lines = example.rest();
    example.wait();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[..3].iter().all(|line| line.starts_with("replaced tcp://")), "{lines:?}");
    assert!(lines[3].ends_with("calls, none failed"), "{lines:?}");
}

#[test]
fn rpc_balanced() {
    let lines = finish(Example::start("rpc_balanced", &[]));
    assert_eq!(lines, ["3000 calls, none failed", "the fourth server was called"]);
}
