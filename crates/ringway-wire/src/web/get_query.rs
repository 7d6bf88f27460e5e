//! A call of the Connect protocol in the query of a GET (connectrpc.com/docs/protocol,
//! "Unary-Get-Request").

use std::borrow::Cow;
use std::fmt;

use crate::grpc::parse_base64;

/// What a query says of a call. Parameters that the protocol does not know are skipped; of one that
/// repeats, the first counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GetQuery {
    /// The message, decoded, but not decompressed.
    pub message: Vec<u8>,
    /// The encoding of the message, such as `json`.
    pub encoding: String,
    /// The compression of the message, if the query names one.
    pub compression: Option<String>,
    /// The version of the protocol, if the query names one.
    pub version: Option<String>,
}

/// The reason why a query is no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryError {
    /// A parameter that every call has is missing.
    Missing(&'static str),
    /// A parameter is malformed: percent-encoding, base64 or UTF-8.
    Broken(&'static str),
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the query has no parameter `{name}`"),
            Self::Broken(name) => write!(f, "the parameter `{name}` of the query is malformed"),
        }
    }
}

impl std::error::Error for QueryError {}

impl GetQuery {
    /// Parses the part of a target behind `?`.
    ///
    /// # Errors
    ///
    /// Fails when message or encoding are missing, or a parameter is malformed.
    pub fn parse(query: &[u8]) -> Result<Self, QueryError> {
        let message = value(query, "message")?.ok_or(QueryError::Missing("message"))?;
        let is_base64 = text(query, "base64")?.is_some_and(|value| value == "1");
        Ok(Self {
            message: if is_base64 { url_base64(&message)? } else { message.into_owned() },
            encoding: text(query, "encoding")?.ok_or(QueryError::Missing("encoding"))?,
            compression: text(query, "compression")?,
            version: text(query, "connect")?,
        })
    }
}

fn text(query: &[u8], name: &'static str) -> Result<Option<String>, QueryError> {
    let text = |value: Cow<'_, [u8]>| String::from_utf8(value.into_owned());
    value(query, name)?.map(text).transpose().map_err(|_| QueryError::Broken(name))
}

/// The decoded value of a parameter. A name is never percent-encoded by those who send one.
fn value<'q>(query: &'q [u8], name: &'static str) -> Result<Option<Cow<'q, [u8]>>, QueryError> {
    let found = query.split(|byte| *byte == b'&').find_map(|parameter| {
        let value = parameter.strip_prefix(name.as_bytes())?;
        if value.is_empty() { Some(value) } else { value.strip_prefix(b"=") }
    });
    found.map(|value| decoded(value).ok_or(QueryError::Broken(name))).transpose()
}

/// Decodes what the query of a form has: `%` with two digits, and `+` for a blank.
fn decoded(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !value.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(*rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => (digit()? * 16 + digit()?) as u8,
            byte => *byte,
        });
    }
    Some(Cow::Owned(bytes))
}

/// RFC 4648, section 5, with or without padding.
fn url_base64(text: &[u8]) -> Result<Vec<u8>, QueryError> {
    let plain = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        // Of the other alphabet: refused below.
        b'+' | b'/' => b'!',
        byte => *byte,
    };
    let plain: Vec<u8> = text.iter().map(plain).collect();
    let mut bytes = Vec::new();
    if parse_base64(&plain, &mut bytes) { Ok(bytes) } else { Err(QueryError::Broken("message")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(query: &str) -> Result<String, QueryError> {
        let query = GetQuery::parse(query.as_bytes())?;
        Ok(String::from_utf8(query.message).expect("text"))
    }

    #[test]
    fn a_query_is_parsed_in_any_order() {
        let query =
            GetQuery::parse(b"a=b&encoding=json&message=%7B%7d&connect=v1&compression=gzip&c");
        let query = query.expect("a call");
        assert_eq!((&query.message[..], &query.encoding[..]), (&b"{}"[..], "json"));
        assert_eq!(
            (query.compression.as_deref(), query.version.as_deref()),
            (Some("gzip"), Some("v1"))
        );
        assert_eq!(message("message=a+b%2B&message=c&encoding=json"), Ok("a b+".into()));
        assert_eq!(message("message&encoding=json"), Ok(String::new()));
        assert_eq!(message("messages=x&message=y&encoding=json"), Ok("y".into()));
    }

    #[test]
    fn base64_is_of_the_alphabet_for_urls_with_or_without_padding() {
        for padded in ["Pz8-_w", "Pz8-_w%3D%3D", "Pz8-_w=="] {
            let query = format!("base64=1&encoding=proto&message={padded}");
            let query = GetQuery::parse(query.as_bytes()).expect("a call");
            assert_eq!(query.message, [0x3f, 0x3f, 0x3e, 0xff]);
        }
        assert_eq!(message("base64=0&encoding=json&message=YQ"), Ok("YQ".into()));
    }

    #[test]
    fn what_is_no_call_is_refused() {
        use QueryError::{Broken, Missing};
        for (query, error) in [
            ("", Missing("message")),
            ("message=a", Missing("encoding")),
            ("encoding=json", Missing("message")),
            ("message=%&encoding=json", Broken("message")),
            ("message=%4&encoding=json", Broken("message")),
            ("message=%4x&encoding=json", Broken("message")),
            ("message=Y&encoding=json&base64=1", Broken("message")),
            ("message=Pz8%2B&encoding=json&base64=1", Broken("message")),
            ("message=a&encoding=%ff", Broken("encoding")),
        ] {
            assert_eq!(message(query), Err(error), "{query}");
        }
    }
}
