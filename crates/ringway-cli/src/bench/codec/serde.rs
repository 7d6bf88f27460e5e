//! JSON-RPC with `serde_json`, as most Rust servers do it: structs that borrow, and raw values for the parts that
//! the application decodes. It does less than ours, because nothing more is asked of it: it does not bound nesting,
//! and its error for a malformed message has no id.

use std::borrow::Cow;
use std::hint::black_box;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::messages::{
    BATCH, CODE, EVENT, EVENT_PARAMS, ID, METHOD, Operation, PARAMS, REASON, RESULT,
};

const NAME: &str = "serde_json";

#[derive(Deserialize, Serialize)]
struct RawCall<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
}

#[derive(Deserialize, Serialize)]
struct RawAnswer<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    error: Option<Failure<'a>>,
    #[serde(borrow)]
    id: &'a RawValue,
}

#[derive(Deserialize, Serialize)]
struct Failure<'a> {
    code: i64,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

/// An outgoing message of ours, with a number as its id.
#[derive(Serialize)]
struct NumberedCall<'a> {
    jsonrpc: &'a str,
    method: &'a str,
    params: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
}

#[derive(Serialize)]
struct NumberedAnswer<'a> {
    jsonrpc: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure<'a>>,
    id: u64,
}

pub(super) fn operations() -> Vec<Operation> {
    let calls = |message| {
        let again = |text: &[u8], out: &mut Vec<u8>| write(out, &parse::<RawCall<'_>>(text));
        Operation::decode(NAME, message, parse::<RawCall<'_>>, again)
    };
    let answers = |message| {
        let again = |text: &[u8], out: &mut Vec<u8>| write(out, &parse::<RawAnswer<'_>>(text));
        Operation::decode(NAME, message, parse::<RawAnswer<'_>>, again)
    };
    let again = |text: &[u8], out: &mut Vec<u8>| write(out, &parse::<Vec<RawCall<'_>>>(text));
    let (params, event_params, result) = (raw(PARAMS), raw(EVENT_PARAMS), raw(RESULT));
    let call = move || NumberedCall {
        jsonrpc: "2.0",
        method: black_box(METHOD),
        params: black_box(params),
        id: Some(black_box(ID)),
    };
    let answer =
        |result, error| NumberedAnswer { jsonrpc: "2.0", result, error, id: black_box(ID) };
    let respond = move |out: &mut Vec<u8>| write(out, &answer(Some(black_box(result)), None));
    vec![
        calls("request"),
        Operation::encode(NAME, "request", move |out| write(out, &call())),
        Operation::encode_new(NAME, "request", move |out| write(out, &call())),
        answers("response"),
        Operation::encode(NAME, "response", respond),
        Operation::encode_new(NAME, "response", respond),
        answers("error"),
        Operation::encode(NAME, "error", move |out| {
            let (code, message) = (black_box(CODE), Cow::Borrowed(black_box(REASON)));
            write(out, &answer(None, Some(Failure { code, message, data: None })));
        }),
        calls("notification"),
        Operation::encode(NAME, "notification", move |out| {
            let (method, params) = (black_box(EVENT), black_box(event_params));
            write(out, &NumberedCall { jsonrpc: "2.0", method, params, id: None });
        }),
        Operation::decode(NAME, "batch", parse::<Vec<RawCall<'_>>>, again),
        Operation::encode(NAME, "batch", move |out| {
            let calls: [NumberedCall<'_>; BATCH] = std::array::from_fn(|_| call());
            write(out, &calls);
        }),
    ]
}

/// JSON text that lives as long as the tool runs.
fn raw(json: &'static str) -> &'static RawValue {
    serde_json::from_str(json).expect("constants are JSON")
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    serde_json::from_slice(text).ok()
}

fn write(out: &mut Vec<u8>, message: &impl Serialize) {
    serde_json::to_writer(out, message).expect("a vector has room");
}
