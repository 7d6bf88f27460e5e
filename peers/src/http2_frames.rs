//! HTTP/2 frames, read by their headers only, and constant replies.

use crate::limits::{FLOOR_FRAME_BYTES, FLOOR_WINDOW_BYTES};

/// RFC 9113, section 3.4, of which only the length matters here.
const PREFACE_BYTES: usize = 24;

const HEADER_BYTES: usize = 9;

// Types of frames, RFC 9113, section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

// Flags.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

// Field blocks of replies, RFC 7541. The first ones put their fields into the client's table.
const FIRST_HEAD: &[u8] = b"\x88\x5f\x10application/grpc"; // :status 200, content-type
const FIRST_TRAILERS: &[u8] = b"\x40\x0bgrpc-status\x010";
const HEAD: &[u8] = b"\x88\xbf";
const TRAILERS: &[u8] = b"\xbe";

/// A frame is larger than the clients of this server send it.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// A connection of the floor.
#[derive(Default)]
pub(crate) struct Frames {
    has_begun: bool,
    has_replied: bool,
    /// The beginning of an incomplete frame.
    begun: Vec<u8>,
    /// Bytes of content received since the window was last returned.
    content: u32,
}

impl Frames {
    /// Reads input and appends the output.
    pub(crate) fn answer(&mut self, received: &[u8], out: &mut Vec<u8>) -> Result<(), TooLarge> {
        if self.begun.is_empty() {
            let taken = self.answer_whole(received, out)?;
            self.begun.extend_from_slice(&received[taken..]);
        } else {
            let mut begun = std::mem::take(&mut self.begun);
            begun.extend_from_slice(received);
            let taken = self.answer_whole(&begun, out)?;
            begun.drain(..taken);
            self.begun = begun;
        }
        Ok(())
    }

    /// Answers the complete frames. Returns their length in bytes.
    fn answer_whole(&mut self, received: &[u8], out: &mut Vec<u8>) -> Result<usize, TooLarge> {
        let mut rest = received;
        if !self.has_begun {
            let Some(behind) = rest.get(PREFACE_BYTES..) else { return Ok(0) };
            rest = behind;
            self.has_begun = true;
            put_header(out, 0, SETTINGS, 0, [0; 4]);
            self.give_window(FLOOR_WINDOW_BYTES, out);
        }
        while let Some((&header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [a, b, c, kind, flags, stream @ ..] = header;
            let len = u32::from_be_bytes([0, a, b, c]);
            if len > FLOOR_FRAME_BYTES {
                return Err(TooLarge);
            }
            let Some((payload, behind)) = behind.split_at_checked(len as usize) else { break };
            rest = behind;
            self.answer_frame((kind, flags), stream, payload, out);
        }
        Ok(received.len() - rest.len())
    }

    fn answer_frame(&mut self, kind: (u8, u8), stream: [u8; 4], payload: &[u8], out: &mut Vec<u8>) {
        match kind {
            // Some clients end a stream with an empty frame after the message.
            (DATA, _) if !payload.is_empty() => self.reply(stream, payload, out),
            (SETTINGS, flags) if flags & ACK == 0 => put_header(out, 0, SETTINGS, ACK, [0; 4]),
            (PING, flags) if flags & ACK == 0 => {
                put_header(out, payload.len(), PING, ACK, [0; 4]);
                out.extend_from_slice(payload);
            }
            _ => {}
        }
    }

    fn reply(&mut self, stream: [u8; 4], message: &[u8], out: &mut Vec<u8>) {
        let (head, trailers) = match self.has_replied {
            true => (HEAD, TRAILERS),
            false => (FIRST_HEAD, FIRST_TRAILERS),
        };
        self.has_replied = true;
        put_header(out, head.len(), HEADERS, END_HEADERS, stream);
        out.extend_from_slice(head);
        put_header(out, message.len(), DATA, 0, stream);
        out.extend_from_slice(message);
        put_header(out, trailers.len(), HEADERS, END_HEADERS | END_STREAM, stream);
        out.extend_from_slice(trailers);
        self.content += message.len() as u32;
        if self.content >= FLOOR_WINDOW_BYTES / 2 {
            self.give_window(self.content, out);
            self.content = 0;
        }
    }

    fn give_window(&self, bytes: u32, out: &mut Vec<u8>) {
        put_header(out, 4, WINDOW_UPDATE, 0, [0; 4]);
        out.extend_from_slice(&bytes.to_be_bytes());
    }
}

fn put_header(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: [u8; 4]) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags]);
    out.extend_from_slice(&stream);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings, a call in two frames, and a ping.
    fn input() -> Vec<u8> {
        let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        put_header(&mut input, 0, SETTINGS, 0, [0; 4]);
        put_header(&mut input, 3, HEADERS, END_HEADERS, [0, 0, 0, 1]);
        input.extend_from_slice(b"abc");
        put_header(&mut input, 5, DATA, END_STREAM, [0, 0, 0, 1]);
        input.extend_from_slice(b"hello");
        put_header(&mut input, 8, PING, 0, [0; 4]);
        input.extend_from_slice(b"12345678");
        input
    }

    fn output(parts: &[&[u8]]) -> Vec<u8> {
        let (mut frames, mut out) = (Frames::default(), Vec::new());
        parts.iter().for_each(|part| frames.answer(part, &mut out).expect("small frames"));
        out
    }

    #[test]
    fn input_may_be_cut_anywhere() {
        let input = input();
        let whole = output(&[&input]);
        assert!(whole.windows(5).any(|part| part == b"hello"));
        assert!(whole.ends_with(b"12345678"));
        for at in 0..input.len() {
            let (one, other) = input.split_at(at);
            assert!(output(&[one, other]) == whole, "cut at {at}");
        }
    }

    #[test]
    fn large_frames_are_refused() {
        let mut input = input();
        put_header(&mut input, FLOOR_FRAME_BYTES as usize + 1, DATA, 0, [0, 0, 0, 3]);
        Frames::default().answer(&input, &mut Vec::new()).expect_err("too large");
    }
}
