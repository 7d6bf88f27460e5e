//! The fields of one message: their combined meaning, and the texts that are kept.

use super::Violation;
use super::blanks::without_blanks;
use super::field_check;
use super::hpack::ENTRY_OVERHEAD;
use super::meaning::{ALWAYS, KEPT, KEYED, KEYS, Key, MALFORMED, Meaning, PSEUDO, REGULAR};
use super::texts::Texts;

/// The known fields of a message, as numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Head {
    values: [u64; KEYS],
    /// One bit for each key that is present, and the bits defined in [`meaning`](super::meaning).
    bits: u32,
}

impl Head {
    /// The value of `key`, if the message has that field.
    #[inline]
    #[must_use]
    pub fn value(&self, key: Key) -> Option<u64> {
        self.has(key).then(|| self.values[usize::from(key.0)])
    }

    /// Whether the message has the field `key`.
    #[inline]
    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        self.bits & 1 << key.0 != 0
    }

    /// Whether the message has exactly these pseudo-fields, with or without `:authority`.
    #[inline]
    pub(super) fn has_pseudo_exactly(&self, keys: &[Key]) -> bool {
        let wanted = keys.iter().fold(0, |set, key| set | 1 << key.0);
        self.bits & PSEUDO_KEYS & !(1 << Key::AUTHORITY.0) == wanted
    }

    /// Whether the message has no pseudo-field.
    pub(super) fn has_no_pseudo(&self) -> bool {
        self.bits & PSEUDO_KEYS == 0
    }

    #[inline]
    fn set(&mut self, key: Key, value: u64) {
        self.values[usize::from(key.0) % KEYS] = value;
        self.bits |= 1 << key.0;
    }
}

const PSEUDO_KEYS: u32 = 1 << Key::METHOD.0
    | 1 << Key::SCHEME.0
    | 1 << Key::AUTHORITY.0
    | 1 << Key::PATH.0
    | 1 << Key::STATUS.0;

/// The state after the first fields of a message were [noted](Fields::note).
#[derive(Debug, Clone, Copy)]
pub(super) struct Noted {
    head: Head,
    size: usize,
}

/// The fields of one message, in memory that is reused for the next.
#[derive(Debug, Default)]
pub struct Fields {
    pub(super) head: Head,
    texts: Vec<u8>,
    lens: Vec<(u32, u32)>,
    size: usize,
    size_max: usize,
    /// Whether fields were dropped because the list is too large.
    is_cut: bool,
    fault: Option<Violation>,
    /// All fields as texts, if they are wanted.
    whole: Option<Box<Texts>>,
}

impl Fields {
    /// The fields of a connection that has received none.
    pub(super) const NONE: Self = Self {
        head: Head { values: [0; KEYS], bits: 0 },
        texts: Vec::new(),
        lens: Vec::new(),
        size: 0,
        size_max: 0,
        is_cut: false,
        fault: None,
        whole: None,
    };

    /// Creates storage for `size_max` bytes of fields, counted as the setting does: with 32 for
    /// each field.
    #[must_use]
    pub fn new(size_max: usize) -> Self {
        Self { size_max, ..Self::default() }
    }

    /// The known fields.
    #[inline]
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The names and values of the other fields, in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.texts[..];
        self.lens.iter().map(move |&(name, value)| {
            let (text, behind) = rest.split_at((name + value) as usize);
            rest = behind;
            text.split_at(name as usize)
        })
    }

    /// Whether there are no other fields.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Whether the fields exceeded the size limit; those beyond are missing.
    #[inline]
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Bytes of fields that the limit leaves beside these.
    pub(crate) fn room_left(&self) -> usize {
        self.size_max.saturating_sub(self.size)
    }

    /// The first violation of a field, or of the order of fields.
    #[inline]
    #[must_use]
    pub fn fault(&self) -> Option<Violation> {
        self.fault
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.head.bits = ALWAYS;
        self.texts.clear();
        self.lens.clear();
        (self.size, self.is_cut, self.fault) = (0, false, None);
        if let Some(whole) = &mut self.whole {
            whole.clear();
        }
    }

    /// Whether all fields are kept as texts.
    #[inline]
    pub(super) fn keeps_texts(&self) -> bool {
        self.whole.is_some()
    }

    /// Sets whether all fields are kept as texts, from the next message on.
    pub(super) fn keep_texts(&mut self, is_wanted: bool) {
        self.whole = is_wanted.then(Box::default);
    }

    /// Takes the texts of all fields, which the limit has not cut off.
    pub(crate) fn take_texts(&mut self) -> Box<Texts> {
        self.whole.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The texts of a message that was decoded without them, to be filled from now on.
    pub(super) fn texts_mut(&mut self) -> &mut Texts {
        self.whole.get_or_insert_default()
    }

    /// Adds a field of `size` bytes if only its meaning matters: a known field, or a pseudo-field
    /// before all others. `false` leaves the state unchanged for [`add`](Self::add).
    #[inline(always)]
    pub(super) fn note(&mut self, meaning: &Meaning, size: u32) -> bool {
        let size = self.size + size as usize;
        if size > self.size_max || self.head.bits & meaning.forbids != 0 {
            return false;
        }
        self.size = size;
        self.head.bits |= meaning.sets;
        self.head.values[usize::from(meaning.key.0) % KEYS] = meaning.value;
        true
    }

    /// A copy of the state, valid if all fields so far were [noted](Self::note).
    pub(super) fn noted(&self) -> Noted {
        Noted { head: self.head, size: self.size }
    }

    /// Restores a copied state, as the first fields of a message.
    #[inline]
    pub(super) fn restore(&mut self, noted: &Noted) {
        (self.head, self.size) = (noted.head, noted.size);
    }

    /// Adds a field of `size` bytes. `true` means that its text must be [kept](Self::keep).
    pub(super) fn add(&mut self, meaning: Meaning, size: u32) -> bool {
        if self.note(&meaning, size) {
            return false;
        }
        self.size += size as usize;
        if self.size > self.size_max {
            self.is_cut = true;
            return false;
        }
        self.add_other(meaning)
    }

    #[cold]
    fn add_other(&mut self, meaning: Meaning) -> bool {
        let flags = meaning.flags;
        if flags & MALFORMED != 0 {
            self.blame(field_check::fault(meaning.value));
            return true;
        }
        if flags & PSEUDO == 0 {
            self.head.bits |= REGULAR;
        } else if self.head.bits & REGULAR != 0 || self.head.has(meaning.key) {
            self.blame(Violation::BadPseudoField);
        }
        let length = self.head.value(Key::CONTENT_LENGTH);
        if meaning.key == Key::CONTENT_LENGTH && length.is_some_and(|it| it != meaning.value) {
            self.blame(Violation::BadContentLength);
        }
        if flags & KEYED != 0 {
            self.head.set(meaning.key, meaning.value);
        }
        flags & KEPT != 0
    }

    fn blame(&mut self, violation: Violation) {
        self.fault.get_or_insert(violation);
    }

    /// Keeps the text of a field that was [added](Self::add).
    #[inline]
    pub(super) fn keep_text(&mut self, is_kept: bool, name: &[u8], value: &[u8]) {
        if self.whole.is_some() {
            self.keep_whole(name, value);
        }
        if is_kept {
            self.keep(name, value);
        }
    }

    #[cold]
    fn keep_whole(&mut self, name: &[u8], value: &[u8]) {
        if let Some(whole) = self.whole.as_mut().filter(|_| !self.is_cut) {
            whole.push(name, value);
        }
    }

    pub(super) fn keep(&mut self, name: &[u8], value: &[u8]) {
        let value = without_blanks(value);
        self.texts.extend_from_slice(name);
        self.texts.extend_from_slice(value);
        self.lens.push((name.len() as u32, value.len() as u32));
    }
}

/// Size of a field in bytes, as tables and limits count it.
#[inline]
pub(crate) fn field_size(name: usize, value: usize) -> usize {
    name + value + ENTRY_OVERHEAD
}
