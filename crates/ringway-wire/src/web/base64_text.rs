//! Base64 that arrives in pieces, as `application/grpc-web-text` carries its frames.

use std::fmt;

use crate::grpc::{parse_base64, put_base64};

/// Decodes base64 however it was cut. Each writer of the stream may pad what it had at that moment, so
/// padding is not the end.
#[derive(Debug, Default)]
pub struct Base64Text {
    /// The digits of a group whose rest has not arrived.
    group: [u8; GROUP],
    len: u8,
}

/// Digits that stand for three bytes.
const GROUP: usize = 4;

/// A text is no base64, or ends inside a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenBase64;

impl fmt::Display for BrokenBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text is not in base64")
    }
}

impl std::error::Error for BrokenBase64 {}

impl Base64Text {
    /// Appends the bytes that `text` completes. Digits of an incomplete group are kept for the next text.
    ///
    /// # Errors
    ///
    /// Fails when a group is no base64; the rest cannot be decoded either.
    pub fn decode(&mut self, mut text: &[u8], out: &mut Vec<u8>) -> Result<(), BrokenBase64> {
        while self.len > 0 && !text.is_empty() {
            self.keep(text[0]);
            text = &text[1..];
            if usize::from(self.len) == GROUP {
                put_groups(&self.group, out)?;
                self.len = 0;
            }
        }
        let (mut groups, rest) = text.split_at(text.len() - text.len() % GROUP);
        while !groups.is_empty() {
            // Only the last group of a writer's text may be padded.
            let run = memchr::memchr(b'=', groups).map_or(groups.len(), |at| at / GROUP * GROUP);
            let (part, behind) = groups.split_at(run.max(GROUP));
            put_groups(part, out)?;
            groups = behind;
        }
        rest.iter().for_each(|digit| self.keep(*digit));
        Ok(())
    }

    /// Checks the end of the text.
    ///
    /// # Errors
    ///
    /// Fails when it ended inside a group.
    pub fn finish(&self) -> Result<(), BrokenBase64> {
        if self.len == 0 { Ok(()) } else { Err(BrokenBase64) }
    }

    fn keep(&mut self, digit: u8) {
        self.group[usize::from(self.len)] = digit;
        self.len += 1;
    }
}

/// Decodes whole groups, of which the last one may be padded.
fn put_groups(groups: &[u8], out: &mut Vec<u8>) -> Result<(), BrokenBase64> {
    if parse_base64(groups, out) { Ok(()) } else { Err(BrokenBase64) }
}

/// Appends `bytes` in base64 with padding, so that more may follow.
pub fn put_padded(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    put_base64(bytes, out);
    let digits = out.len() - start;
    out.resize(start + digits.next_multiple_of(GROUP), b'=');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(parts: &[&[u8]]) -> Result<Vec<u8>, BrokenBase64> {
        let (mut text, mut out) = (Base64Text::default(), Vec::new());
        parts.iter().try_for_each(|part| text.decode(part, &mut out))?;
        text.finish().map(|()| out)
    }

    #[test]
    fn text_is_decoded_however_it_is_cut() {
        let mut text = Vec::new();
        for piece in [&b"a"[..], b"bc", b"def", b"", b"ghij"] {
            put_padded(piece, &mut text);
        }
        assert_eq!(text, b"YQ==YmM=ZGVmZ2hpag==");
        for at in 0..=text.len() {
            let cut = decoded(&[&text[..at], &text[at..]]);
            assert_eq!(cut.as_deref(), Ok(&b"abcdefghij"[..]), "cut at {at}");
        }
        assert_eq!(decoded(&text.chunks(1).collect::<Vec<_>>()).as_deref(), Ok(&b"abcdefghij"[..]));
    }

    #[test]
    fn text_that_is_no_base64_is_refused() {
        for wrong in
            ["YQ=", "YQ", "Y", "YQ==Y", "Y===", "====", "YQ!=", "Y Q=", "=YQ=", "YQ=a", "YQ\n="]
        {
            assert_eq!(decoded(&[wrong.as_bytes()]), Err(BrokenBase64), "{wrong}");
            let single = wrong.as_bytes().chunks(1).collect::<Vec<_>>();
            assert_eq!(decoded(&single), Err(BrokenBase64), "{wrong} byte by byte");
        }
    }
}
