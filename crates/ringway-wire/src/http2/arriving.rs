//! A DATA frame on its way.

use super::StreamHandle;

/// A DATA frame of which bytes are to come.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    pub(super) is_active: bool,
    /// `None`: the stream was reset, and the bytes are skipped.
    pub(super) stream: Option<StreamHandle>,
    /// Bytes of content that have not come.
    pub(super) left: u32,
    /// Bytes of padding that have not come.
    pub(super) padding: u32,
    /// The length of the padding has not come.
    pub(super) wants_padding: bool,
    pub(super) end: bool,
    /// The frame has brought something.
    pub(super) has_content: bool,
}
