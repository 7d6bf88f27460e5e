//! How calls of the gRPC client end that have no status of their server's, and who has decided that.

use ringway_wire::native::{ClientEvent, FailedBy, OpenError};

use crate::grpc_client::*;
use crate::support::http2::{ACK, END_STREAM, GOAWAY, NOW, RST_STREAM, SETTINGS, frame};

#[test]
fn resets_have_the_status_of_the_table_and_refused_ones_were_not_executed() {
    for (code, status) in [(0, 13), (2, 13), (8, 1), (11, 8), (12, 7)] {
        let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, code]);
        let (events, ends) = answered(&[unary()], &[reset]);
        assert!(
            events[0].starts_with(&format!("response 0 {status} [StatusMessage ")),
            "{events:?}"
        );
        assert!(!events[0].contains("Refused") && ends.is_empty());
    }
    let refused =
        "response 0 14 [StatusMessage the server reset the stream: REFUSED_STREAM, Refused ]";
    assert_eq!(answered(&[unary()], &[frame(RST_STREAM, 0, 1, &[0, 0, 0, 7])]).0, [refused]);
    // After the end of the reply a reset means nothing.
    let reset = frame(RST_STREAM, 0, 1, &[0; 4]);
    let (events, _) =
        answered(&[streaming()], &[good_head(), trailers(&[("grpc-status", "0")]), reset]);
    assert_eq!(events, ["response 0 0 []"]);
}

#[test]
fn a_call_whose_reply_has_begun_may_have_been_executed_whatever_the_server_says_later() {
    let go_away = frame(GOAWAY, 0, 0, &[0; 8]);
    for end in [frame(RST_STREAM, 0, 1, &[0, 0, 0, 7]), go_away] {
        let frames = [good_head(), data(&message(b"hi")), end];
        let (events, _) = answered(&[unary()], &frames);
        assert_eq!(events[0], "message 0 hi");
        let last = events.last().expect("an end");
        assert!(last.starts_with("response 0 14 ") && !last.contains("Refused"), "{last}");
        // The next call in the same slot may be refused like any other.
        let mut client = new_client();
        client.open(unary()).expect("room");
        let whole = [frame(SETTINGS, 0, 0, &[]), good_head(), trailers(&[("grpc-status", "0")])];
        hear(&mut client, &whole.concat());
        client.open(unary()).expect("room");
        let events = hear(&mut client, &frame(RST_STREAM, 0, 3, &[0, 0, 0, 7]));
        assert!(events[0].contains("Refused"), "{events:?}");
    }
}

#[test]
fn what_a_go_away_does_not_cover_was_not_executed() {
    let frames = [frame(GOAWAY, 0, 0, &[&[0, 0, 0, 1, 0, 0, 0, 0][..], b"bye"].concat())];
    let refused = "response 1 14 [StatusMessage the server takes no more calls, and has not seen this one: bye, Refused ]";
    let (events, ends) = answered(&[unary(), unary()], &frames);
    assert_eq!(events, ["leaving 0 1 bye", refused]);
    assert_eq!(ends, []);
    let mut client = new_client();
    let [first, second] = [(); 2].map(|()| client.open(unary()).expect("room"));
    assert!(!client.was_accepted(first, u32::MAX), "nothing has left");
    sent(&mut client);
    assert!(client.was_accepted(first, 1) && !client.was_accepted(second, 1));
    hear(&mut client, &[frame(SETTINGS, 0, 0, &[]), frames.concat()].concat());
    assert_eq!(client.open(unary()), Err(OpenError::Draining));
    assert_eq!(client.in_flight(), 1);
    let acknowledged = frame(SETTINGS, ACK, 0, &[]);
    hear(&mut client, &[acknowledged, good_head(), trailers(&[("grpc-status", "0")])].concat());
    assert_eq!((client.in_flight(), client.poll_timeout()), (0, None));
    assert_eq!(client.open(unary()), Err(OpenError::Draining), "it has not failed");
}

#[test]
fn who_has_ended_a_call_is_told() {
    let by = |frames: &[Vec<u8>]| {
        let mut client = new_client();
        client.open(unary()).expect("room");
        let wire = [frame(SETTINGS, 0, 0, &[]), frames.concat()].concat();
        let mut input = &wire[..];
        let event = client.receive(&mut input, NOW).expect("well-formed");
        let Some(ClientEvent::Failed { by, status, .. }) = event else { panic!("{event:?}") };
        (by, status)
    };
    use FailedBy::{Client, Server};
    let page = head(END_STREAM, &[(":status", "404"), ("content-type", "text/html")]);
    let large = bomb(&[(":status", "200"), GRPC, ("grpc-status", "0")]);
    assert_eq!(by(&[frame(RST_STREAM, 0, 1, &[0; 4])]), (Server, 13));
    assert_eq!(by(&[page]), (Server, 12));
    assert_eq!(by(&[good_head(), trailers(&[("x", "y")])]), (Server, 2));
    assert_eq!(by(&[large]), (Client, 8));
    assert_eq!(by(&[good_head(), data(&[2, 0, 0, 0, 0])]), (Client, 13));
    assert_eq!(by(&[head(0, &[(":status", "x")])]), (Client, 13));
}

#[test]
fn the_reason_of_a_go_away_has_its_code() {
    let told = |code: u8, reason: &[u8]| {
        let payload = [&[0, 0, 0, 0, 0, 0, 0, code][..], reason].concat();
        answered(&[], &[frame(GOAWAY, 0, 0, &payload)]).0
    };
    assert_eq!(told(0, b""), ["leaving 0 0 "]);
    assert_eq!(
        told(11, b"too_many_pings")[0].split_once(" 0 ").expect("its parts").1,
        "ENHANCE_YOUR_CALM: too_many_pings"
    );
    assert_eq!(told(11, b"")[0].split_once(" 0 ").expect("its parts").1, "ENHANCE_YOUR_CALM");
}
