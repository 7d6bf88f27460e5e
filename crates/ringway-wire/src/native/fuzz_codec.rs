//! Fuzz functions of the decoders: what they decode is encoded to the same bytes.

use super::{
    CHECKSUM_LEN, Flags, GoAway, HEADER_LEN, Header, LoadReport, MetaReader, MetaWriter,
    REQUEST_HEAD_LEN, RequestHead, Settings, Tag, Violation,
};

/// Runs the decoder that the first byte of `data` selects on the rest.
pub fn fuzz(data: &[u8]) {
    let Some((form, bytes)) = data.split_first() else {
        return;
    };
    match form % 5 {
        0 => bytes.as_chunks().0.iter().for_each(header),
        1 => bytes.as_chunks().0.iter().for_each(request_head),
        2 => settings(bytes),
        3 => metadata(bytes),
        _ => go_away(bytes),
    }
}

fn header(bytes: &[u8; HEADER_LEN]) {
    let Ok(header) = Header::decode(bytes) else {
        return;
    };
    assert_eq!(header.encode(), *bytes);
    let crc_len = if header.flags.contains(Flags::CRC) { CHECKSUM_LEN } else { 0 };
    let parts = header.head_len() + usize::from(header.meta_len) + header.payload_len() + crc_len;
    assert_eq!(parts, header.len as usize);
}

fn request_head(bytes: &[u8; REQUEST_HEAD_LEN]) {
    if let Ok(head) = RequestHead::decode(bytes) {
        assert_eq!(head.encode(), *bytes);
    }
}

fn settings(bytes: &[u8]) {
    let Ok(settings) = Settings::decode(bytes) else {
        return;
    };
    assert!(settings.is_valid());
    let mut body = Vec::new();
    settings.encode(&mut body);
    assert_eq!(Settings::decode(&body), Ok(settings));
}

fn go_away(bytes: &[u8]) {
    if let Ok(go_away) = GoAway::decode(bytes) {
        let mut body = Vec::new();
        go_away.encode(&mut body);
        assert_eq!(body, bytes);
    }
}

/// Writes every piece that was read, and reads it again. Varints may become shorter.
fn metadata(bytes: &[u8]) {
    let mut written = Vec::new();
    let mut pieces = Vec::new();
    let mut reader = MetaReader::new(bytes);
    for piece in &mut reader {
        let Ok((tag, value)) = piece else { break };
        if rewrite(tag, value, &mut written).is_ok_and(|known| known) {
            pieces.push((tag, value));
        }
    }
    assert_eq!(reader.next(), None, "nothing follows an error or the end");

    let mut again = MetaReader::new(&written);
    for (tag, value) in pieces {
        let (tag_again, value_again) = again.next().expect("as many").expect("well-formed");
        assert_eq!(tag_again, tag);
        match tag {
            Tag::Entry => assert_eq!(MetaReader::entry(value_again), MetaReader::entry(value)),
            Tag::TimeoutUs => {
                assert_eq!(MetaReader::timeout_us(value_again), MetaReader::timeout_us(value));
            }
            Tag::Pushback => {
                assert_eq!(MetaReader::pushback_ms(value_again), MetaReader::pushback_ms(value));
            }
            Tag::LoadReport => {
                assert_eq!(LoadReport::decode(value_again), LoadReport::decode(value));
            }
            Tag::Refused => assert_eq!(value_again, b""),
            _ => assert_eq!(value_again, value),
        }
    }
    assert_eq!(again.next(), None);
}

/// Writes a piece; `false` if it cannot be written because its text is not UTF-8 or its tag is
/// unknown.
fn rewrite(tag: Tag, value: &[u8], out: &mut Vec<u8>) -> Result<bool, Violation> {
    let mut writer = MetaWriter::new(out);
    let text = std::str::from_utf8(value);
    match (tag, text) {
        (Tag::Entry, _) => {
            let (key, value) = MetaReader::entry(value)?;
            let Ok(key) = std::str::from_utf8(key) else {
                return Ok(false);
            };
            writer.entry(key, value)
        }
        (Tag::Method, Ok(name)) => writer.method(name),
        (Tag::StatusMessage, Ok(message)) => writer.status_message(message),
        (Tag::Authorization, _) => writer.authorization(value),
        (Tag::TimeoutUs, _) => writer.timeout_us(MetaReader::timeout_us(value)?),
        (Tag::StatusDetails, _) => writer.status_details(value),
        (Tag::Refused, _) => writer.refused(),
        (Tag::Pushback, _) => writer.pushback_ms(MetaReader::pushback_ms(value)?),
        (Tag::TraceState, _) => writer.tracestate(value),
        (Tag::LoadReport, _) => writer.load_report(LoadReport::decode(value)?),
        (Tag::TraceParent, _) => match value.try_into() {
            Ok(parent) => writer.traceparent(parent),
            Err(_) => return Ok(false),
        },
        _ => return Ok(false),
    };
    Ok(true)
}
