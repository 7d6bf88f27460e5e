//! Message headers for gathered sends and datagrams.

use std::sync::LazyLock;

use io_uring::types::RecvMsgOut;
use socket2::SockAddr;

use crate::driver::SendBatch;
use crate::limits;

/// The layout of received datagrams: room for any address, no control data.
pub(super) static DATAGRAM_LAYOUT: LazyLock<MessageHeader> = LazyLock::new(|| {
    let mut layout = MessageHeader::empty();
    layout.header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
    layout
});

/// A `msghdr` with the data that it points to; its owner boxes it, so that it does not move.
pub(super) struct MessageHeader {
    header: libc::msghdr,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the pointers inside refer only to what the owner of the header keeps alive; the shared
// static layout holds none at all.
unsafe impl Send for MessageHeader {}
// SAFETY: as above; a shared reference allows no change.
unsafe impl Sync for MessageHeader {}

impl MessageHeader {
    pub(super) fn empty() -> Self {
        // SAFETY: all-zero is a valid `msghdr`: null pointers with zero lengths.
        let header = unsafe { std::mem::zeroed() };
        Self { header, vectors: Vec::new() }
    }

    pub(super) fn as_ptr(&self) -> *const libc::msghdr {
        &raw const self.header
    }

    /// Describes the rest of `batch` after `done` bytes, as far as one call accepts it; a datagram
    /// is sent whole or refused.
    /// The pointers are valid as long as `batch` is neither changed nor dropped.
    pub(super) fn describe(&mut self, batch: &SendBatch, mut done: usize) -> usize {
        self.vectors.clear();
        let is_stream = batch.to.is_none();
        let bytes_max = if is_stream { limits::SUBMISSION_BYTES_MAX } else { usize::MAX };
        let mut described = 0;
        for segment in &batch.segments {
            let bytes = segment.as_slice();
            let skipped = done.min(bytes.len());
            done -= skipped;
            let rest = &bytes[skipped..];
            let rest = &rest[..rest.len().min(bytes_max - described)];
            if !rest.is_empty() {
                described += rest.len();
                let base = rest.as_ptr().cast_mut().cast();
                self.vectors.push(libc::iovec { iov_base: base, iov_len: rest.len() });
            }
            if is_stream && (self.vectors.len() == VECTORS_MAX || described == bytes_max) {
                break;
            }
        }
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = self.vectors.len();
        match &batch.to {
            Some(to) => {
                self.header.msg_name = to.as_ptr().cast_mut().cast();
                self.header.msg_namelen = to.len();
            }
            None => {
                self.header.msg_name = std::ptr::null_mut();
                self.header.msg_namelen = 0;
            }
        }
        described
    }
}

/// The kernel's `UIO_MAXIOV`: a longer list is refused with `EMSGSIZE`.
const VECTORS_MAX: usize = 1_024;

/// The parts of a datagram in a provided buffer: the sender's address, and where the payload starts
/// and its length. `None` when the buffer does not have that layout.
pub(crate) fn datagram_parts(bytes: &[u8]) -> Option<(Option<Box<SockAddr>>, usize, usize)> {
    let parts = RecvMsgOut::parse(bytes, &DATAGRAM_LAYOUT.header).ok()?;
    let payload = parts.payload_data();
    let start = payload.as_ptr() as usize - bytes.as_ptr() as usize;
    Some((address_of(parts.name_data()), start, payload.len()))
}

fn address_of(name: &[u8]) -> Option<Box<SockAddr>> {
    if name.is_empty() {
        return None;
    }
    // SAFETY: the storage is large enough for any address, zeroed, and gets at most its own size
    // in bytes as the kernel wrote them, with their count.
    let made = unsafe {
        SockAddr::try_init(|storage, len| {
            let count = name.len().min(size_of::<libc::sockaddr_storage>());
            std::ptr::copy_nonoverlapping(name.as_ptr(), storage.cast::<u8>(), count);
            *len = count as u32;
            Ok(())
        })
    };
    made.ok().map(|((), address)| Box::new(address))
}
