//! Buffers that messages are appended to.

use bytes::BytesMut;

/// A buffer that grows: messages are appended to a `Vec<u8>` and to a `BytesMut` alike.
pub trait Target {
    /// Makes room for this many bytes more, in one allocation at most.
    fn reserve(&mut self, additional: usize);

    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl Target for Vec<u8> {
    #[inline]
    fn reserve(&mut self, additional: usize) {
        Vec::reserve(self, additional);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Target for BytesMut {
    #[inline]
    fn reserve(&mut self, additional: usize) {
        BytesMut::reserve(self, additional);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
