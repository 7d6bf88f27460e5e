//! A header field to send, with its form of encoding.

/// A field of a block to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// An entry of the static table (RFC 7541, appendix A), by index.
    Static(u8),
    /// A field that a connection sends repeatedly. It is added to the peer's table at its first
    /// use, and takes one or two bytes from then on.
    Fixed {
        /// A dense number that the caller gives to this name and value.
        id: u16,
        /// The name, in lower case.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A field whose value changes. Its name is added to the peer's table with the first value.
    Named {
        /// A dense number that the caller gives to this name.
        id: u16,
        /// The name, in lower case.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A field that is sent once.
    Once {
        /// The name, in lower case.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A field that no intermediary may add to a table (section 7.1.3).
    Secret {
        /// The name, in lower case.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
}
