//! A codec of one's own: a length, a tag, the payload, and the Adler-32 sum of tag and payload, as
//! muduo frames protobuf. A codec is a pure function of bytes, so it is tested without a socket;
//! `Framed` does the rest. The service answers each payload in capital letters.
//!
//! Run it: `cargo run --release --example own_codec`. An argument is the address to listen on.

use ringway::net::{Connection, Framed, Server};
use ringway::wire::{Codec, Decoded, Error};

/// The frames of muduo's RPC: `RPC0` in front of what protobuf makes.
#[derive(Clone, Copy)]
struct Tagged;

const TAG: [u8; 4] = *b"RPC0";
const LENGTH_BYTES: usize = 4;
const SUM_BYTES: usize = 4;
const FRAME_BYTES_MAX: usize = 64 << 20;
const PAYLOAD_BYTES_MAX: usize = FRAME_BYTES_MAX - LENGTH_BYTES - TAG.len() - SUM_BYTES;

impl Codec for Tagged {
    type Item<'a> = &'a [u8];

    fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<&'a [u8]>, Error> {
        let Some((length, rest)) = input.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(Decoded::NeedAtLeast(LENGTH_BYTES));
        };
        let length = u32::from_be_bytes(*length) as usize;
        let frame = LENGTH_BYTES + length;
        if frame > FRAME_BYTES_MAX {
            return Err(Error::FrameTooLarge { len: frame as u64, max: FRAME_BYTES_MAX });
        }
        if length < TAG.len() + SUM_BYTES {
            return Err(Error::BadFrame { what: "a frame without tag and sum" });
        }
        let Some(body) = rest.get(..length) else {
            return Ok(Decoded::NeedAtLeast(frame));
        };
        let (tagged, sum) = body.split_at(length - SUM_BYTES);
        if sum != adler32(tagged).to_be_bytes() {
            return Err(Error::BadFrame { what: "a wrong sum" });
        }
        let payload = tagged.strip_prefix(&TAG).ok_or(Error::BadFrame { what: "another tag" })?;
        Ok(Decoded::Frame { item: payload, consumed: frame })
    }

    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let length = TAG.len() + payload.len() + SUM_BYTES;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Error::PayloadTooLarge { len: payload.len(), max: PAYLOAD_BYTES_MAX });
        }
        out.extend_from_slice(&(length as u32).to_be_bytes());
        let begin = out.len();
        out.extend_from_slice(&TAG);
        out.extend_from_slice(payload);
        let sum = adler32(&out[begin..]);
        out.extend_from_slice(&sum.to_be_bytes());
        Ok(())
    }

    fn frame_len_max(&self) -> usize {
        FRAME_BYTES_MAX
    }
}

/// The sum of zlib (RFC 1950).
fn adler32(bytes: &[u8]) -> u32 {
    let add = |(low, high): (u32, u32), byte: &u8| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    };
    let (low, high) = bytes.iter().fold((1, 0), add);
    high << 16 | low
}

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:7001".into());
    let server = Server::bind(address.as_str())?;
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.serve(async |connection: Connection| {
        let mut frames = Framed::new(connection, Tagged);
        frames.for_each_frame(|payload, out| out.send(&payload.to_ascii_uppercase())).await
    })
}
