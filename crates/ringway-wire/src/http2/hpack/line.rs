//! A field to be sent, and how.

/// One field of a block to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// An entry of the static table (RFC 7541, appendix A), by its index.
    Static(u8),
    /// One of the fields that a connection sends again and again. It is put into the peer's table
    /// at its first use, and is one byte or two from then on.
    Fixed {
        /// A dense number of the caller's, always with the same name and value.
        id: u16,
        /// In lower case.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A field whose value changes. Its name is put into the peer's table with the first value.
    Named {
        /// A dense number of the caller's, always with the same name.
        id: u16,
        /// In lower case.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A field that is sent once.
    Once {
        /// In lower case.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A field that nobody on the way may put into a table (section 7.1.3).
    Secret {
        /// In lower case.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
}
