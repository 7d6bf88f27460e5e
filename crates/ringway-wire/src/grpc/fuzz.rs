//! Fuzz functions of the decoders of gRPC.

use super::{
    Messages, TimeoutText, binary_values, parse_base64, parse_status, parse_status_message,
    parse_timeout, put_base64, put_status_message,
};
use crate::native::Piece;

/// Runs the decoder that the first byte selects on the rest.
pub fn fuzz(data: &[u8]) {
    let Some((&form, input)) = data.split_first() else {
        return;
    };
    match form % 4 {
        0 => messages(input, usize::from(form / 4) + 1),
        1 => {
            let message = parse_status_message(input);
            let mut encoded = Vec::new();
            put_status_message(&message, &mut encoded);
            assert_eq!(parse_status_message(&encoded), message);
            assert!(parse_status(input) <= 16);
        }
        2 => {
            if let Some(timeout) = parse_timeout(input) {
                let again = parse_timeout(TimeoutText::new(timeout).as_bytes()).expect("ours");
                assert!(again <= timeout || timeout.is_zero(), "never a longer one");
            }
        }
        _ => {
            for value in binary_values(input) {
                let (mut bytes, mut text, mut again) = (Vec::new(), Vec::new(), Vec::new());
                if parse_base64(value, &mut bytes) {
                    put_base64(&bytes, &mut text);
                    assert!(parse_base64(&text, &mut again) && again == bytes);
                }
            }
        }
    }
}

/// Checks that the same messages come out however the input is cut.
fn messages(input: &[u8], step: usize) {
    let split = |step: usize| {
        let (mut messages, mut found) = (Messages::new(300), Vec::new());
        for part in input.chunks(step) {
            let mut data = Piece::Borrowed(part);
            loop {
                match messages.next(&mut data) {
                    Ok(Some(message)) => {
                        found.push((message.is_compressed, message.bytes.to_vec()))
                    }
                    Ok(None) => break,
                    Err(error) => return (found, Err(error)),
                }
            }
            assert!(data.is_empty() && messages.incomplete_len() <= 600);
        }
        (found, messages.finish())
    };
    assert_eq!(split(step), split(input.len().max(1)));
}
