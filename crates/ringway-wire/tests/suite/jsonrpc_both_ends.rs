//! Each end of JSON-RPC reads what the other writes; replies for a client; random texts.

use std::borrow::Cow;
use std::cell::Cell;
use std::time::Duration;

use bytes::BytesMut;
use ringway_wire::jsonrpc::{
    CallContext, ErrorNumber, ErrorObject, Fault, Id, Incoming, Lines, NumberedId, Params, Replies,
    Request, Response, Subscribed, close, close_notification, close_subscription, decode_requests,
    decode_responses, is_json, open_request, open_result, open_subscription, put_context,
    put_error, put_notification, put_request, put_result, put_subscription,
};
use serde_json::Value;

use crate::support::alone::alone;
use crate::support::{Random, allocations_of, for_seeds};

#[test]
fn responses_in_any_order_find_their_requests() {
    let text = r#"[
        {"jsonrpc":"2.0","result":null,"id":2},
        {"id":"a","error":{"data":{"x":1},"message":"a\tb","code":-32000},"jsonrpc":"2.0"},
        {"jsonrpc":"2.0","result":{"a":[1]},"id":1,"more":true},
        {"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}
    ]"#;
    let found: Vec<_> = decode_responses(text.as_bytes(), 4)
        .expect("JSON")
        .map(|it| match it {
            Ok(Incoming::Response(Response { id, outcome })) => (id.as_str(), outcome),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((found[0].0, found[0].1.as_ref()), ("2", Ok(&"null")));
    assert_eq!((found[2].0, found[2].1.as_ref()), ("1", Ok(&"{\"a\":[1]}")));
    let error = found[1].1.as_ref().expect_err("an error");
    assert_eq!(
        (error.code, &*error.message, error.data),
        (ErrorNumber(-32000), "a\tb", Some("{\"x\":1}"))
    );
    let error = found[3].1.as_ref().expect_err("an error");
    assert_eq!((found[3].0, error.code), ("null", ErrorNumber::PARSE_ERROR));
    assert_eq!((&error.message, error.data), (&Cow::Borrowed("Parse error"), None));
}

#[test]
fn responses_of_older_servers_are_read() {
    for (text, outcome) in [
        (r#"{"jsonrpc":"2.0","result":1,"error":null,"id":1}"#, Ok("1")),
        (r#"{"result":1,"error":null,"id":1}"#, Ok("1")),
        (r#"{"result":1,"id":1}"#, Ok("1")),
        (r#"{"result":null,"error":null,"id":1}"#, Ok("null")),
        (r#"{"result":null,"error":{"code":-5,"message":"no"},"id":1}"#, Err(-5)),
    ] {
        let incoming = decode_responses(text.as_bytes(), 1).expect("JSON").next().expect("one");
        let Ok(Incoming::Response(response)) = incoming else { panic!("{text}: {incoming:?}") };
        assert_eq!(response.outcome.map_err(|error| error.code.0), outcome, "{text}");
    }
}

#[test]
fn malformed_responses_are_told_with_their_ids() {
    for (text, fault, id) in [
        (r#"{"jsonrpc":"2.0","id":1}"#, Fault::Outcome, "1"),
        (
            r#"{"jsonrpc":"2.0","result":1,"error":{"code":1,"message":""},"id":1}"#,
            Fault::Outcome,
            "1",
        ),
        (r#"{"jsonrpc":"2.0","result":1}"#, Fault::Id, "null"),
        (r#"{"jsonrpc":"2.0","result":1,"id":{}}"#, Fault::Id, "null"),
        (r#"{"jsonrpc":"1.0","result":1,"id":1}"#, Fault::Version, "1"),
        (r#"{"jsonrpc":"2.0","error":null,"id":1}"#, Fault::Outcome, "1"),
        (r#"{"jsonrpc":"2.0","error":"bad","id":1}"#, Fault::ErrorObject, "1"),
        (r#"{"jsonrpc":"2.0","error":{"message":""},"id":1}"#, Fault::ErrorObject, "1"),
        (r#"{"jsonrpc":"2.0","error":{"code":1},"id":1}"#, Fault::ErrorObject, "1"),
        (r#"{"jsonrpc":"2.0","error":{"code":1.5,"message":""},"id":1}"#, Fault::ErrorObject, "1"),
        (r#"{"jsonrpc":"2.0","error":{"code":"1","message":""},"id":1}"#, Fault::ErrorObject, "1"),
        (
            r#"{"jsonrpc":"2.0","error":{"code":99999999999999999999,"message":""},"id":1}"#,
            Fault::ErrorObject,
            "1",
        ),
        (r#"{"jsonrpc":"2.0","error":{"code":1,"message":null},"id":1}"#, Fault::ErrorObject, "1"),
        (r#"{"jsonrpc":"2.0","method":1,"id":1}"#, Fault::Method, "1"),
        ("3", Fault::NotAnObject, "null"),
    ] {
        let refusal = decode_responses(text.as_bytes(), 1).expect("JSON").next().expect("one");
        let refusal = refusal.expect_err(text);
        assert_eq!((refusal.fault, refusal.id.as_str()), (fault, id), "{text}");
        assert!(!refusal.fault.to_string().is_empty());
    }
    for (text, fault) in
        [("[]", Fault::EmptyBatch), ("[1,2]", Fault::BatchTooLong), ("{", Fault::NotJson)]
    {
        assert_eq!(decode_responses(text.as_bytes(), 1).expect_err(text), fault);
    }
}

#[test]
fn subscriptions_reach_the_client() {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let text = Id::parse("\"a\\\"b\"").expect("an id");
    put_subscription("news", text, "{\"x\":\n1}", &mut first);
    open_subscription("news", NumberedId::new(7).id(), &mut second);
    second.extend_from_slice(b"null");
    close_subscription(&mut second);
    for (text, id, result) in [(&first, text.as_str(), "{\"x\": 1}"), (&second, "7", "null")] {
        let incoming = decode_responses(text, 1).expect("JSON").next();
        let Some(Ok(Incoming::Request(notification))) = incoming else { panic!("{incoming:?}") };
        assert_eq!(notification.method, "news");
        let subscribed = Subscribed::of(&notification).expect("of a subscription");
        assert_eq!((subscribed.id.as_str(), subscribed.result), (id, result));
    }
    for other in [
        r#"{"jsonrpc":"2.0","method":"a"}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":[1,2]}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":{"subscription":1}}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":{"result":1}}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":{"subscription":[],"result":1}}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":{"subscription":1,"result":1},"id":1}"#,
    ] {
        let incoming = decode_responses(other.as_bytes(), 1).expect("JSON").next();
        let Some(Ok(Incoming::Request(notification))) = incoming else { panic!("{incoming:?}") };
        assert_eq!(Subscribed::of(&notification), None, "{other}");
    }
}

/// Any JSON, with white space between its tokens.
fn any_json(random: &mut Random, depth: usize) -> String {
    let blank = ["", "", " ", "\n", "\r\n\t "][random.below(5)];
    let kind = random.below(if depth == 0 { 4 } else { 7 });
    let mut items = Vec::new();
    for _ in 0..random.below(4) * usize::from(kind > 3) {
        let value = any_json(random, depth - 1);
        let name = any_string(random);
        items.push(if kind > 5 { format!("{name}{blank}:{value}") } else { value });
    }
    let items = items.join(",");
    let value = match kind {
        0 => ["true", "false", "null"][random.below(3)].to_owned(),
        1 => any_number(random),
        2 | 3 => any_string(random),
        4 | 5 => format!("[{blank}{items}]"),
        _ => format!("{{{blank}{items}}}"),
    };
    format!("{blank}{value}{blank}")
}

fn any_number(random: &mut Random) -> String {
    let sign = ["", "-"][random.below(2)];
    let fraction = ["", ".0", ".250"][random.below(3)];
    let exponent = ["", "e3", "E-12", "e+0"][random.below(4)];
    let bits = random.below(40);
    format!("{sign}{}{fraction}{exponent}", random.below(1 << bits))
}

/// A JSON string with characters of all lengths and escapes of all kinds.
fn any_string(random: &mut Random) -> String {
    const PARTS: [&str; 12] = [
        "a",
        "zehn Zei",
        "é",
        "€",
        "😀",
        " ",
        "\\n",
        "\\\"",
        "\\\\",
        "\\u00e9",
        "\\ud83d\\ude00",
        "/",
    ];
    let parts: Vec<&str> = (0..random.below(8)).map(|_| PARTS[random.below(PARTS.len())]).collect();
    format!("\"{}\"", parts.concat())
}

/// Any text, with all that has to be escaped.
fn any_text(random: &mut Random) -> String {
    const CHARACTERS: [char; 10] = ['a', 'B', '.', '"', '\\', '\n', '\0', '\u{1f}', 'é', '😀'];
    (0..random.below(20)).map(|_| CHARACTERS[random.below(CHARACTERS.len())]).collect()
}

fn any_id(random: &mut Random) -> String {
    match random.below(4) {
        0 => "null".to_owned(),
        1 => any_number(random),
        2 => random.next().to_string(),
        _ => any_string(random),
    }
}

fn any_params(random: &mut Random) -> Option<String> {
    let params = any_json(random, 3).trim().to_owned();
    params.starts_with(['[', '{']).then_some(params)
}

#[test]
fn requests_come_back_as_they_were_sent() {
    for_seeds(2_000, |random| {
        let (method, params) = (any_text(random), any_params(random));
        let id = (random.below(3) > 0).then(|| any_id(random));
        let id = id.as_deref().map(|id| Id::parse(id).expect("an id"));
        let timeout = (random.below(2) == 0).then(|| Duration::from_millis(random.next()));
        let traceparent = (random.below(2) == 0).then(|| Cow::Owned(any_text(random)));
        let context = CallContext { timeout, traceparent };
        let context = (random.below(4) == 0 && params.is_some()).then_some(context);

        let mut out = b"before".to_vec();
        match (&context, id) {
            (Some(context), id) => {
                open_request(&method, &mut out);
                out.extend_from_slice(params.as_deref().expect("some").as_bytes());
                put_context(context, &mut out);
                match id {
                    Some(id) => close(id, &mut out),
                    None => close_notification(&mut out),
                }
                // A value that is written in place belongs to the caller, with its line feeds.
                out.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
            }
            (None, Some(id)) => put_request(&method, params.as_deref(), id, &mut out),
            (None, None) => put_notification(&method, params.as_deref(), &mut out),
        }
        let text = &out[6..];
        assert!(!text.contains(&b'\n'));
        let params = params.map(|params| params.replace('\n', " "));
        let expected = Request {
            method: Cow::Owned(method),
            params: match params.as_deref() {
                Some(json) if json.starts_with('[') => Params::Positional(json),
                Some(json) => Params::Named(json),
                None => Params::Absent,
            },
            id,
            context,
        };
        let mut requests = decode_requests(text, 1).expect("JSON");
        assert_eq!(requests.next(), Some(Ok(expected.clone())));
        let incoming = decode_responses(text, 1).expect("JSON").next();
        assert_eq!(incoming, Some(Ok(Incoming::Request(expected))));
        let read: Value = serde_json::from_slice(text).expect("others read it too");
        assert_eq!(read["jsonrpc"], "2.0");
    });
}

#[test]
fn batches_of_responses_come_back_from_lines_cut_anywhere() {
    for_seeds(500, |random| {
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        let is_batch = random.below(2) == 0;
        let mut batch = Replies::new(is_batch);
        for _ in 0..if is_batch { random.below(5) } else { 1 } {
            let (id, message) = (any_id(random), any_text(random));
            let json = any_json(random, 2).trim().to_owned();
            let data = (random.below(2) == 0).then_some(json.as_str());
            let code = ErrorNumber(random.next() as i64 - (1 << 46));
            let id_read = Id::parse(&id).expect("an id");
            batch.begin(&mut out);
            let is_result = random.below(2) == 0;
            match is_result {
                true => put_result(&json, id_read, &mut out),
                false => put_error(code, &message, data, id_read, &mut out),
            }
            let data = data.map(|data| data.replace('\n', " "));
            expected.push(match is_result {
                true => (id, Ok(json.replace('\n', " "))),
                false => (id, Err((code, message, data))),
            });
        }
        let has_any = batch.end(&mut out);
        assert_eq!((has_any, out.is_empty()), (!expected.is_empty(), expected.is_empty()));
        if !has_any {
            return;
        }
        out.extend_from_slice([&b"\n"[..], b"\r\n", b"\n\n"][random.below(3)]);
        let mut lines = Lines::new(out.len());
        let mut found = Vec::new();
        for mut piece in random.pieces(&out, 40) {
            while let Some(line) = lines.next(&mut piece).expect("short enough") {
                let responses = decode_responses(line, 8).expect("JSON");
                assert_eq!(responses.is_batch(), is_batch);
                found.extend(responses.map(|it| owned(it.expect("well-formed"))));
            }
        }
        assert_eq!(found, expected);
    });
}

type OwnedError = (ErrorNumber, String, Option<String>);

fn owned(incoming: Incoming<'_>) -> (String, Result<String, OwnedError>) {
    let Incoming::Response(Response { id, outcome }) = incoming else {
        panic!("a response: {incoming:?}");
    };
    let error =
        |it: ErrorObject<'_>| (it.code, it.message.into_owned(), it.data.map(str::to_owned));
    (id.to_string(), outcome.map(str::to_owned).map_err(error))
}

/// serde_json reads values here, because values read each string and bound the nesting.
#[test]
fn what_is_json_is_json_for_others_too() {
    const ALPHABET: &[u8] = b"{}[]\",:\\u0-.e1 tfn\n\x01\xc3\xa9\xff";
    let (good, bad) = (Cell::new(0), Cell::new(0));
    for_seeds(20_000, |random| {
        let mut text = any_json(random, 4).into_bytes();
        for _ in 0..random.below(3) {
            let at = random.below(text.len() + 1);
            let end = text.len().min(at + random.below(3));
            let byte = ALPHABET[random.below(ALPHABET.len())];
            text.splice(at..end, (0..random.below(3)).map(|_| byte));
        }
        let theirs = serde_json::from_slice::<Value>(&text);
        // It refuses numbers that fit no `f64`, which are JSON nevertheless.
        if theirs.as_ref().is_err_and(|error| error.to_string().contains("out of range")) {
            return;
        }
        let shown = String::from_utf8_lossy(&text);
        assert_eq!(is_json(&text), theirs.is_ok(), "{shown:?}: {theirs:?}");
        let seen = if theirs.is_ok() { &good } else { &bad };
        seen.set(seen.get() + 1);
    });
    let (good, bad) = (good.get(), bad.get());
    if std::env::var_os("RINGWAY_SEED").is_none() {
        assert!(good > 2_000 && bad > 2_000, "{good} good, {bad} bad");
    }
}

#[test]
fn messages_cost_no_allocation_where_there_is_room() {
    alone(|| {
        let mut out = Vec::with_capacity(256);
        let id = NumberedId::new(7);
        let count = allocations_of(|| {
            for _ in 0..100 {
                out.clear();
                put_request("Arith.Add", Some(r#"{"A":10,"B":20}"#), id.id(), &mut out);
                let request = decode_requests(&out, 1).expect("JSON").next().expect("one");
                assert_eq!(request.expect("a request").method, "Arith.Add");
                out.clear();
                put_result("[30]", id.id(), &mut out);
                assert_eq!(decode_responses(&out, 1).expect("JSON").flatten().count(), 1);
                out.clear();
                put_error(ErrorNumber::INTERNAL_ERROR, "a", Some("1"), id.id(), &mut out);
                assert_eq!(decode_responses(&out, 1).expect("JSON").flatten().count(), 1);
                out.clear();
                put_notification("a", None, &mut out);
                assert_eq!(decode_requests(&out, 1).expect("JSON").flatten().count(), 1);
            }
        });
        assert_eq!(count, 0);
        let text = "\"\n\u{1}".repeat(100);
        let (long, json) = (NumberedId::new(u64::MAX), format!("[{}]", "\n".repeat(500)));
        type Put<'a> = &'a dyn Fn(&mut Vec<u8>);
        let puts: [Put<'_>; 6] = [
            &|out| put_request(&text, Some(&json), long.id(), out),
            &|out| put_notification(&text, Some(&json), out),
            &|out| put_result(&json, long.id(), out),
            &|out| put_error(ErrorNumber(i64::MIN), &text, Some(&json), long.id(), out),
            &|out| put_subscription(&text, long.id(), &json, out),
            &|out| open_request(&text, out),
        ];
        for (i, put) in puts.iter().enumerate() {
            let mut targets = vec![Vec::new(); 10].into_iter();
            let count = allocations_of(|| {
                put(&mut targets.next().expect("one for each measurement"));
            });
            assert_eq!(count, 1, "{i}");
        }
    });
}

#[test]
fn both_kinds_of_buffers_take_messages() {
    let (mut vec, mut bytes) = (Vec::new(), BytesMut::new());
    put_request("a\"", Some("[1,\n2]"), NumberedId::new(10).id(), &mut vec);
    put_request("a\"", Some("[1,\n2]"), NumberedId::new(10).id(), &mut bytes);
    open_result(&mut vec);
    open_result(&mut bytes);
    assert_eq!(vec, bytes);
    assert!(
        vec.starts_with(br#"{"jsonrpc":"2.0","method":"a\"","params":[1, 2],"id":10}{"jsonrpc""#)
    );
}
