//! The receive pools of a core, by class of receive.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Weak;

use super::here::settle;
use crate::driver::RecvClass;
use crate::limits;
use crate::sys::Pool;

/// The receive pools of one core, separate by class so that streams with large messages cannot take
/// the buffers of small messages and datagrams.
#[derive(Clone)]
pub(crate) struct Pools {
    /// Buffers of [`limits::MESSAGE_BUFFER_BYTES`] each.
    pub(crate) message: Rc<Pool>,
    /// Buffers of [`limits::BULK_BUFFER_BYTES`] each.
    pub(crate) bulk: Rc<Pool>,
    /// Buffers of [`limits::DATAGRAM_BUFFER_BYTES`] each.
    pub(crate) datagram: Rc<Pool>,
}

/// Number of buffers in each pool.
#[derive(Clone, Copy)]
pub(crate) struct BufferCounts {
    pub(crate) message: u16,
    pub(crate) bulk: u16,
    pub(crate) datagram: u16,
}

impl BufferCounts {
    /// The default counts of a core.
    pub(crate) const USUAL: Self = Self {
        message: limits::MESSAGE_BUFFERS,
        bulk: limits::BULK_BUFFERS,
        datagram: limits::DATAGRAM_BUFFERS,
    };
}

impl Pools {
    /// Reserves address space for all pools; memory is touched only as buffers are used. `eventfd`
    /// wakes the core when it waits for a buffer from another thread.
    pub(crate) fn new(counts: BufferCounts, eventfd: &Weak<OwnedFd>) -> io::Result<Self> {
        let pools = Self {
            message: Pool::new(limits::MESSAGE_BUFFER_BYTES, counts.message, eventfd)?,
            bulk: Pool::new(limits::BULK_BUFFER_BYTES, counts.bulk, eventfd)?,
            datagram: Pool::new(limits::DATAGRAM_BUFFER_BYTES, counts.datagram, eventfd)?,
        };
        [&pools.message, &pools.bulk, &pools.datagram].into_iter().for_each(settle);
        Ok(pools)
    }

    /// The pool for a class of receives.
    #[inline]
    pub(crate) fn of(&self, class: RecvClass) -> &Rc<Pool> {
        match class {
            RecvClass::Message => &self.message,
            RecvClass::Bulk => &self.bulk,
            RecvClass::Datagram => &self.datagram,
        }
    }
}
