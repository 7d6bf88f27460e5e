//! The protocols of calls over HTTP/1.1, by their content types.

use ringway_http::http::header::{CONTENT_TYPE, HeaderMap};

/// How the messages of a call are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Label {
    Json,
    Proto,
    Raw,
}

/// What a request speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spoken {
    /// Connect, one message each way: bodies are messages.
    Unary(Label),
    /// A protocol whose bodies are framed messages.
    Framed(Framed),
}

/// A protocol with frames, as one request uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Framed {
    pub(super) framing: Framing,
    pub(super) label: Label,
    /// Of request and reply.
    pub(super) content_type: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// Envelopes of Connect's streams.
    Connect,
    /// Frames of gRPC-Web.
    GrpcWeb,
    /// The same in base64.
    GrpcWebText,
}

impl Spoken {
    /// Reads the content type of a request; `None` if it is that of no call.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let (kind, parameters) = text.split_once(';').unwrap_or((text, ""));
        if parameters.split(';').any(is_other_charset) {
            return None;
        }
        let kind = kind.trim();
        let unary = UNARY.iter().find(|(name, _)| kind.eq_ignore_ascii_case(name));
        if let Some((_, label)) = unary {
            return Some(Self::Unary(*label));
        }
        let framed = FRAMED.iter().find(|of| kind.eq_ignore_ascii_case(of.content_type));
        framed.map(|framed| Self::Framed(*framed))
    }
}

/// Whether a parameter says that the content is not in UTF-8. Others mean nothing here.
fn is_other_charset(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    let value = value.trim();
    let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let value = unquoted.unwrap_or(value);
    name.trim().eq_ignore_ascii_case("charset") && !value.eq_ignore_ascii_case("utf-8")
}

const UNARY: [(&str, Label); 3] = [
    ("application/json", Label::Json),
    ("application/proto", Label::Proto),
    ("application/octet-stream", Label::Raw),
];

const FRAMED: [Framed; 11] = [
    framed(Framing::Connect, Label::Json, "application/connect+json"),
    framed(Framing::Connect, Label::Proto, "application/connect+proto"),
    framed(Framing::Connect, Label::Raw, "application/connect+octet-stream"),
    framed(Framing::GrpcWeb, Label::Proto, "application/grpc-web"),
    framed(Framing::GrpcWeb, Label::Proto, "application/grpc-web+proto"),
    framed(Framing::GrpcWeb, Label::Json, "application/grpc-web+json"),
    framed(Framing::GrpcWeb, Label::Raw, "application/grpc-web+octet-stream"),
    framed(Framing::GrpcWebText, Label::Proto, "application/grpc-web-text"),
    framed(Framing::GrpcWebText, Label::Proto, "application/grpc-web-text+proto"),
    framed(Framing::GrpcWebText, Label::Json, "application/grpc-web-text+json"),
    framed(Framing::GrpcWebText, Label::Raw, "application/grpc-web-text+octet-stream"),
];

const fn framed(framing: Framing, label: Label, content_type: &'static str) -> Framed {
    Framed { framing, label, content_type }
}

impl Framed {
    pub(super) fn is_connect(self) -> bool {
        self.framing == Framing::Connect
    }

    /// The form in which a request of gRPC-Web reads why it is refused, whatever its messages are.
    pub(super) fn of_refused_web(headers: &HeaderMap) -> Option<Self> {
        const TEXT: &str = "application/grpc-web-text";
        const BINARY: &str = "application/grpc-web";
        let kind = headers.get(CONTENT_TYPE)?.as_bytes();
        let begins = |with: &str| {
            kind.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with.as_bytes()))
        };
        match () {
            () if begins(TEXT) => Some(framed(Framing::GrpcWebText, Label::Proto, TEXT)),
            () if begins(BINARY) => Some(framed(Framing::GrpcWeb, Label::Proto, BINARY)),
            () => None,
        }
    }
}

impl Label {
    /// The content type of a unary message of Connect.
    pub(super) fn content_type(self) -> &'static str {
        let known = UNARY.iter().find(|(_, label)| *label == self);
        known.map_or("application/octet-stream", |(name, _)| name)
    }

    /// The encoding that a GET names.
    pub(super) fn of_encoding(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "proto" => Some(Self::Proto),
            "octet-stream" => Some(Self::Raw),
            _ => None,
        }
    }
}

/// The header fields by which a protocol speaks of compression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CompressionFields {
    /// Of the messages that follow.
    pub(super) encoding: &'static str,
    /// Of the messages that are accepted.
    pub(super) accept: &'static str,
}

impl CompressionFields {
    pub(super) const UNARY: Self = Self { encoding: "content-encoding", accept: "accept-encoding" };

    pub(super) fn of(framing: Framing) -> Self {
        match framing {
            Framing::Connect => {
                Self { encoding: "connect-content-encoding", accept: "connect-accept-encoding" }
            }
            Framing::GrpcWeb | Framing::GrpcWebText => {
                Self { encoding: "grpc-encoding", accept: "grpc-accept-encoding" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ringway_http::http::header::HeaderValue;

    use super::*;

    fn spoken(content_type: &'static str) -> Option<Spoken> {
        let value = HeaderValue::from_static(content_type);
        Spoken::of(&[(CONTENT_TYPE, value)].into_iter().collect())
    }

    #[test]
    fn content_types_are_those_of_calls_in_any_spelling() {
        for json in [
            "application/JSON; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json ; odata=verbose; Charset=utf-8",
            "application/json;",
        ] {
            assert_eq!(spoken(json), Some(Spoken::Unary(Label::Json)), "{json}");
        }
        assert_eq!(spoken("application/proto"), Some(Spoken::Unary(Label::Proto)));
        let Some(Spoken::Framed(framed)) = spoken("application/grpc-web-text+proto") else {
            panic!("gRPC-Web");
        };
        assert_eq!((framed.framing, framed.label), (Framing::GrpcWebText, Label::Proto));
        for other in [
            "text/plain",
            "application/json; charset=latin1",
            "application/json; a=b; charset=\"latin1\"",
            "application/grpc",
            "application/grpc-web-texts",
            "application/connect+",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "",
        ] {
            assert_eq!(spoken(other), None, "{other}");
        }
    }
}
