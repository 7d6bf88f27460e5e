//! How the suite and the tested program speak, and forms that both sides of a call share.

use std::io::{self, ErrorKind, Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use prost::Message;
use prost_types::Any;
use ringway::rpc::Metadata;

use crate::suite::Header;

/// The largest message that the suite sends: a few requests of 200 KiB.
const LEN_MAX: usize = 16 << 20;

/// The next message of the suite; `None` at its end.
pub(crate) fn read<M: Message + Default>() -> io::Result<Option<M>> {
    let mut input = io::stdin().lock();
    let mut len = [0; 4];
    match input.read_exact(&mut len) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    }
    let len = u32::from_be_bytes(len) as usize;
    assert!(len <= LEN_MAX, "the suite sends a message of {len} bytes");
    let mut bytes = vec![0; len];
    input.read_exact(&mut bytes)?;
    Ok(Some(M::decode(&*bytes)?))
}

pub(crate) fn write(message: &impl Message) -> io::Result<()> {
    let bytes = message.encode_to_vec();
    let len = u32::try_from(bytes.len()).expect("an outcome is short");
    let mut output = io::stdout().lock();
    output.write_all(&len.to_be_bytes())?;
    output.write_all(&bytes)?;
    output.flush()
}

/// Metadata as the suite compares it: all values of a key together, binary ones in base64.
pub(crate) fn headers(metadata: &Metadata) -> Vec<Header> {
    let mut headers: Vec<Header> = Vec::new();
    for (key, value) in metadata.iter() {
        let value = match key.ends_with("-bin") {
            true => STANDARD_NO_PAD.encode(value),
            false => String::from_utf8_lossy(value).into_owned(),
        };
        match headers.iter_mut().find(|header| header.name == key) {
            Some(header) => header.value.push(value),
            None => headers.push(Header { name: key.to_owned(), value: vec![value] }),
        }
    }
    headers
}

/// A message of the suite's package in another one.
pub(crate) fn packed(name: &str, message: &impl Message) -> Any {
    let type_url = format!("type.googleapis.com/connectrpc.conformance.v1.{name}");
    Any { type_url, value: message.encode_to_vec() }
}

/// `google.rpc.Status`, which carries the details of a failure.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) details: Vec<Any>,
}

/// The values that a header of the suite stands for.
pub(crate) fn values(header: &Header) -> impl Iterator<Item = Vec<u8>> {
    header.value.iter().map(|value| match header.name.ends_with("-bin") {
        true => STANDARD_NO_PAD.decode(value.trim_end_matches('=')).expect("base64 of the suite"),
        false => value.clone().into_bytes(),
    })
}
