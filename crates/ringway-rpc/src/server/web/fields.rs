//! Metadata of calls as header fields of HTTP.

use ringway_http::http::header::{HeaderMap, HeaderName, HeaderValue};
use ringway_wire::grpc::{
    ValueRoom, binary_values, is_binary, is_reserved, parse_base64, put_base64,
};
use ringway_wire::native::MetaWriter;

use crate::call::metadata::{InvalidMetadata, Metadata};
use crate::call::status::Status;
use crate::call::trace::TraceContext;
use crate::limits;

/// Headers of the transfer, of browsers and of the protocols themselves; the others are metadata of the
/// call.
const NOT_METADATA: [&str; 15] = [
    "host",
    "connection",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "upgrade-insecure-requests",
    "keep-alive",
    "expect",
    "origin",
    "referer",
    "user-agent",
    "traceparent",
    "x-grpc-web",
    "x-user-agent",
];

const NOT_METADATA_PREFIXES: [&str; 7] =
    ["content-", "accept", "connect-", "grpc-", "ringway-", "sec-", "proxy-"];

static TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

const TOO_MANY_VALUES: &str = "the request's headers hold more values than the server accepts";

/// Writes the metadata of a request. Headers that cannot be metadata are left out: browsers and proxies add such ones, and
/// the caller cannot help it (RFC 9110, section 5.5: "A recipient SHOULD treat other allowed octets in field content (i.e.,
/// obs-text) as opaque data").
///
/// # Errors
/// INVALID_ARGUMENT when a binary header is not in base64, RESOURCE_EXHAUSTED when they are too long or hold too many values.
pub(crate) fn write_metadata(headers: &HeaderMap, meta: &mut Vec<u8>) -> Result<(), Status> {
    let mut writer = MetaWriter::new(meta);
    let mut room = ValueRoom::new(limits::WEB_VALUES_BYTES_MAX);
    let is_own = |name: &str| {
        NOT_METADATA.contains(&name)
            || NOT_METADATA_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let others = headers.iter().filter(|(name, _)| !is_own(name.as_str()));
    for (name, value) in others {
        let (name, value) = (name.as_str(), value.as_bytes());
        match name {
            "authorization" if may_enter(name, value)? => _ = writer.authorization(value),
            "authorization" => {}
            _ if is_binary(name.as_bytes()) => {
                if !room.has_for(name.as_bytes(), value) {
                    return Err(Status::resource_exhausted(TOO_MANY_VALUES));
                }
                write_binary(name, value, &mut writer)?;
            }
            _ => write_entry(name, value, &mut writer)?,
        }
    }
    let trace = headers.get(&TRACE_PARENT).and_then(|value| value.to_str().ok());
    if let Some(trace) = trace.and_then(TraceContext::parse) {
        writer.traceparent(&trace.to_bytes());
    }
    Ok(())
}

fn write_binary(name: &str, value: &[u8], writer: &mut MetaWriter<'_>) -> Result<(), Status> {
    for value in binary_values(value) {
        let mut bytes = Vec::new();
        if !parse_base64(value, &mut bytes) {
            return Err(Status::invalid_argument(format!("the header {name} is not in base64")));
        }
        write_entry(name, &bytes, writer)?;
    }
    Ok(())
}

fn write_entry(name: &str, value: &[u8], writer: &mut MetaWriter<'_>) -> Result<(), Status> {
    if may_enter(name, value)? {
        writer.entry(name, value);
    }
    Ok(())
}

/// Whether a header can be metadata.
fn may_enter(name: &str, value: &[u8]) -> Result<bool, Status> {
    match Metadata::new().append(name, value) {
        Ok(()) => Ok(true),
        Err(InvalidMetadata::TooLarge) => {
            let message = format!("the header {name} is longer than metadata may be");
            Err(Status::resource_exhausted(message))
        }
        Err(_) => Ok(false),
    }
}

/// The entries that may be header fields, with their values as text.
pub(super) fn texts(metadata: &Metadata) -> impl Iterator<Item = (&str, String)> {
    metadata.iter().filter(|(key, _)| may_leave(key)).map(|(key, value)| (key, text(key, value)))
}

/// Whether a key means nothing to HTTP or to a protocol of calls.
fn may_leave(key: &str) -> bool {
    let is_own = is_reserved(key.as_bytes()) || key.starts_with("connect-");
    !is_own && !["content-encoding", "trailer"].contains(&key)
}

fn text(key: &str, value: &[u8]) -> String {
    let mut text = Vec::new();
    match is_binary(key.as_bytes()) {
        true => put_base64(value, &mut text),
        false => text.extend_from_slice(value.trim_ascii()),
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Adds metadata to the header fields of a reply, each key behind `prefix`.
pub(super) fn put_fields(metadata: &Metadata, prefix: &str, headers: &mut HeaderMap) {
    for (key, value) in texts(metadata) {
        let name = HeaderName::try_from(format!("{prefix}{key}"));
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata_of(fields: &[(&'static str, &'static str)]) -> Result<Metadata, Status> {
        let field =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let mut meta = Vec::new();
        write_metadata(&fields.iter().map(field).collect(), &mut meta)?;
        Metadata::of_wire(&meta)
    }

    #[test]
    fn binary_entries_are_base64_with_or_without_padding() {
        let metadata = metadata_of(&[("seen-bin", "AQL/, AQ=="), ("tenant", "blue")]);
        let metadata = metadata.expect("well-formed");
        let seen: Vec<_> = metadata.get_all("seen-bin").collect();
        assert_eq!(seen, [&[1, 2, 255][..], &[1]]);
        assert_eq!(metadata.get("tenant"), Some("blue"));
        let broken = metadata_of(&[("seen-bin", "!")]).expect_err("no base64");
        assert!(broken.is_invalid_argument());
        let mut headers = HeaderMap::new();
        put_fields(&metadata, "trailer-", &mut headers);
        assert_eq!(headers["trailer-seen-bin"], "AQL/");
    }

    #[test]
    fn what_cannot_be_metadata_is_left_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("cookie", &b"name=J\xc3\xb6rg"[..]),
            ("x-latin", b"caf\xe9"),
            ("x-tab", b"a\tb"),
            ("x~name", b"x"),
            ("x$a", b"x"),
            ("authorization", b"Basic \xff"),
            ("tenant", b"blue"),
        ] {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_bytes(value).expect("a value"));
        }
        let mut meta = Vec::new();
        write_metadata(&headers, &mut meta).expect("the rest is good");
        let metadata = Metadata::of_wire(&meta).expect("well-formed");
        assert_eq!(metadata.iter().collect::<Vec<_>>(), [("tenant", &b"blue"[..])]);
        headers.insert("x-long", HeaderValue::try_from("x".repeat(17 << 10)).expect("a value"));
        let long = write_metadata(&headers, &mut meta).expect_err("longer than 16 KiB");
        assert!(long.is_resource_exhausted(), "{long}");
    }

    #[test]
    fn values_that_share_a_field_are_bounded() {
        let metadata = |values: usize| {
            let value = HeaderValue::try_from(vec!["AQ"; values].join(",")).expect("a value");
            let fields = [(HeaderName::from_static("a-bin"), value.clone())];
            let more = (HeaderName::from_static("b-bin"), value);
            let mut meta = Vec::new();
            write_metadata(&fields.into_iter().chain([more]).collect(), &mut meta)?;
            Metadata::of_wire(&meta)
        };
        assert_eq!(metadata(200).expect("few").iter().count(), 400);
        assert!(metadata(250).expect_err("many").is_resource_exhausted());
        assert!(metadata(8_000).expect_err("many").is_resource_exhausted());
    }

    #[test]
    fn what_belongs_to_http_is_no_metadata_either_way() {
        let own = [("user-agent", "x"), ("sec-fetch-mode", "cors"), ("grpc-timeout", "1S")];
        assert!(metadata_of(&own).expect("well-formed").is_empty());
        let mut metadata = Metadata::new();
        for key in ["content-length", "content-type", "connection", "transfer-encoding", "own"] {
            metadata.append(key, "1").expect("a key");
        }
        let kept: Vec<_> = texts(&metadata).map(|(key, _)| key).collect();
        assert_eq!(kept, ["own"]);
    }
}
