//! OP_MSG: flags, one body, sequences of documents, and perhaps a checksum.

use std::ops::Range;

use bson::RawDocument;

use super::fault::MongoFault;
use super::op_header::HEADER_LEN;

/// The flags of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MsgFlags(u32);

impl MsgFlags {
    /// A CRC-32C of the message is behind its sections.
    pub const CHECKSUM_PRESENT: Self = Self(1);
    /// Another message follows without being asked for; in a command: no reply is wanted.
    pub const MORE_TO_COME: Self = Self(1 << 1);
    /// The server may answer with several messages.
    pub const EXHAUST_ALLOWED: Self = Self(1 << 16);
    /// No flag.
    pub const NONE: Self = Self(0);

    /// Bits that a receiver must understand.
    const REQUIRED: u32 = 0xFFFF;

    /// Whether all flags of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }

    fn read(bits: u32) -> Result<Self, MongoFault> {
        let known = Self::CHECKSUM_PRESENT.0 | Self::MORE_TO_COME.0;
        if bits & Self::REQUIRED & !known != 0 {
            return Err(MongoFault::Flags(bits));
        }
        Ok(Self(bits))
    }
}

const FLAGS_LEN: usize = 4;
const CHECKSUM_LEN: usize = 4;

/// One whole message, checked down to the ends of its documents.
#[derive(Debug, Clone)]
pub struct OpMsg<'a> {
    flags: MsgFlags,
    /// Where the body lies in the message.
    body: Range<usize>,
    message: &'a [u8],
    sections: &'a [u8],
}

impl<'a> OpMsg<'a> {
    /// Reads a message with its header, of which it is all. A checksum that is there must be right.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(message: &'a [u8]) -> Result<Self, MongoFault> {
        let short = || MongoFault::Length(i32::try_from(message.len()).unwrap_or(i32::MAX));
        let behind_header = message.get(HEADER_LEN..).ok_or_else(short)?;
        let (flags, mut sections) = behind_header.split_first_chunk().ok_or_else(short)?;
        let flags = MsgFlags::read(u32::from_le_bytes(*flags))?;
        if flags.has(MsgFlags::CHECKSUM_PRESENT) {
            let (rest, sum) = sections.split_last_chunk().ok_or_else(short)?;
            if crc32c::crc32c(&message[..message.len() - CHECKSUM_LEN]) != u32::from_le_bytes(*sum)
            {
                return Err(MongoFault::Checksum);
            }
            sections = rest;
        }
        let mut body = None;
        let mut rest = sections;
        while let Some(section) = read_section(&mut rest)? {
            if let Section::Body(document) = section {
                let end = HEADER_LEN + FLAGS_LEN + sections.len() - rest.len();
                let range = end - document.as_bytes().len()..end;
                if body.replace(range).is_some() {
                    return Err(MongoFault::Body);
                }
            }
        }
        Ok(Self { flags, body: body.ok_or(MongoFault::Body)?, message, sections })
    }

    /// The flags.
    #[must_use]
    pub fn flags(&self) -> MsgFlags {
        self.flags
    }

    /// The document of the one section of kind 0.
    #[must_use]
    pub fn body(&self) -> &'a RawDocument {
        document_at(self.message, &self.body)
    }

    /// Where the body lies in the message.
    #[must_use]
    pub fn body_range(&self) -> Range<usize> {
        self.body.clone()
    }

    /// The sections of kind 1, in their order.
    pub fn sequences(&self) -> impl Iterator<Item = DocumentSequence<'a>> + use<'a> {
        let mut rest = self.sections;
        std::iter::from_fn(move || {
            loop {
                match read_section(&mut rest).expect("checked by `read`")? {
                    Section::Body(_) => {}
                    Section::Sequence(sequence) => return Some(sequence),
                }
            }
        })
    }
}

/// The document at a range that was checked by [`OpMsg::read`].
pub(super) fn document_at<'a>(message: &'a [u8], range: &Range<usize>) -> &'a RawDocument {
    RawDocument::from_bytes(&message[range.clone()]).expect("checked when the message was read")
}

/// Documents that belong into an array of the body.
#[derive(Debug, Clone, Copy)]
pub struct DocumentSequence<'a> {
    identifier: &'a str,
    bytes: &'a [u8],
}

impl<'a> DocumentSequence<'a> {
    /// The field of the body that they belong to, such as `documents`.
    #[must_use]
    pub fn identifier(&self) -> &'a str {
        self.identifier
    }

    /// The documents.
    pub fn documents(&self) -> impl Iterator<Item = &'a RawDocument> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| read_document(&mut rest).expect("checked with its message"))
        })
    }
}

enum Section<'a> {
    Body(&'a RawDocument),
    Sequence(DocumentSequence<'a>),
}

/// Takes a section off the front of `rest`; `None` if there is none.
fn read_section<'a>(rest: &mut &'a [u8]) -> Result<Option<Section<'a>>, MongoFault> {
    let Some((&kind, behind)) = rest.split_first() else { return Ok(None) };
    *rest = behind;
    match kind {
        0 => Ok(Some(Section::Body(read_document(rest)?))),
        1 => Ok(Some(Section::Sequence(read_sequence(rest)?))),
        other => Err(MongoFault::SectionKind(other)),
    }
}

fn read_sequence<'a>(rest: &mut &'a [u8]) -> Result<DocumentSequence<'a>, MongoFault> {
    let section = split_by_length(rest).ok_or(MongoFault::Section)?;
    let section = &section[4..];
    let end = memchr::memchr(0, section).ok_or(MongoFault::Section)?;
    let identifier = std::str::from_utf8(&section[..end]).map_err(|_| MongoFault::Section)?;
    let bytes = &section[end + 1..];
    let mut documents = bytes;
    while !documents.is_empty() {
        read_document(&mut documents)?;
    }
    Ok(DocumentSequence { identifier, bytes })
}

fn read_document<'a>(rest: &mut &'a [u8]) -> Result<&'a RawDocument, MongoFault> {
    let bytes = split_by_length(rest).ok_or(MongoFault::Section)?;
    RawDocument::from_bytes(bytes).map_err(|_| MongoFault::Document("a section"))
}

/// Takes as many bytes off the front of `rest` as the number there says, which is one of them.
fn split_by_length<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, _) = rest.split_first_chunk()?;
    let len = usize::try_from(i32::from_le_bytes(*len)).ok().filter(|len| *len >= 4)?;
    let (front, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(front)
}
