//! Received bytes, borrowed from the input where possible.

use std::ops::Deref;

use bytes::Bytes;

use super::spare;

/// Bytes from a peer: borrowed if the input had them in one piece, otherwise owned.
#[derive(Debug, Clone)]
pub enum Piece<'i> {
    /// A part of the input.
    Borrowed(&'i [u8]),
    /// Bytes that outlive the input.
    Owned(Bytes),
}

impl<'i> Piece<'i> {
    /// No bytes.
    pub const EMPTY: Piece<'static> = Piece::Borrowed(&[]);

    /// Converts to bytes that can be kept; borrowed ones are copied.
    #[inline]
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Borrowed(bytes) => spare::copy(bytes),
            Self::Owned(bytes) => bytes,
        }
    }

    /// Splits off the first `len` bytes and returns them, without copying; the rest stays.
    ///
    /// # Panics
    ///
    /// Panics when there are fewer bytes.
    #[inline]
    #[must_use]
    pub fn split_to(&mut self, len: usize) -> Piece<'i> {
        match self {
            Self::Borrowed(bytes) => {
                let (head, tail) = bytes.split_at(len);
                *bytes = tail;
                Piece::Borrowed(head)
            }
            Self::Owned(bytes) => Piece::Owned(bytes.split_to(len)),
        }
    }
}

impl Deref for Piece<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Piece<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Piece<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Pieces are equal if their bytes are equal, whether borrowed or owned.
impl PartialEq for Piece<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Piece<'_> {}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Piece;

    #[test]
    fn borrowed_and_owned_pieces_split_and_convert() {
        let owned = Bytes::from_static(b"headtail");
        for mut piece in [Piece::Borrowed(b"headtail"), Piece::Owned(owned.clone())] {
            let head = piece.split_to(4);
            assert_eq!((&*head, piece.as_ref()), (&b"head"[..], &b"tail"[..]));
            assert_eq!(piece.split_to(0), Piece::EMPTY);
            assert_eq!(piece.into_bytes(), Bytes::from_static(b"tail"));
        }
        let kept = Piece::Owned(owned.clone()).into_bytes();
        assert_eq!(kept.as_ptr(), owned.as_ptr(), "owned bytes are not copied");
        assert_eq!(Piece::default(), Piece::EMPTY);
    }
}
