//! Ids that outlive their request.

use super::id::Id;

/// The id of a request that is to be answered later. One of an ordinary length costs no allocation.
///
/// ```
/// use ringway_wire::jsonrpc::{Id, KeptId};
///
/// let kept = KeptId::of(Id::parse("\"a\"").expect("an id"));
/// assert_eq!(kept.id().as_str(), "\"a\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptId(Text);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    Short(u8, [u8; SHORT_MAX]),
    Long(Box<str>),
}

/// Bytes of an id that are kept in place: a number of twenty digits, or a short string.
const SHORT_MAX: usize = 22;

impl KeptId {
    /// Copies an id.
    #[inline]
    #[must_use]
    pub fn of(id: Id<'_>) -> Self {
        let text = id.as_str();
        if text.len() > SHORT_MAX {
            return Self(Text::Long(text.into()));
        }
        let mut bytes = [0; SHORT_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self(Text::Short(text.len() as u8, bytes))
    }

    /// It, to be written.
    #[inline]
    #[must_use]
    pub fn id(&self) -> Id<'_> {
        let text = match &self.0 {
            Text::Short(len, bytes) => str::from_utf8(&bytes[..usize::from(*len)]),
            Text::Long(text) => Ok(&**text),
        };
        text.ok().and_then(Id::of_value).unwrap_or(Id::NULL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_byte_for_byte() {
        for json in [
            "null",
            "0",
            "-1.5e3",
            "1234567890123456789012",
            "12345678901234567890123",
            "\"é\\u0041\"",
        ] {
            let id = Id::parse(json).expect("an id");
            assert_eq!(KeptId::of(id).id(), id);
        }
    }
}
