//! Any bytes as JSON-RPC: on lines, as requests and as responses.

use super::{
    Incoming, Lines, Replies, Request, Subscribed, decode_requests, decode_responses, is_json,
    put_context, put_error, put_notification, put_refusal, put_request, put_result,
};

/// Longest line and largest batch, small enough to be exceeded.
const LINE_MAX: usize = 300;
const BATCH_MAX: usize = 8;

/// The first byte tells how the others are cut into pieces.
pub fn fuzz(data: &[u8]) {
    let Some((&cut, stream)) = data.split_first() else {
        return;
    };
    let lines = lines(stream, stream.len().max(1));
    assert_eq!(self::lines(stream, usize::from(cut) + 1), lines, "in pieces of {}", cut + 1);
    for text in lines.0.iter().map(Vec::as_slice).chain([stream]) {
        requests(text);
        responses(text);
    }
}

fn lines(stream: &[u8], piece_len: usize) -> (Vec<Vec<u8>>, bool, Vec<u8>) {
    let (mut lines, mut found) = (Lines::new(LINE_MAX), Vec::new());
    for mut piece in stream.chunks(piece_len) {
        loop {
            match lines.next(&mut piece) {
                Ok(Some(line)) => found.push(line.to_vec()),
                Ok(None) => break,
                Err(_) => return (found, true, Vec::new()),
            }
        }
        assert!(lines.capacity() <= LINE_MAX + 1);
    }
    let rest = lines.rest().to_vec();
    (found, false, rest)
}

/// What a server answers is JSON on one line, and a request comes back as it was.
fn requests(text: &[u8]) {
    let mut out = Vec::new();
    let requests = match decode_requests(text, BATCH_MAX) {
        Ok(requests) => requests,
        Err(refusal) => {
            put_refusal(&refusal, &mut out);
            assert!(is_json(&out));
            return;
        }
    };
    let mut replies = Replies::new(requests.is_batch());
    let (count, mut found) = (requests.len(), 0);
    for request in requests {
        found += 1;
        replies.begin(&mut out);
        match request {
            Ok(request) => {
                again(&request);
                let result = request.params.json().unwrap_or("null");
                put_result(result, request.id.unwrap_or(super::Id::NULL), &mut out);
            }
            Err(refusal) => put_refusal(&refusal, &mut out),
        }
    }
    assert!(replies.end(&mut out) && count == found && count <= BATCH_MAX);
    assert!(!out.contains(&b'\n'));
    let replies = decode_responses(&out, BATCH_MAX).expect("replies are JSON");
    assert!(replies.into_iter().all(|reply| matches!(reply, Ok(Incoming::Response(_)))));
}

fn again(request: &Request<'_>) {
    let mut out = Vec::new();
    match (&request.context, request.id) {
        (Some(context), _) => {
            super::open_request(&request.method, &mut out);
            out.extend_from_slice(request.params.json().unwrap_or("[]").as_bytes());
            put_context(context, &mut out);
            super::close(request.id.unwrap_or(super::Id::NULL), &mut out);
        }
        (None, Some(id)) => put_request(&request.method, request.params.json(), id, &mut out),
        (None, None) => put_notification(&request.method, request.params.json(), &mut out),
    }
    let mut decoded = decode_requests(&out, 1).expect("ours are JSON");
    let decoded = decoded.next().expect("one").expect("ours are well-formed");
    assert_eq!((&decoded.method, &decoded.context), (&request.method, &request.context));
    assert!(decoded.id == request.id || request.context.is_some());
    if let Some(subscribed) = Subscribed::of(request) {
        assert!(is_json(subscribed.result.as_bytes()));
    }
}

fn responses(text: &[u8]) {
    for incoming in decode_responses(text, BATCH_MAX).into_iter().flatten() {
        let Ok(Incoming::Response(response)) = incoming else {
            continue;
        };
        let mut out = Vec::new();
        match &response.outcome {
            Ok(result) => put_result(result, response.id, &mut out),
            Err(error) => {
                put_error(error.code, &error.message, error.data, response.id, &mut out);
            }
        }
        let again = decode_responses(&out, 1).expect("ours are JSON").next();
        let Some(Ok(Incoming::Response(again))) = again else {
            panic!("ours are responses");
        };
        assert_eq!(again.id, response.id);
        assert_eq!(again.outcome.is_ok(), response.outcome.is_ok());
    }
}
