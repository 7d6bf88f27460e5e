//! What header fields mean to us, found once for each entry of a table.

use std::fmt;

use super::field_check;
use super::fields::field_size;
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

/// What a resolver says of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What it means.
    pub value: u64,
    /// Whether the text is wanted as well, among the fields of no concern.
    pub keep: bool,
}

/// Knows the fields that an endpoint cares for.
///
/// It is asked once for each field that is put into a table. Of a field that is sent with the name of a
/// table's entry, only the value is new.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The key of a field with this name; `None`: it is of no concern, and kept as it is. Names that
    /// HTTP/2 itself cares for have [keys](Key) already.
    fn key(&self, name: &[u8]) -> Option<Key>;

    /// What the value of a field means: one with a key of its own, `:path`, `:scheme` or
    /// `:authority`, or another that HTTP/2 cares for, of which only `keep` matters.
    fn value(&self, key: Key, value: &[u8]) -> Known;
}

/// What is known of a field by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameClass {
    key: Key,
    /// A set of the flags below.
    flags: u8,
    /// With [`MALFORMED`]: the number of the fault.
    fault: u8,
}

/// The meaning of a field, as tables keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) value: u64,
    pub(super) key: Key,
    /// A set of the flags below; most fields of most calls have [`KEYED`] alone.
    pub(super) flags: u8,
    /// What it adds to the bits of a [`Head`](super::Head), and which of these it may not follow.
    pub(super) sets: u32,
    pub(super) forbids: u32,
}

/// Bits of a head above those of the keys: there was a regular field, after which no pseudo-field may
/// come; and one that is always there, so that what is not simply noted is looked at more closely.
pub(super) const REGULAR: u32 = 1 << 30;
pub(super) const ALWAYS: u32 = 1 << 31;

impl Meaning {
    fn new(value: u64, key: Key, flags: u8) -> Self {
        let bit = 1 << key.0;
        let (sets, forbids) = match flags {
            // A second one has to say the same.
            KEYED if key == Key::CONTENT_LENGTH => (bit | REGULAR, bit),
            KEYED => (bit | REGULAR, 0),
            _ if flags == KEYED | PSEUDO => (bit, bit | REGULAR),
            _ => (0, ALWAYS),
        };
        Self { value, key, flags, sets, forbids }
    }
}

/// The field may not be there at all; the value of its meaning is the number of the fault.
pub(super) const MALFORMED: u8 = 1;
/// Its name begins with a colon.
pub(super) const PSEUDO: u8 = 2;
/// Its text is to be kept.
pub(super) const KEPT: u8 = 4;
/// It has a key.
pub(super) const KEYED: u8 = 8;

/// An entry of the static table.
#[derive(Debug, Clone, Copy)]
pub(super) struct StaticEntry {
    pub(super) class: NameClass,
    pub(super) meaning: Meaning,
    pub(super) size: u32,
}

/// A resolver together with what it says of the static table: made once, for all connections.
#[derive(Debug)]
pub struct Vocabulary {
    resolver: Box<dyn Resolver>,
    static_entries: [StaticEntry; STATIC_LEN],
}

impl Vocabulary {
    /// What `resolver` knows.
    #[must_use]
    pub fn new(resolver: impl Resolver + 'static) -> Self {
        let static_entries = STATIC_TABLE.map(|(name, value)| {
            let class = class_of(&resolver, name);
            let meaning = meaning_of(&resolver, class, value);
            let size = field_size(name.len(), value.len()) as u32;
            StaticEntry { class, meaning, size }
        });
        Self { resolver: Box::new(resolver), static_entries }
    }

    /// An entry of the static table, from 0.
    #[inline]
    pub(super) fn static_entry(&self, at: usize) -> &StaticEntry {
        &self.static_entries[at]
    }

    /// What is known of a name.
    pub(super) fn class(&self, name: &[u8]) -> NameClass {
        class_of(&*self.resolver, name)
    }

    /// What a field of that name means.
    #[inline]
    pub(super) fn meaning(&self, class: NameClass, value: &[u8]) -> Meaning {
        meaning_of(&*self.resolver, class, value)
    }
}

fn class_of(resolver: &dyn Resolver, name: &[u8]) -> NameClass {
    let pseudo = if name.first() == Some(&b':') { PSEUDO } else { 0 };
    if let Err(violation) = field_check::check_name(name) {
        let fault = field_check::fault_number(violation);
        return NameClass { key: Key::NONE, flags: MALFORMED | pseudo, fault };
    }
    let key = match name {
        b":method" => Key::METHOD,
        b":scheme" => Key::SCHEME,
        b":authority" => Key::AUTHORITY,
        b":path" => Key::PATH,
        b":status" => Key::STATUS,
        b"content-length" => Key::CONTENT_LENGTH,
        b"te" => Key::TE,
        _ => match resolver.key(name) {
            None => return NameClass { key: Key::NONE, flags: KEPT, fault: 0 },
            Some(key) => key,
        },
    };
    NameClass { key, flags: KEYED | pseudo, fault: 0 }
}

fn meaning_of(resolver: &dyn Resolver, class: NameClass, value: &[u8]) -> Meaning {
    let NameClass { key, flags, fault } = class;
    if flags & MALFORMED != 0 {
        return Meaning::new(fault.into(), key, flags);
    }
    if let Err(violation) = field_check::check_value(key, value) {
        let fault = field_check::fault_number(violation);
        return Meaning::new(fault.into(), key, MALFORMED | flags & PSEUDO);
    }
    if flags & KEYED == 0 {
        return Meaning::new(0, key, flags);
    }
    let known = resolver.value(key, value);
    let value = match key {
        Key::METHOD => Method::parse(value) as u64,
        Key::STATUS | Key::CONTENT_LENGTH => field_check::number(value).unwrap_or_default(),
        _ => known.value,
    };
    Meaning::new(value, key, flags | if known.keep { KEPT } else { 0 })
}
