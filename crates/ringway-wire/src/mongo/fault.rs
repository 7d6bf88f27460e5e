//! What is wrong with a message.

use std::fmt;

/// The first thing that is wrong with what a peer has sent, or with a command that is to be sent.
///
/// Nothing is read behind a fault of the peer: whoever gets it closes the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MongoFault {
    /// A message is shorter than its parts.
    Length(i32),
    /// A message is longer than is taken or may be sent.
    TooLong {
        /// Bytes that it has, or claims to have.
        len: usize,
        /// Bytes that it may have.
        max: usize,
    },
    /// The opcode is none that a server answers with.
    Opcode(i32),
    /// A reply answers no command that waits.
    ResponseTo(i32),
    /// A bit of the flags is set that must be understood and is not.
    Flags(u32),
    /// A reply announces another one, and its command has allowed one only.
    MoreToCome,
    /// The kind of a section is unknown.
    SectionKind(u8),
    /// A section ends outside of its message, or its length is no length.
    Section,
    /// A message has no body, or several.
    Body,
    /// Bytes that claim to be a document are none.
    Document(&'static str),
    /// The checksum differs from that of the bytes.
    Checksum,
    /// The compressor is unknown, or was not agreed on.
    Compressor(u8),
    /// Compressed bytes do not become as many as are announced.
    Compressed,
    /// A document has more levels than are read.
    Nesting {
        /// Levels that it may have.
        max: usize,
    },
    /// A field of a reply is missing, or has another type.
    Field(&'static str),
}

impl fmt::Display for MongoFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(len) => write!(f, "a message of {len} bytes cannot hold its parts"),
            Self::TooLong { len, max } => {
                write!(f, "a message of {len} bytes is longer than {max} bytes")
            }
            Self::Opcode(opcode) => write!(f, "the opcode {opcode} is none of a reply"),
            Self::ResponseTo(id) => {
                write!(f, "a reply answers {id}, which is no command that waits")
            }
            Self::Flags(flags) => write!(f, "the flags {flags:#010x} contain an unknown bit"),
            Self::MoreToCome => {
                f.write_str("a reply announces another one that nobody has asked for")
            }
            Self::SectionKind(kind) => write!(f, "the section kind {kind} is unknown"),
            Self::Section => f.write_str("a section does not fit into its message"),
            Self::Body => f.write_str("a message needs exactly one body"),
            Self::Document(what) => write!(f, "{what} is not a BSON document"),
            Self::Checksum => f.write_str("the checksum does not match the message"),
            Self::Compressor(id) => write!(f, "the compressor {id} was not agreed on"),
            Self::Compressed => f.write_str("compressed bytes do not become what they announce"),
            Self::Nesting { max } => write!(f, "a document has more than {max} levels"),
            Self::Field(name) => write!(f, "the field `{name}` is missing or has a wrong type"),
        }
    }
}

impl std::error::Error for MongoFault {}
