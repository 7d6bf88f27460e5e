//! All fields of a message as texts.

use super::blanks::without_blanks;

/// The names and values of all fields of a message, in its order, the known ones among them.
///
/// A connection [keeps them](super::Vocabulary) of requests that are no calls: what is known of a
/// call is in its [`Head`](super::Head).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: Vec<u8>,
    lens: Vec<(u32, u32)>,
}

impl Texts {
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.bytes[..];
        self.lens.iter().map(move |&(name, value)| {
            let (text, behind) = rest.split_at((name + value) as usize);
            rest = behind;
            text.split_at(name as usize)
        })
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Adds a field, without blanks around its value.
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        let value = without_blanks(value);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.lens.push((name.len() as u32, value.len() as u32));
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lens.clear();
    }
}
