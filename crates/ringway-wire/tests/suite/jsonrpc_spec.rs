//! The examples of the specification (section 7) and the edges of its rules, byte by byte.
//!
//! The specification writes its texts with blanks between tokens; ours have none, so they are compared with
//! them taken out.

use ringway_wire::jsonrpc::{
    ErrorNumber, Fault, Id, Params, Replies, Request, decode_requests, put_error, put_refusal,
    put_result,
};
use serde_json::{Value, json};

/// The most messages of a batch in these tests.
const BATCH_MAX: usize = 8;

/// The answer, if any, of a server with the methods of the specification.
fn answer(text: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    match decode_requests(text, BATCH_MAX) {
        Err(refusal) => put_refusal(&refusal, &mut out),
        Ok(requests) => {
            let mut replies = Replies::new(requests.is_batch());
            for request in requests {
                match request {
                    Ok(Request { id: None, .. }) => {}
                    Ok(request) => {
                        replies.begin(&mut out);
                        run(&request, &mut out);
                    }
                    Err(refusal) => {
                        replies.begin(&mut out);
                        put_refusal(&refusal, &mut out);
                    }
                }
            }
            if !replies.end(&mut out) {
                return None;
            }
        }
    }
    Some(String::from_utf8(out).expect("text"))
}

fn run(request: &Request<'_>, out: &mut Vec<u8>) {
    let id = request.id.expect("no notification");
    if request.method == "echo" {
        return put_result(request.params.json().unwrap_or("null"), id, out);
    }
    let params = request.params.json().map_or(Value::Null, |json| {
        serde_json::from_str(json).expect("what was checked can be decoded")
    });
    let number = |at: usize, name: &str| match request.params {
        Params::Named(_) => params[name].as_i64(),
        _ => params[at].as_i64(),
    };
    match &*request.method {
        "subtract" => match (number(0, "minuend"), number(1, "subtrahend")) {
            (Some(a), Some(b)) => put_result(&(a - b).to_string(), id, out),
            _ => put_error(ErrorNumber::INVALID_PARAMS, "Invalid params", None, id, out),
        },
        "sum" => {
            let sum: i64 = params.as_array().into_iter().flatten().filter_map(Value::as_i64).sum();
            put_result(&sum.to_string(), id, out);
        }
        "get_data" => put_result(r#"["hello",5]"#, id, out),
        "nothing" => put_result("null", id, out),
        _ => {
            let code = ErrorNumber::METHOD_NOT_FOUND;
            put_error(code, code.text(), None, id, out);
        }
    }
}

/// A text of the specification without its blanks.
fn compact(text: &str) -> String {
    let mut in_string = false;
    let is_kept = |c: &char| {
        in_string ^= *c == '"';
        in_string || !c.is_ascii_whitespace()
    };
    text.chars().filter(is_kept).collect()
}

#[track_caller]
fn check(sent: &str, expected: &str) {
    let expected = (!expected.is_empty()).then(|| compact(expected));
    assert_eq!(answer(sent.as_bytes()), expected, "{sent}");
}

#[test]
fn calls_with_positional_and_named_parameters() {
    check(
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
        r#"{"jsonrpc": "2.0", "result": 19, "id": 1}"#,
    );
    check(
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}"#,
        r#"{"jsonrpc": "2.0", "result": -19, "id": 2}"#,
    );
    check(
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
        r#"{"jsonrpc": "2.0", "result": 19, "id": 3}"#,
    );
    check(
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}"#,
        r#"{"jsonrpc": "2.0", "result": 19, "id": 4}"#,
    );
}

#[test]
fn notifications_and_unknown_methods() {
    check(r#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#, "");
    check(r#"{"jsonrpc": "2.0", "method": "foobar"}"#, "");
    check(
        r#"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#,
        r#"{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}"#,
    );
}

const PARSE_ERROR: &str =
    r#"{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}"#;
const INVALID: &str =
    r#"{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}"#;

#[test]
fn invalid_texts_and_batches() {
    check(r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#, PARSE_ERROR);
    check(r#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#, INVALID);
    check(
        r#"[
  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
  {"jsonrpc": "2.0", "method"
]"#,
        PARSE_ERROR,
    );
    check("[]", INVALID);
    check("[1]", &format!("[{INVALID}]"));
    check("[1,2,3]", &format!("[{INVALID},{INVALID},{INVALID}]"));
}

#[test]
fn batches() {
    check(
        r#"[
            {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
            {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
            {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
            {"foo": "boo"},
            {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
            {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
        ]"#,
        r#"[
            {"jsonrpc": "2.0", "result": 7, "id": "1"},
            {"jsonrpc": "2.0", "result": 19, "id": "2"},
            {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
            {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"},
            {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}
        ]"#,
    );
    check(
        r#"[
            {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
            {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
        ]"#,
        "",
    );
}

#[test]
fn ids_come_back_as_they_were_written() {
    for id in [
        "0",
        "-1",
        "1.50",
        "1e400",
        "-0.0",
        "123456789012345678901234567890",
        "\"\"",
        "\"a\\u0062\\n\"",
        "\"é\"",
        "null",
    ] {
        check(
            &format!(r#"{{"jsonrpc":"2.0","method":"nothing","id" : {id} }}"#),
            &format!(r#"{{"jsonrpc":"2.0","result":null,"id":{id}}}"#),
        );
    }
    let twice = r#"{"jsonrpc":"2.0","method":"nothing","id":1}"#;
    let reply = r#"{"jsonrpc":"2.0","result":null,"id":1}"#;
    check(&format!("[{twice},{twice}]"), &format!("[{reply},{reply}]"));
}

/// The fault of the only message in `text`, and the id that it is answered with.
fn fault(text: &str) -> (Fault, &str) {
    let refusal = match decode_requests(text.as_bytes(), BATCH_MAX) {
        Err(refusal) => refusal,
        Ok(mut requests) => match requests.next() {
            Some(Err(refusal)) => refusal,
            other => panic!("{text}: {other:?}"),
        },
    };
    (refusal.fault, refusal.id.as_str())
}

#[test]
fn what_others_write_without_need_is_taken() {
    for text in [
        r#"{"jsonrpc":"2.0","method":"a","params":null,"id":7}"#,
        "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":7}",
    ] {
        let mut requests = decode_requests(text.as_bytes(), 1).expect("JSON");
        let request = requests.next().expect("one").expect("a request");
        assert_eq!((&*request.method, request.params), ("a", Params::Absent));
    }
    let batch = "\u{feff}[{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":7}]";
    assert!(decode_requests(batch.as_bytes(), 1).expect("JSON").is_batch());
}

#[test]
fn what_is_no_request_is_refused_with_its_id_where_that_can_be_read() {
    for (text, expected, id) in [
        (r#"{}"#, Fault::Version, "null"),
        (r#"{"method":"a","id":7}"#, Fault::Version, "7"),
        (r#"{"jsonrpc":"1.0","method":"a","id":"x"}"#, Fault::Version, "\"x\""),
        (r#"{"jsonrpc":2.0,"method":"a","id":7}"#, Fault::Version, "7"),
        (r#"{"jsonrpc":"2.0 ","method":"a","id":7}"#, Fault::Version, "7"),
        (r#"{"jsonrpc":"2.0","id":7}"#, Fault::Method, "7"),
        (r#"{"jsonrpc":"2.0","method":null,"id":7}"#, Fault::Method, "7"),
        (r#"{"jsonrpc":"2.0","result":1,"id":7}"#, Fault::Method, "7"),
        (r#"{"jsonrpc":"2.0","method":"a","id":true}"#, Fault::Id, "null"),
        (r#"{"jsonrpc":"2.0","method":"a","id":[1]}"#, Fault::Id, "null"),
        (r#"{"jsonrpc":"2.0","method":"a","id":{}}"#, Fault::Id, "null"),
        (r#"{"jsonrpc":"2.0","method":"a","id":1,"id":false}"#, Fault::Id, "null"),
        (r#"{"jsonrpc":"2.0","method":"a","params":"b","id":7}"#, Fault::Params, "7"),
        (r#"{"jsonrpc":"2.0","method":"a","params":1}"#, Fault::Params, "null"),
        (r#"{"jsonrpc":"2.0","method":"a","ringway":1,"id":7}"#, Fault::Context, "7"),
        (
            r#"{"jsonrpc":"2.0","method":"a","ringway":{"timeout_ms":-1},"id":7}"#,
            Fault::Context,
            "7",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"a","ringway":{"traceparent":1},"id":7}"#,
            Fault::Context,
            "7",
        ),
        ("1", Fault::NotAnObject, "null"),
        ("\"a\"", Fault::NotAnObject, "null"),
        (" null ", Fault::NotAnObject, "null"),
        ("[[]]", Fault::NotAnObject, "null"),
        ("[ ]", Fault::EmptyBatch, "null"),
        ("", Fault::NotJson, "null"),
        ("  ", Fault::NotJson, "null"),
        ("{} x", Fault::NotJson, "null"),
        ("[] x", Fault::NotJson, "null"),
        ("[1] x", Fault::NotJson, "null"),
        ("[1,]", Fault::NotJson, "null"),
        ("[,1]", Fault::NotJson, "null"),
        ("[1", Fault::NotJson, "null"),
        (r#"{"jsonrpc":"2.0","method":"a\ud800","id":7}"#, Fault::HalfPair, "7"),
        (
            r#"{"\\\udc00":"\ud83d\ude00\ud800\n","jsonrpc":"2.0","method":"a","id":"x"}"#,
            Fault::HalfPair,
            "\"x\"",
        ),
        ("\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"\\ud800\",\"id\":7}", Fault::HalfPair, "7"),
        (r#"{"jsonrpc":"2.0","method":"a","id":"\ud800"}"#, Fault::NotJson, "null"),
        (r#"{"jsonrpc":"2.0","method":"\ud800","id":7"#, Fault::NotJson, "null"),
        (r#"{"jsonrpc":"2.0","method":"\ud800","id":[7]}"#, Fault::NotJson, "null"),
        (r#"[{"jsonrpc":"2.0","method":"\ud800","id":7}]"#, Fault::NotJson, "null"),
        ("\u{feff}\u{feff}{}", Fault::NotJson, "null"),
        (r#"{"jsonrpc":"2.0","method":"a","params":[01],"id":7}"#, Fault::NotJson, "null"),
        (r#"{"jsonrpc":"2.0","method":"a","other":[}],"id":7}"#, Fault::NotJson, "null"),
    ] {
        assert_eq!(fault(text), (expected, id), "{text}");
        let text = answer(text.as_bytes()).expect("each is answered, whether it has an id or not");
        let reply: Value = serde_json::from_str(&text).expect("JSON");
        let reply = reply.get(0).unwrap_or(&reply);
        assert_eq!(reply["error"]["code"], expected.code().0);
        assert_eq!(reply["id"].to_string(), id);
    }
    assert_eq!(
        fault_of_bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\",\"id\":1}"),
        Fault::NotJson
    );
    assert_eq!(fault_of_bytes(b"\xef\xbb{}"), Fault::NotJson);
}

fn fault_of_bytes(text: &[u8]) -> Fault {
    decode_requests(text, BATCH_MAX).expect_err("no JSON").fault
}

#[test]
fn members_count_once_and_by_their_text() {
    let request = |text: &'static str| {
        let mut requests = decode_requests(text.as_bytes(), 1).expect("JSON");
        requests.next().expect("one").expect("a request")
    };
    let last = request(
        r#"{"id":1,"method":"a","params":[1],"jsonrpc":"1.0","jsonrpc":"2.0","id":2,"method":"b","params":{}}"#,
    );
    let expected = (Id::parse("2"), Params::Named("{}"));
    assert_eq!((&*last.method, last.id, last.params), ("b", expected.0, expected.1));
    let escaped = request(
        r#"{"\u006asonrpc":"\u0032.0","m\u0065thod":"\ud83d\ude00\/","p\u0061rams" : [ 1 ] ,"i\u0064":"\n"}"#,
    );
    assert_eq!((&*escaped.method, escaped.params), ("😀/", Params::Positional("[ 1 ]")));
    assert_eq!(escaped.id.map(Id::as_str), Some("\"\\n\""));
    let strange =
        request(r#"{"jsonrpc":"2.0","method":"","METHOD":1,"methods":2,"result":3,"x":{"id":4}}"#);
    assert_eq!((&*strange.method, strange.params, strange.id), ("", Params::Absent, None));
}

#[test]
fn numbers_reach_the_handler_unharmed_and_the_reply_stays_one_line() {
    check(
        r#"{"jsonrpc":"2.0","method":"echo","params":[1e400,0.1000,123456789012345678901234567890],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":[1e400,0.1000,123456789012345678901234567890],"id":1}"#,
    );
    let lines = "{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":\n[1,\r\n2\n],\"id\":1}";
    let reply = answer(lines.as_bytes()).expect("a reply");
    assert_eq!(reply, "{\"jsonrpc\":\"2.0\",\"result\":[1,\r 2 ],\"id\":1}");
}

#[test]
fn batches_and_nesting_are_bounded() {
    let batch = |len: usize| format!("[{}]", vec!["1"; len].join(","));
    let replies = answer(batch(BATCH_MAX).as_bytes()).expect("replies");
    assert_eq!(serde_json::from_str::<Vec<Value>>(&replies).expect("JSON").len(), BATCH_MAX);
    check(&batch(BATCH_MAX + 1), INVALID);
    assert_eq!(fault(&batch(BATCH_MAX + 1)).0, Fault::BatchTooLong);

    let none = decode_requests(b"[1,2]", 0).expect_err("one at most");
    assert_eq!(none.fault, Fault::BatchTooLong);

    let nested = |depth: usize| {
        let params = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"jsonrpc":"2.0","method":"nothing","params":{params},"id":7}}"#)
    };
    check(&nested(100), r#"{"jsonrpc":"2.0","result":null,"id":7}"#);
    for depth in [101, 102, 500_000] {
        assert_eq!(fault(&nested(depth)), (Fault::TooDeep, "7"));
        // The other messages of a batch are not affected.
        let reply =
            answer(format!("[{},{}]", nested(depth), nested(100)).as_bytes()).expect("replies");
        let ids: Vec<Value> = serde_json::from_str(&reply).expect("JSON");
        assert_eq!(ids[0]["error"]["code"], json!(-32600));
        assert_eq!((&ids[0]["id"], &ids[1]["result"]), (&json!(7), &Value::Null));
        assert_eq!(ids.len(), 2);
    }
    let deep = "[".repeat(200);
    assert_eq!(fault(&format!("[{deep}]")).0, Fault::NotJson);
    assert_eq!(fault(&format!("[{deep}{}]", "]".repeat(200))), (Fault::NotAnObject, "null"));
    assert_eq!(fault(&"[{\"a\":".repeat(100_000)).0, Fault::NotJson);
}

#[test]
fn every_beginning_of_a_text_is_a_parse_error() {
    let text = concat!(
        r#" [{"jsonrpc":"2.0","method":"a\u00e9\ud83d\ude00","params":[1.5e-3,-0,true,null,false],"id":"é"}"#,
        r#",{"jsonrpc":"2.0","method":"b","params":{"a":{"b":[[],{}]}}}] "#
    );
    let requests = decode_requests(text.as_bytes(), BATCH_MAX).expect("JSON");
    assert_eq!((requests.len(), requests.filter(Result::is_ok).count()), (2, 2));
    for end in 0..text.trim_end().len() {
        assert_eq!(fault_of_bytes(&text.as_bytes()[..end]), Fault::NotJson, "{end}");
    }
}
