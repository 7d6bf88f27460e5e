//! Received bytes, borrowed where they could be.

use std::ops::Deref;

use bytes::Bytes;

use super::spare;

/// Bytes of a peer: a part of the input, or owned because they came in pieces.
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

    /// The bytes to keep; copies what is only borrowed.
    #[inline]
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Borrowed(bytes) => spare::copy(bytes),
            Self::Owned(bytes) => bytes,
        }
    }

    /// Takes the first `len` bytes off and returns them; the rest stays. Copies nothing.
    ///
    /// # Panics
    ///
    /// When there are fewer bytes.
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

/// Two pieces are equal when their bytes are, wherever these are.
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
    fn both_forms_split_and_convert() {
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
