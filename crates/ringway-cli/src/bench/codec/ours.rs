//! JSON-RPC with `ringway-wire`.

use std::hint::black_box;

use ringway_wire::jsonrpc::{
    ErrorNumber, Id, Incoming, NumberedId, Replies, Request, decode_requests, decode_responses,
    put_error, put_notification, put_request, put_result,
};

use super::messages::{
    BATCH, CODE, EVENT, EVENT_PARAMS, ID, METHOD, Operation, PARAMS, REASON, RESULT,
};

const NAME: &str = "ringway";

pub(super) fn operations() -> Vec<Operation> {
    let requests = |message| Operation::decode(NAME, message, decode_request, write_requests);
    let responses = |message| Operation::decode(NAME, message, decode_response, write_response);
    let encode_request = |out: &mut Vec<u8>| {
        let id = NumberedId::new(black_box(ID));
        put_request(black_box(METHOD), Some(black_box(PARAMS)), id.id(), out);
    };
    let encode_response = |out: &mut Vec<u8>| {
        put_result(black_box(RESULT), NumberedId::new(black_box(ID)).id(), out);
    };
    vec![
        requests("request"),
        Operation::encode(NAME, "request", encode_request),
        Operation::encode_new(NAME, "request", encode_request),
        responses("response"),
        Operation::encode(NAME, "response", encode_response),
        Operation::encode_new(NAME, "response", encode_response),
        responses("error"),
        Operation::encode(NAME, "error", |out| {
            let id = NumberedId::new(black_box(ID));
            put_error(ErrorNumber(black_box(CODE)), black_box(REASON), None, id.id(), out);
        }),
        requests("notification"),
        Operation::encode(NAME, "notification", |out| {
            put_notification(black_box(EVENT), Some(black_box(EVENT_PARAMS)), out);
        }),
        Operation::decode(NAME, "batch", decode_batch, write_requests),
        Operation::encode(NAME, "batch", move |out| {
            let mut batch = Replies::new(true);
            for _ in 0..BATCH {
                batch.begin(out);
                encode_request(out);
            }
            batch.end(out);
        }),
    ]
}

fn decode_request(text: &'static [u8]) -> Option<Request<'static>> {
    decode_requests(text, BATCH).ok()?.next()?.ok()
}

fn decode_batch(text: &'static [u8]) -> usize {
    let requests = decode_requests(text, BATCH).into_iter().flatten();
    requests.map(black_box).filter(Result::is_ok).count()
}

fn decode_response(text: &'static [u8]) -> Option<Incoming<'static>> {
    decode_responses(text, BATCH).ok()?.next()?.ok()
}

fn write_requests(text: &[u8], out: &mut Vec<u8>) {
    let Ok(requests) = decode_requests(text, BATCH) else {
        return;
    };
    let mut batch = Replies::new(requests.is_batch());
    for request in requests.flatten() {
        batch.begin(out);
        match request.id {
            Some(id) => put_request(&request.method, request.params.json(), id, out),
            None => put_notification(&request.method, request.params.json(), out),
        }
    }
    batch.end(out);
}

fn write_response(text: &[u8], out: &mut Vec<u8>) {
    for incoming in decode_responses(text, BATCH).into_iter().flatten().flatten() {
        let Incoming::Response(response) = incoming else {
            continue;
        };
        let id: Id<'_> = response.id;
        match response.outcome {
            Ok(result) => put_result(result, id, out),
            Err(error) => put_error(error.code, &error.message, error.data, id, out),
        }
    }
}
