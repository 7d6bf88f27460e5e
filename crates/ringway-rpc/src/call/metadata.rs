//! Metadata of calls.

use std::fmt;

use bytes::Bytes;
use ringway_wire::native::{MetaReader, MetaWriter, Tag};

use crate::call::status::Status;
use crate::limits;

/// Keys and values beside the messages of a call, in order; a key may repeat.
///
/// The rules are gRPC's, so that every protocol can carry them. Keys consist of `a-z 0-9 - _ .`;
/// upper case is converted to lower case. Values are printable ASCII, and any bytes for keys that
/// end in `-bin`. Keys that begin with `grpc-` or `ringway-` are reserved. Over gRPC, spaces at the
/// ends of a value are removed, and keys that HTTP uses itself (`connection`, `te`, `host`) are not
/// sent. All entries together have at most 16 KiB. Empty metadata does not allocate.
///
/// ```
/// use ringway_rpc::Metadata;
///
/// let mut metadata = Metadata::new();
/// metadata.insert("tenant", "blue")?;
/// metadata.append("seen-bin", [1, 2, 255])?;
/// assert_eq!(metadata.get("Tenant"), Some("blue"));
/// assert_eq!(metadata.get_bin("seen-bin"), Some(&[1, 2, 255][..]));
/// # Ok::<(), ringway_rpc::InvalidMetadata>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    entries: Vec<MetadataEntry>,
    /// The size of all entries, kept so that adding one need not iterate over the others.
    size: usize,
}

#[derive(Clone, PartialEq, Eq)]
struct MetadataEntry {
    key: Box<str>,
    value: Bytes,
}

/// Why an entry cannot be added to [`Metadata`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidMetadata {
    /// The key is empty or has a character that is not `a-z 0-9 - _ .`.
    Key,
    /// The key begins with `grpc-` or `ringway-`.
    ReservedKey,
    /// The value is not printable ASCII, and the key does not end in `-bin`.
    Value,
    /// All entries together would exceed 16 KiB.
    TooLarge,
}

impl Metadata {
    /// Memory, in bytes, that the entries take, about.
    pub(crate) fn memory(&self) -> usize {
        self.size + self.entries.len() * limits::METADATA_ENTRY_COST
    }

    /// Makes empty metadata without allocating.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), size: 0 }
    }

    /// Sets a key to one value and removes its former values.
    ///
    /// # Errors
    /// Fails when the key or the value breaks the rules, or all entries would be too large. Then
    /// nothing changes.
    pub fn insert(&mut self, key: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidMetadata> {
        let entry = MetadataEntry::checked(key, value.as_ref())?;
        let replaced = self.entries.iter().filter(|other| other.key == entry.key);
        check_size(self.size - replaced.map(MetadataEntry::size).sum::<usize>(), &entry)?;
        self.remove(&entry.key);
        self.push(entry);
        Ok(())
    }

    /// Adds another value of a key.
    ///
    /// # Errors
    /// Fails like [`insert`](Self::insert).
    pub fn append(&mut self, key: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidMetadata> {
        let entry = MetadataEntry::checked(key, value.as_ref())?;
        check_size(self.size, &entry)?;
        self.push(entry);
        Ok(())
    }

    /// Removes all values of a key; returns whether there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        let (before, size) = (self.entries.len(), &mut self.size);
        self.entries.retain(|entry| {
            let goes = entry.key.eq_ignore_ascii_case(key);
            *size -= if goes { entry.size() } else { 0 };
            !goes
        });
        self.entries.len() < before
    }

    /// Returns the first value of a key that does not end in `-bin`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let value = self.first(key).filter(|_| !is_binary(key))?;
        str::from_utf8(value).ok()
    }

    /// Returns the first value of a key that ends in `-bin`.
    pub fn get_bin(&self, key: &str) -> Option<&[u8]> {
        self.first(key).filter(|_| is_binary(key))
    }

    /// Returns all values of a key, in order.
    pub fn get_all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        let with_key = self.entries.iter().filter(move |e| e.key.eq_ignore_ascii_case(key));
        with_key.map(|entry| &*entry.value)
    }

    /// Returns all entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries.iter().map(|entry| (&*entry.key, &*entry.value))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends the entries in the form of the native protocol.
    pub(crate) fn write(&self, meta: &mut MetaWriter<'_>) {
        for (key, value) in self.iter() {
            match key {
                AUTHORIZATION => meta.authorization(value),
                _ => meta.entry(key, value),
            };
        }
    }

    /// Reads the entries from the metadata of a frame; other fields are skipped.
    ///
    /// # Errors
    /// INTERNAL when the metadata is truncated, INVALID_ARGUMENT when an entry breaks the rules.
    pub(crate) fn of_wire(meta: &[u8]) -> Result<Self, Status> {
        let mut metadata = Self::new();
        for piece in MetaReader::new(meta) {
            let (tag, value) = piece?;
            metadata.read(tag, value)?;
        }
        Ok(metadata)
    }

    /// Reads the entries from the metadata of a frame as far as they can be read, and skips those that break the
    /// rules.
    pub(crate) fn readable_of_wire(meta: &[u8]) -> Self {
        let mut metadata = Self::new();
        for (tag, value) in MetaReader::new(meta).map_while(Result::ok) {
            let _skipped = metadata.read(tag, value);
        }
        metadata
    }

    /// Adds one field of a frame's metadata if it is an entry.
    pub(crate) fn read(&mut self, tag: Tag, value: &[u8]) -> Result<(), Status> {
        match tag {
            Tag::Authorization => self.append(AUTHORIZATION, value)?,
            Tag::Entry => {
                let (key, value) = MetaReader::entry(value)?;
                let key = str::from_utf8(key).map_err(|_| InvalidMetadata::Key)?;
                self.append(key, value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn first(&self, key: &str) -> Option<&[u8]> {
        let entry = self.entries.iter().find(|entry| entry.key.eq_ignore_ascii_case(key))?;
        Some(&entry.value)
    }

    fn push(&mut self, entry: MetadataEntry) {
        self.size += entry.size();
        self.entries.push(entry);
    }
}

/// The key that has its own tag in the native protocol.
const AUTHORIZATION: &str = "authorization";

impl MetadataEntry {
    fn checked(key: &str, value: &[u8]) -> Result<Self, InvalidMetadata> {
        let key = key.to_ascii_lowercase();
        let allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
        if key.is_empty() || !key.bytes().all(allowed) {
            return Err(InvalidMetadata::Key);
        }
        if key.starts_with("grpc-") || key.starts_with("ringway-") {
            return Err(InvalidMetadata::ReservedKey);
        }
        if !is_binary(&key) && !value.iter().all(|byte| matches!(byte, 0x20..=0x7E)) {
            return Err(InvalidMetadata::Value);
        }
        Ok(Self { key: key.into(), value: Bytes::copy_from_slice(value) })
    }

    fn size(&self) -> usize {
        self.key.len() + self.value.len() + ENTRY_OVERHEAD
    }
}

/// The bytes of an entry on the wire besides key and value: a tag and two lengths.
const ENTRY_OVERHEAD: usize = 7;

fn is_binary(key: &str) -> bool {
    key.len() >= 4 && key.as_bytes()[key.len() - 4..].eq_ignore_ascii_case(b"-bin")
}

fn check_size(others: usize, entry: &MetadataEntry) -> Result<(), InvalidMetadata> {
    match others + entry.size() <= limits::METADATA_BYTES_MAX {
        true => Ok(()),
        false => Err(InvalidMetadata::TooLarge),
    }
}

/// Prints only the keys, because values may contain credentials.
impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metadata")?;
        f.debug_list().entries(self.entries.iter().map(|entry| &entry.key)).finish()
    }
}

impl fmt::Display for InvalidMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "a metadata key consists of a-z, 0-9, '-', '_' and '.'",
            Self::ReservedKey => "metadata keys that begin with grpc- or ringway- are reserved",
            Self::Value => "a metadata value is printable ASCII, unless its key ends in -bin",
            Self::TooLarge => "the metadata of a call is at most 16 KiB",
        })
    }
}

impl std::error::Error for InvalidMetadata {}

impl From<InvalidMetadata> for Status {
    fn from(invalid: InvalidMetadata) -> Self {
        let code = match invalid {
            InvalidMetadata::TooLarge => crate::Code::ResourceExhausted,
            _ => crate::Code::InvalidArgument,
        };
        Self::new(code, invalid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repetition_are_kept() {
        let mut metadata = Metadata::new();
        for (key, value) in [("a", "1"), ("b", "2"), ("A", "3")] {
            metadata.append(key, value).expect("a good entry");
        }
        let all: Vec<_> = metadata.iter().map(|(key, value)| (key, value[0])).collect();
        assert_eq!(all, [("a", b'1'), ("b", b'2'), ("a", b'3')]);
        assert_eq!(metadata.get_all("a").count(), 2);
        metadata.insert("a", "4").expect("a good entry");
        assert_eq!((metadata.get("a"), metadata.len()), (Some("4"), 2));
        assert!(metadata.remove("A") && !metadata.remove("a"));
    }

    #[test]
    fn size_matches_the_entries_after_random_changes() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut metadata = Metadata::new();
        for _ in 0..3_000 {
            let (key, value) =
                (["a", "bc", "D", "d"][random.usize(..4)], "x".repeat(random.usize(..900)));
            match random.u32(..8) {
                0 => _ = metadata.remove(key),
                1 | 2 => _ = metadata.insert(key, value),
                _ => _ = metadata.append(key, value),
            }
            let size: usize = metadata.entries.iter().map(MetadataEntry::size).sum();
            assert_eq!(metadata.size, size);
            assert!(size <= limits::METADATA_BYTES_MAX);
        }
        assert!(!metadata.is_empty());
    }

    #[test]
    fn invalid_entries_are_rejected_and_change_nothing() {
        let large = "x".repeat(limits::METADATA_BYTES_MAX);
        for (key, value, expected) in [
            ("", "1", InvalidMetadata::Key),
            ("a b", "1", InvalidMetadata::Key),
            ("ä", "1", InvalidMetadata::Key),
            ("GRPC-status", "1", InvalidMetadata::ReservedKey),
            ("ringway-x", "1", InvalidMetadata::ReservedKey),
            ("a", "\n", InvalidMetadata::Value),
            ("a", "ä", InvalidMetadata::Value),
            ("a", &large, InvalidMetadata::TooLarge),
        ] {
            let mut metadata = Metadata::new();
            assert_eq!(metadata.insert(key, value), Err(expected), "{key}");
            assert_eq!(metadata.append(key, value), Err(expected), "{key}");
            assert!(metadata.is_empty());
        }
    }

    #[test]
    fn binary_values_need_keys_with_bin() {
        let mut metadata = Metadata::new();
        metadata.insert("raw-bin", [0, 255]).expect("a good entry");
        assert_eq!((metadata.get("raw-bin"), metadata.get_bin("a")), (None, None));
        assert_eq!(metadata.get_bin("raw-bin"), Some(&[0, 255][..]));
    }

    #[test]
    fn wire_form_is_read_back_and_truncation_is_detected() {
        let mut metadata = Metadata::new();
        metadata.insert("authorization", "Bearer x").expect("a good entry");
        metadata.insert("raw-bin", [0, 255]).expect("a good entry");
        let mut wire = Vec::new();
        metadata.write(&mut MetaWriter::new(&mut wire));
        assert_eq!(wire[0], Tag::Authorization.code());
        assert_eq!(Metadata::of_wire(&wire).expect("sound"), metadata);
        let between = wire.len() - 12; // tag, length, key length, seven of key, two of value
        for cut in 1..wire.len() {
            assert_eq!(Metadata::of_wire(&wire[..cut]).is_ok(), cut == between, "{cut}");
        }
        let mut bad = Vec::new();
        MetaWriter::new(&mut bad).entry("grpc-status", b"0");
        assert!(Metadata::of_wire(&bad).is_err_and(|status| status.is_invalid_argument()));
    }
}
