//! Received bytes that can leave their thread.

use std::sync::Arc;

use super::Pool;
use super::area::Area;
use crate::buf::here::pool_here;

/// Received bytes that any thread can read and drop: one count of a viewed buffer.
pub(crate) struct SharedBytes {
    area: Arc<Area>,
    id: u16,
    /// The offset in the area.
    offset: usize,
    len: usize,
}

impl SharedBytes {
    /// Shares a part of a viewed buffer of `pool`.
    pub(crate) fn of(pool: &Pool, id: u16, offset: u32, len: usize) -> Self {
        pool.retain(id);
        let offset = usize::from(id) * pool.buffer_bytes() + offset as usize;
        Self { area: Arc::clone(&pool.area), id, offset, len }
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        let start = self.area.pointer(self.offset, self.len);
        // SAFETY: `pointer` checked the range, and the kernel zero-filled it. The buffer stays
        // viewed until this count is given back, so neither the kernel nor a `RecvBuf` writes it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.len) }
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        match pool_here(|pool| pool.is_of(&self.area)) {
            Some(pool) => pool.release(self.id),
            None => self.area.returns.push(self.id),
        }
    }
}
