//! `ringway call` as a user meets it.

mod common;

use common::{Ringway, run, run_with_input};

fn serve() -> (Ringway, String) {
    let server = Ringway::start("serve rpc --listen tcp://127.0.0.1:0 --cores 0");
    let address = server.line().replace("listening on ", "");
    (server, address)
}

#[test]
fn a_server_tells_what_it_offers() {
    let (_server, address) = serve();
    let ended = run(&format!("call {address} --list"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    for part in [
        "grpc.health.v1.Health\n",
        "ringway.bench.Echo\n",
        "  Say       bytes              -> bytes               idempotent\n",
        "  Chat      stream of bytes    -> stream of bytes\n",
        "  Greet     JSON               -> JSON                idempotent\n",
        "ringway.reflection.v1.Reflection\n",
    ] {
        assert!(ended.out.contains(part), "{part} is not in\n{}", ended.out);
    }
}

#[test]
fn each_kind_of_method_answers_in_lines() {
    let (_server, address) = serve();
    let answers = |words: &str, input: &str, expected: &str| {
        let ended = run_with_input(&format!("call {address} ringway.bench.Echo/{words}"), input);
        assert_eq!((ended.status.code(), &*ended.out), (Some(0), expected), "{}", ended.err);
    };
    answers("Say hello", "", "hello\n");
    answers("Say -", "from a pipe\n", "from a pipe\n");
    answers("Greet {\"name\":\"Ada\"}", "", "{\"text\":\"Hello, Ada!\"}\n");
    answers("Chat -", "1\n2\n3\n", "1\n2\n3\n");
    answers("Collect -", "first\nlast\n", "last\n");
    answers("Repeat once", "", "once\n");
}

#[test]
fn a_call_that_fails_says_why() {
    let (_server, address) = serve();
    let fails = |words: &str, part: &str| {
        let ended = run(&format!("call {words}"));
        assert_eq!((ended.status.code(), &*ended.out), (Some(1), ""), "{words}");
        assert!(ended.err.contains(part), "{words}: {}", ended.err);
    };
    fails(&format!("{address} ringway.bench.Echo/Greet {{\"name\":\"\"}}"), "INVALID_ARGUMENT");
    fails(&format!("{address} ringway.bench.Echo/Greet {{name}}"), "not JSON");
    fails(&format!("{address} ringway.bench.Echo/Whisper x"), "Say");
    fails(&format!("{address} no.Such/Thing x"), "no.Such");
    fails(&format!("{address} ringway.bench.Echo/SayLater x --timeout 1ms"), "DEADLINE_EXCEEDED");
    fails("unix:///tmp/ringway-nobody.sock --list", "UNAVAILABLE");
}
