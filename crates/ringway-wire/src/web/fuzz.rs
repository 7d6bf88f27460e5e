//! Fuzz function of what browsers send.

use super::{Base64Text, GetQuery, put_padded};
use crate::grpc::Messages;
use crate::native::Piece;

/// Runs the decoder that the first byte selects on the rest.
pub fn fuzz(data: &[u8]) {
    let Some((&form, input)) = data.split_first() else {
        return;
    };
    let step = usize::from(form / 3) + 1;
    match form % 3 {
        0 => {
            let _no_call = GetQuery::parse(input);
        }
        1 => {
            let whole = decoded(input, input.len().max(1));
            assert_eq!(decoded(input, step), whole);
            if let Some(bytes) = whole {
                let mut text = Vec::new();
                put_padded(&bytes, &mut text);
                assert_eq!(decoded(&text, step), Some(bytes));
            }
        }
        _ => {
            for is_text in [true, false] {
                let whole = envelopes(input, input.len().max(1), is_text);
                assert_eq!(envelopes(input, step, is_text), whole);
            }
        }
    }
}

fn decoded(text: &[u8], step: usize) -> Option<Vec<u8>> {
    let (mut decoder, mut out) = (Base64Text::default(), Vec::new());
    text.chunks(step).try_for_each(|part| decoder.decode(part, &mut out)).ok()?;
    decoder.finish().ok().map(|()| out)
}

/// The messages in the envelopes of Connect and gRPC-Web, or in the latter's text form, and whether all was well-formed.
fn envelopes(input: &[u8], step: usize, is_text: bool) -> (Vec<(bool, Vec<u8>)>, bool) {
    const LEN_MAX: u32 = 300;
    let (mut decoder, mut messages, mut found) =
        (Base64Text::default(), Messages::new(LEN_MAX), Vec::new());
    for part in input.chunks(step) {
        let mut bytes = Vec::new();
        let decoded = match is_text {
            true => decoder.decode(part, &mut bytes),
            false => {
                bytes.extend_from_slice(part);
                Ok(())
            }
        };
        let mut data = Piece::Owned(bytes.into());
        loop {
            match messages.next(&mut data) {
                Ok(Some(message)) => found.push((message.is_compressed, message.bytes.to_vec())),
                Ok(None) => break,
                Err(_) => return (found, false),
            }
        }
        assert!(messages.incomplete_len() <= 2 * LEN_MAX as usize);
        if decoded.is_err() {
            return (found, false);
        }
    }
    (found, decoder.finish().is_ok() && messages.finish().is_ok())
}
