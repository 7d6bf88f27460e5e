//! The machine against servers that do not answer.

use std::time::Duration;

use ringway_wire::native::{Body, ClientEvent, Config, FailedBy, Open, Outgoing, StreamId};

use super::violation::JsonServerViolation;
use super::{JsonClient, JsonClientConfig, TextForm};
use crate::client::machine::ClientMachine;
use crate::limits;

const SECOND: Duration = Duration::from_secs(1);

fn config() -> JsonClientConfig {
    JsonClientConfig { text_max: 1 << 20, ping_after: 10 * SECOND, ping_timeout: SECOND }
}

#[test]
fn a_part_of_an_answer_does_not_keep_a_server_that_is_gone() {
    let mut client = JsonClient::by_post(config(), "a:1", "/", Duration::ZERO);
    assert_eq!((client.has_output(), client.capacity()), (false, 1), "nothing comes before a call");
    let answer = "HTTP/1.1 200 OK\r\nringway-rpc: 1\r\ncontent-length: 0\r\n\r\n";
    let receive = |client: &mut JsonClient, mut input: &[u8], now| {
        assert!(matches!(client.next_event(&mut input, now), Ok(None)) && input.is_empty());
    };
    call(&mut client);
    let event = client.next_event(&mut answer.as_bytes(), SECOND).expect("no violation");
    assert!(matches!(event, Some(ClientEvent::Failed { .. })), "{event:?}");
    assert_eq!(client.capacity(), 1);

    client.handle_timeout(11 * SECOND).expect("it asks");
    receive(&mut client, &answer.as_bytes()[..20], 11 * SECOND);
    assert_eq!(client.capacity(), 0);
    let at = client.poll_timeout().expect("a time");
    assert_eq!(at, 12 * SECOND, "it waits for the rest as long as for an answer");
    assert_eq!(client.handle_timeout(at), Err(JsonServerViolation::Silent));
}

#[test]
fn a_call_without_a_reply_is_ended_by_whoever_decides_that() {
    for (status, by) in [(200, FailedBy::Client), (401, FailedBy::Server), (503, FailedBy::Server)]
    {
        let mut client = JsonClient::by_post(config(), "a:1", "/", Duration::ZERO);
        call(&mut client);
        let answer = format!("HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n");
        let event = client.next_event(&mut answer.as_bytes(), SECOND).expect("no violation");
        let Some(ClientEvent::Failed { by: found, .. }) = event else { panic!("{event:?}") };
        assert_eq!(found, by, "{status}");
    }
}

#[test]
fn subscriptions_that_nobody_answers_do_not_fill_a_connection_for_ever() {
    let mut client = JsonClient::on_lines(config(), Duration::ZERO);
    for at in 1..=limits::JSONRPC_GIVEN_UP_MAX {
        let message = Some(Body::Copy(br#"{"jsonrpc":"2.0","method":"x""#));
        let codec = TextForm::Subscription.codec();
        let open = Open { codec, message, end: true, ..Open::default() };
        let stream = client.open(open).expect("there is room");
        client.cancel(stream, 0, "");
        assert_eq!(client.has_events(), at == limits::JSONRPC_GIVEN_UP_MAX, "after {at}");
    }
    let event = client.next_event(&mut &[][..], SECOND).expect("no violation");
    assert!(matches!(event, Some(ClientEvent::Leaving { .. })), "it takes no more calls");
}

fn call(client: &mut JsonClient) -> StreamId {
    let message = Some(Body::Copy(br#"{"jsonrpc":"2.0","method":"x""#));
    let codec = TextForm::Call.codec();
    client.open(Open { codec, message, end: true, ..Open::default() }).expect("there is room")
}

/// Servers of others do not know `rpc.ping`, or want to know first who calls.
#[test]
fn servers_of_others_are_not_pinged_by_post() {
    let mut client = JsonClient::by_post(config(), "a:1", "/", Duration::ZERO);
    assert_eq!(client.poll_timeout(), Some(Duration::MAX));
    call(&mut client);
    client.transmit(usize::MAX, &mut |_| {});
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    client.next_event(&mut answer.as_bytes(), SECOND).expect("no violation");
    client.handle_timeout(2 * SECOND).expect("it has stayed");
    assert_eq!((client.poll_timeout(), client.has_output()), (Some(Duration::MAX), false));
}

#[test]
fn the_second_request_waits_a_moment_for_the_end_of_a_connection() {
    let begin = || {
        let mut client = JsonClient::by_post(config(), "a:1", "/", Duration::ZERO);
        call(&mut client);
        client.transmit(usize::MAX, &mut |_| {});
        client
    };
    let exchange = |client: &mut JsonClient, fields: &str| {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n");
        client.next_event(&mut answer.as_bytes(), SECOND).expect("no violation");
        call(client);
    };
    for fields in ["ringway-rpc: 1\r\n", "connection: keep-alive\r\n"] {
        let mut client = begin();
        exchange(&mut client, fields);
        assert!(client.has_output(), "{fields}");
    }
    let mut client = begin();
    exchange(&mut client, "");
    let at = client.poll_timeout().expect("a time");
    assert_eq!((at, client.has_output()), (SECOND + limits::JSONRPC_POST_HOLD, false));
    client.transmit(usize::MAX, &mut |_| panic!("it was to wait"));
    client.handle_timeout(at).expect("it has stayed");
    assert!(client.has_output());
    client.transmit(usize::MAX, &mut |_| {});
    exchange(&mut client, "");
    assert!(client.has_output(), "once is enough");
}

#[test]
fn answer_without_a_length_is_whole_at_the_end_of_its_connection() {
    let mut client = JsonClient::by_post(config(), "a:1", "/", Duration::ZERO);
    let stream = call(&mut client);
    let answer = "HTTP/1.0 200 OK\r\n\r\n{\"jsonrpc\":\"2.0\",\"result\":7,\"id\":1}";
    let event = client.next_event(&mut answer.as_bytes(), SECOND).expect("no violation");
    assert!(event.is_none(), "{event:?}");
    client.end_input();
    let mut events =
        std::iter::from_fn(|| client.next_event(&mut &[][..], SECOND).ok()?.map(owned));
    assert_eq!(events.next().as_deref(), Some("it closes the connection behind its answer"));
    assert_eq!(events.next(), Some(format!("{stream:?}: 7")));
}

fn owned(event: ClientEvent<'_>) -> String {
    match event {
        ClientEvent::Leaving { reason, .. } => String::from_utf8_lossy(&reason).into_owned(),
        ClientEvent::Response { stream, status: 0, message: Some(message), .. } => {
            format!("{stream:?}: {}", String::from_utf8_lossy(&message))
        }
        other => panic!("{other:?}"),
    }
}

/// The id of the last request.
fn id_asked(client: &mut JsonClient) -> String {
    let mut asked = Vec::new();
    client.transmit(usize::MAX, &mut |out| match out {
        Outgoing::Copy(bytes) => asked.extend_from_slice(bytes),
        Outgoing::Shared(bytes) => asked.extend_from_slice(&bytes),
    });
    let asked = String::from_utf8(asked).expect("text");
    let number = asked.trim_end().rsplit(':').next().expect("an id");
    number.trim_end_matches('}').to_owned()
}

#[test]
fn id_of_a_subscription_that_is_too_long_is_not_kept() {
    for (len, is_kept) in
        [(limits::JSONRPC_ID_BYTES_MAX, true), (limits::JSONRPC_ID_BYTES_MAX + 1, false)]
    {
        let mut client = JsonClient::on_lines(config(), Duration::ZERO);
        let message = Some(Body::Copy(br#"{"jsonrpc":"2.0","method":"x""#));
        let codec = TextForm::Subscription.codec();
        let open = Open { codec, message, end: true, ..Open::default() };
        let stream = client.open(open).expect("there is room");
        let number = id_asked(&mut client);
        let id = "x".repeat(len - 2);
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"result\":\"{id}\"}}\n");
        let event = client.next_event(&mut answer.as_bytes(), SECOND).expect("no violation");
        match (event, is_kept) {
            (None, true) => {}
            (Some(ClientEvent::Failed { stream: of, status: 8, .. }), false) if of == stream => {}
            (other, _) => panic!("{len}: {other:?}"),
        }
    }
}

#[test]
fn the_longest_message_of_a_subscription_comes_with_the_longest_id() {
    let mut native = Config::default();
    native.settings.max_message = 1_000;
    let mut client = JsonClient::on_lines(JsonClientConfig::of(&native), Duration::ZERO);
    let message = Some(Body::Copy(br#"{"jsonrpc":"2.0","method":"x""#));
    let codec = TextForm::Subscription.codec();
    let open = Open { codec, message, end: true, ..Open::default() };
    let stream = client.open(open).expect("there is room");
    let id = "x".repeat(limits::JSONRPC_ID_BYTES_MAX - 2);
    let answer =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":\"{id}\"}}\n", id_asked(&mut client));
    let event = client.next_event(&mut answer.as_bytes(), SECOND).expect("no violation");
    assert!(event.is_none(), "{event:?}");
    let result = format!("\"{}\"", "y".repeat(998));
    let text = format!(
        r#"{{"jsonrpc":"2.0","method":"x","params":{{"subscription":"{id}","result":{result}}}}}"#
    );
    let (first, rest) = text.as_bytes().split_at(100); // it is collected, as it comes in parts
    for part in [first, rest] {
        let event = client.next_event(&mut &*part, SECOND).expect("no violation");
        assert!(event.is_none(), "{event:?}");
    }
    let event = client.next_event(&mut &b"\n"[..], SECOND).expect("no violation");
    match event {
        Some(ClientEvent::Message { stream: of, message }) => {
            assert_eq!((of, message.len()), (stream, 1_000));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_does_not_read_is_sent_no_more_than_a_bound() {
    for form in [TextForm::Notification, TextForm::Call] {
        let mut client = JsonClient::on_lines(config(), Duration::ZERO);
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{}""#, "x".repeat(100_000));
        let (codec, message) = (form.codec(), || Some(Body::Copy(text.as_bytes())));
        let open = || Open { codec, message: message(), end: true, ..Open::default() };
        let mut opened = 0;
        while let Ok(stream) = client.open(open()) {
            client.cancel(stream, 0, ""); // so that its place is free
            while let Ok(Some(_)) = client.next_event(&mut &[][..], Duration::ZERO) {}
            opened += text.len();
            assert!(opened < 10 * limits::JSONRPC_UNSENT_MAX, "{form:?}");
        }
        assert_eq!(client.capacity(), 0);
        client.transmit(usize::MAX, &mut |_| {});
        assert!(client.open(open()).is_ok(), "there is room again");
    }
}

#[test]
fn what_waits_of_a_long_text_is_not_moved_again_and_again() {
    const LEN: usize = 64 * limits::JSONRPC_SENT_KEPT;
    let mut client = JsonClient::on_lines(config(), Duration::ZERO);
    let text = vec![b' '; LEN];
    let (codec, message) = (TextForm::Call.codec(), Some(Body::Copy(&text)));
    client.open(Open { codec, message, end: true, ..Open::default() }).expect("room");
    let (mut moved, mut sent) = (0, 0);
    while client.has_output() {
        let before = client.out.len();
        client.transmit(limits::JSONRPC_SENT_KEPT, &mut |out| match out {
            Outgoing::Copy(bytes) => sent += bytes.len(),
            Outgoing::Shared(bytes) => sent += bytes.len(),
        });
        if client.out.len() < before {
            moved += client.out.len();
        }
    }
    assert!(sent > LEN && moved <= LEN, "{moved} bytes were moved to send {sent}");
}
