//! The meanings of header fields, which are found once for each entry of a table.

use std::fmt;

use super::blanks::without_blanks;
use super::field_check;
use super::fields::{Head, field_size};
use super::hpack::{STATIC_LEN, STATIC_TABLE};

/// The key of a known field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(pub(super) u8);

/// Number of keys that a [`Head`](super::Head) can hold.
pub(super) const KEYS: usize = 16;

impl Key {
    /// `:method`; its value is the number of a [`Method`].
    pub const METHOD: Self = Self(0);
    /// `:scheme`.
    pub const SCHEME: Self = Self(1);
    /// `:authority`.
    pub const AUTHORITY: Self = Self(2);
    /// `:path`; its value comes from the [`Resolver`].
    pub const PATH: Self = Self(3);
    /// `:status`; its value is the number.
    pub const STATUS: Self = Self(4);
    /// `content-length`; its value is the number.
    pub const CONTENT_LENGTH: Self = Self(5);
    /// `te: trailers`.
    pub const TE: Self = Self(6);

    /// The key of pseudo-fields that no request or response has.
    pub(super) const NONE: Self = Self(7);

    /// Whether HTTP/2 itself interprets the field.
    #[inline]
    pub(super) const fn is_of_http2(self) -> bool {
        self.0 < Self::NONE.0
    }

    /// One of the eight keys, 0 to 7, whose meanings the resolver defines.
    #[must_use]
    pub const fn own(number: u8) -> Self {
        assert!(number < 8, "eight keys belong to the resolver");
        Self(8 + number)
    }
}

/// A request's method, if it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// POST, the method of calls.
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

/// A resolver's answer about the value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The meaning of the value, as a number.
    pub value: u64,
    /// Whether the text is also kept among the other fields.
    pub keep: bool,
}

/// Defines the fields that an endpoint knows.
///
/// It is called once for each field that enters a table. A field sent with the name of a table
/// entry only needs its value resolved.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The key of a field with this name; `None` keeps the field as text. Names that HTTP/2 itself
    /// interprets have [keys](Key) already.
    fn key(&self, name: &[u8]) -> Option<Key>;

    /// Resolves the value of a field with one of the resolver's keys, `:path`, `:scheme` or
    /// `:authority`. It is also called for other fields that HTTP/2 interprets, where only `keep`
    /// matters.
    fn value(&self, key: Key, value: &[u8]) -> Known;

    /// What tells calls from other requests, for a server that answers both: a POST is a call if
    /// this key has a value below the number. `None` makes all requests calls.
    fn calls(&self) -> Option<(Key, u64)> {
        None
    }
}

/// The properties of a field that follow from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameClass {
    key: Key,
    /// A set of the flags defined below.
    flags: u8,
    /// The number of the violation, with [`MALFORMED`].
    fault: u8,
}

/// The meaning of a field, as tables store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) value: u64,
    pub(super) key: Key,
    /// A set of the flags defined below; most fields have [`KEYED`] alone.
    pub(super) flags: u8,
    /// Bits that the field adds to those of a [`Head`](super::Head).
    pub(super) sets: u32,
    /// Bits of a [`Head`](super::Head) that the field must not follow.
    pub(super) forbids: u32,
}

/// A meaning without what follows from the rest.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedMeaning {
    /// The value as bytes, so that it may stand anywhere.
    value: [u8; 8],
    key: Key,
    flags: u8,
}

impl PackedMeaning {
    #[inline]
    pub(super) fn unpack(self) -> Meaning {
        Meaning::new(u64::from_ne_bytes(self.value), self.key, self.flags)
    }
}

/// The bit of a head that says that there was a regular field, after which no pseudo-field may
/// follow.
pub(super) const REGULAR: u32 = 1 << 30;
/// The bit that every head has, so that a meaning which forbids it always takes the slow path.
pub(super) const ALWAYS: u32 = 1 << 31;

impl Meaning {
    pub(super) fn pack(self) -> PackedMeaning {
        PackedMeaning { value: self.value.to_ne_bytes(), key: self.key, flags: self.flags }
    }

    #[inline]
    fn new(value: u64, key: Key, flags: u8) -> Self {
        let bit = 1 << key.0;
        let (sets, forbids) = match flags {
            // A repeated content-length must have the same value.
            KEYED if key == Key::CONTENT_LENGTH => (bit | REGULAR, bit),
            KEYED => (bit | REGULAR, 0),
            _ if flags == KEYED | PSEUDO => (bit, bit | REGULAR),
            _ => (0, ALWAYS),
        };
        Self { value, key, flags, sets, forbids }
    }
}

/// The field is forbidden; its meaning's value is the number of the violation.
pub(super) const MALFORMED: u8 = 1;
/// The name starts with a colon.
pub(super) const PSEUDO: u8 = 2;
/// The text is kept.
pub(super) const KEPT: u8 = 4;
/// The field has a key.
pub(super) const KEYED: u8 = 8;

/// An entry of the static table.
#[derive(Debug, Clone, Copy)]
pub(super) struct StaticEntry {
    pub(super) class: NameClass,
    pub(super) meaning: Meaning,
    pub(super) size: u32,
}

/// A resolver with its answers for the static table, made once for all connections.
#[derive(Debug)]
pub struct Vocabulary {
    resolver: Box<dyn Resolver>,
    /// What the resolver says of [calls](Resolver::calls).
    calls: Option<(Key, u64)>,
    static_entries: [StaticEntry; STATIC_LEN],
}

impl Vocabulary {
    /// Creates a vocabulary from `resolver`.
    #[must_use]
    pub fn new(resolver: impl Resolver + 'static) -> Self {
        let static_entries = STATIC_TABLE.map(|(name, value)| {
            let class = class_of(&resolver, name);
            let meaning = meaning_of(&resolver, class, value);
            let size = field_size(name.len(), value.len()) as u32;
            StaticEntry { class, meaning, size }
        });
        let calls = resolver.calls();
        Self { resolver: Box::new(resolver), calls, static_entries }
    }

    /// Whether a request with this head is no call.
    #[inline]
    pub(super) fn is_foreign(&self, head: &Head) -> bool {
        self.calls.is_some_and(|(key, below)| {
            let is_call = head.value(key).is_some_and(|value| value < below)
                && head.value(Key::METHOD) == Some(Method::Post as u64);
            !is_call
        })
    }

    /// The entry of the static table at index `at`, which starts at 0.
    #[inline]
    pub(super) fn static_entry(&self, at: usize) -> &StaticEntry {
        &self.static_entries[at]
    }

    /// The properties of a field with this name.
    pub(super) fn class(&self, name: &[u8]) -> NameClass {
        class_of(&*self.resolver, name)
    }

    /// The meaning of a field with this class and value.
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
    let known = resolver.value(key, without_blanks(value));
    let value = match key {
        Key::METHOD => Method::parse(value) as u64,
        Key::STATUS | Key::CONTENT_LENGTH => field_check::number(value).unwrap_or_default(),
        _ => known.value,
    };
    Meaning::new(value, key, flags | if known.keep { KEPT } else { 0 })
}
