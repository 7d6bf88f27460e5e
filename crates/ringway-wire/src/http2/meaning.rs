//! What header fields mean to us, found once for each entry of a table.

use std::fmt;

use super::field_check;
use super::hpack::{STATIC_LEN, STATIC_TABLE};

/// Which of the fields that an endpoint cares for a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(pub(super) u8);

/// Keys that a [`Head`](super::Head) has room for.
pub(super) const KEYS: usize = 16;

impl Key {
    /// `:method`; its value is a [`Method`] as a number.
    pub const METHOD: Self = Self(0);
    /// `:scheme`.
    pub const SCHEME: Self = Self(1);
    /// `:authority`.
    pub const AUTHORITY: Self = Self(2);
    /// `:path`; its value is what the [`Resolver`] says.
    pub const PATH: Self = Self(3);
    /// `:status`; its value is the number.
    pub const STATUS: Self = Self(4);
    /// `content-length`; its value is the number.
    pub const CONTENT_LENGTH: Self = Self(5);
    /// `te: trailers`.
    pub const TE: Self = Self(6);

    /// The key of a pseudo-field that no request or response has.
    pub(super) const NONE: Self = Self(7);

    /// One of the eight keys, 0 to 7, that a resolver gives meanings of its own.
    #[must_use]
    pub const fn own(number: u8) -> Self {
        assert!(number < 8, "eight keys belong to the resolver");
        Self(8 + number)
    }
}

/// A request's method, as far as it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// POST, what calls are made with.
    Post,
    /// GET.
    Get,
    /// CONNECT, which has no path.
    Connect,
    /// Any other.
    Other,
}

impl Method {
    fn parse(name: &[u8]) -> Self {
        match name {
            b"POST" => Self::Post,
            b"GET" => Self::Get,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }
}

/// What a resolver says of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Where a [`Head`](super::Head) has it. For pseudo-fields, the key is that of the field itself.
    pub key: Key,
    /// What it means.
    pub value: u64,
    /// Whether the text is wanted as well, among the fields of no concern.
    pub keep: bool,
}

/// Knows the fields that an endpoint cares for.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// What this field means; `None`: it is of no concern, and kept as it is.
    ///
    /// It is asked once for each field that is put into a table, and each time for others. For
    /// pseudo-fields `None` means that the text is of no use either.
    fn resolve(&self, name: &[u8], value: &[u8]) -> Option<Known>;
}

/// The meaning of a field, as tables keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) value: u64,
    pub(super) key: Key,
    /// A set of the flags below; most fields of most calls have none.
    pub(super) flags: u8,
}

/// The field may not be there at all; `value` is the index of its fault.
pub(super) const MALFORMED: u8 = 1;
/// Its name begins with a colon.
pub(super) const PSEUDO: u8 = 2;
/// Its text is to be kept.
pub(super) const KEPT: u8 = 4;
/// It has a key.
pub(super) const KEYED: u8 = 8;

/// A resolver together with what it says of the static table: made once, for all connections.
#[derive(Debug)]
pub struct Vocabulary {
    resolver: Box<dyn Resolver>,
    static_meanings: [Meaning; STATIC_LEN],
}

impl Vocabulary {
    /// What `resolver` knows.
    #[must_use]
    pub fn new(resolver: impl Resolver + 'static) -> Self {
        let unknown = Meaning { value: 0, key: Key::NONE, flags: KEPT };
        let mut vocabulary =
            Self { resolver: Box::new(resolver), static_meanings: [unknown; STATIC_LEN] };
        for (at, (name, value)) in STATIC_TABLE.iter().enumerate() {
            vocabulary.static_meanings[at] = vocabulary.meaning(name, value);
        }
        vocabulary
    }

    /// The meaning of an entry of the static table, from 0.
    #[inline]
    pub(super) fn of_static(&self, at: usize) -> Meaning {
        self.static_meanings[at]
    }

    /// The meaning of a field.
    pub(super) fn meaning(&self, name: &[u8], value: &[u8]) -> Meaning {
        if let Err(violation) = field_check::check(name, value) {
            let flags = MALFORMED | if name.first() == Some(&b':') { PSEUDO } else { 0 };
            let value = u64::from(field_check::fault_number(violation));
            return Meaning { value, key: Key::NONE, flags };
        }
        let known = self.resolver.resolve(name, value);
        let (key, own_value) = match name {
            b":method" => (Key::METHOD, Method::parse(value) as u64),
            b":scheme" => (Key::SCHEME, 0),
            b":authority" => (Key::AUTHORITY, 0),
            b":path" => (Key::PATH, 0),
            b":status" => (Key::STATUS, field_check::number(value).unwrap_or_default()),
            b"content-length" => {
                (Key::CONTENT_LENGTH, field_check::number(value).unwrap_or_default())
            }
            b"te" => (Key::TE, 0),
            _ => return regular(known),
        };
        let value = match key {
            Key::SCHEME | Key::AUTHORITY | Key::PATH => known.map_or(own_value, |k| k.value),
            _ => own_value,
        };
        let pseudo = if name[0] == b':' { PSEUDO } else { 0 };
        let kept = if known.is_some_and(|known| known.keep) { KEPT } else { 0 };
        Meaning { value, key, flags: KEYED | pseudo | kept }
    }
}

/// The meaning of a field that HTTP/2 itself does not care for.
fn regular(known: Option<Known>) -> Meaning {
    match known {
        None => Meaning { value: 0, key: Key::NONE, flags: KEPT },
        Some(Known { key, value, keep }) => {
            Meaning { value, key, flags: KEYED | if keep { KEPT } else { 0 } }
        }
    }
}
