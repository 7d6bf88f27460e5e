//! Content types and compressions (PROTOCOL-HTTP2.md and compression.md of gRPC).

/// The encoding of messages, as the content type of their call tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ContentType {
    /// `application/grpc`, which means protobuf.
    Plain,
    /// `application/grpc+proto`.
    Proto,
    /// `application/grpc+json`.
    Json,
    /// `application/grpc+` another encoding.
    Unknown,
    /// Not a gRPC call; answered with HTTP status 415.
    NotGrpc,
}

impl ContentType {
    const ALL: [Self; 5] = [Self::Plain, Self::Proto, Self::Json, Self::Unknown, Self::NotGrpc];

    /// Parses the value of a `content-type` field. Case does not matter (RFC 9110, section 8.3.1), and
    /// parameters after `;` are ignored.
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        const GRPC: &[u8] = b"application/grpc";
        let value = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let (name, suffix) = value.split_at(value.len().min(GRPC.len()));
        match suffix {
            _ if !name.eq_ignore_ascii_case(GRPC) => Self::NotGrpc,
            b"" => Self::Plain,
            _ if suffix.eq_ignore_ascii_case(b"+proto") => Self::Proto,
            _ if suffix.eq_ignore_ascii_case(b"+json") => Self::Json,
            [b'+', ..] => Self::Unknown,
            _ => Self::NotGrpc,
        }
    }

    /// The value of a `content-type` field.
    #[must_use]
    pub fn text(self) -> &'static [u8] {
        match self {
            Self::Plain | Self::Unknown | Self::NotGrpc => b"application/grpc",
            Self::Proto => b"application/grpc+proto",
            Self::Json => b"application/grpc+json",
        }
    }

    pub(super) fn from_number(number: u64) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::NotGrpc)
    }
}

/// The compression of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// No compression.
    Identity,
    /// `gzip`.
    Gzip,
    /// `zstd`.
    Zstd,
    /// A compression that is not supported; answered with UNIMPLEMENTED and the supported names.
    Unknown,
}

impl Compression {
    const KNOWN: [Self; 3] = [Self::Identity, Self::Gzip, Self::Zstd];

    /// Parses the value of a `grpc-encoding` field.
    #[must_use]
    pub fn parse(name: &[u8]) -> Self {
        let known = Self::KNOWN.into_iter().find(|known| known.name() == name);
        known.unwrap_or(Self::Unknown)
    }

    /// The value of a `grpc-encoding` field.
    #[must_use]
    pub fn name(self) -> &'static [u8] {
        match self {
            Self::Identity | Self::Unknown => b"identity",
            Self::Gzip => b"gzip",
            Self::Zstd => b"zstd",
        }
    }

    pub(super) fn from_number(number: u64) -> Self {
        Self::KNOWN.get(number as usize).copied().unwrap_or(Self::Unknown)
    }
}

/// The set of compressions that a peer accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepted(pub(super) u8);

impl Accepted {
    /// Parses the value of a `grpc-accept-encoding` field: names joined by commas, unknown ones
    /// skipped.
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        let names = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let bit = |name: &[u8]| match Compression::parse(name) {
            Compression::Unknown => 0,
            known => 1 << known as u8,
        };
        Self(names.map(bit).fold(0, |set, bit| set | bit))
    }

    /// Whether messages may use this compression.
    #[must_use]
    pub fn contains(self, compression: Compression) -> bool {
        compression == Compression::Identity || self.0 & 1 << compression as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_parsed() {
        use ContentType::*;
        for (value, expected) in [
            ("application/grpc", Plain),
            ("application/grpc; charset=utf-8", Plain),
            ("application/grpc+proto", Proto),
            ("application/grpc+json ;x", Json),
            ("application/grpc+thrift", Unknown),
            ("Application/gRPC", Plain),
            ("APPLICATION/GRPC+Proto;X", Proto),
            ("application/grpc-web", NotGrpc),
            ("application/grpcx", NotGrpc),
            ("application/json", NotGrpc),
            ("", NotGrpc),
        ] {
            assert_eq!(ContentType::parse(value.as_bytes()), expected, "{value}");
            assert_eq!(ContentType::from_number(expected as u64), expected);
        }
        assert_eq!(ContentType::from_number(99), NotGrpc);
    }

    #[test]
    fn compressions_round_trip_through_their_names() {
        for compression in Compression::KNOWN {
            assert_eq!(Compression::parse(compression.name()), compression);
            assert_eq!(Compression::from_number(compression as u64), compression);
        }
        assert_eq!(Compression::parse(b"br"), Compression::Unknown);
        let accepted = Accepted::parse(b"identity, deflate,zstd");
        let has = [Compression::Identity, Compression::Gzip, Compression::Zstd];
        assert_eq!(has.map(|it| accepted.contains(it)), [true, false, true]);
        assert!(!accepted.contains(Compression::Unknown));
        assert!(Accepted::default().contains(Compression::Identity));
    }
}
