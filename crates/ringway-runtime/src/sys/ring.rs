//! An io_uring instance: typed submissions, one enter, completions read in place.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, Probe, opcode};

use super::BufRing;
use super::message::DATAGRAM_LAYOUT;
use crate::driver::uring::Completion;
use crate::limits;

const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// A ring, which belongs to the thread that made it.
pub(crate) struct Ring {
    ring: IoUring,
    /// Entries that found the queue full although it had just been submitted, because the kernel
    /// was out of memory. At most what the core's sockets have in flight.
    backlog: VecDeque<Entry>,
    /// The ring's name for `io_uring_enter`: a registered index, or the descriptor.
    enter_fd: i32,
    enter_flags: EnterFlags,
    /// Whether an enter may have submitted something.
    was_entered: bool,
}

impl Ring {
    /// Takes over a ring of the calling thread that completes work only when it is entered.
    pub(crate) fn new(ring: IoUring) -> Self {
        let mut enter_flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        enter_flags.set(EnterFlags::NO_IOWAIT, ring.params().is_feature_no_iowait());
        let fd = ring.as_raw_fd();
        let number = update_ring_fd(fd, REGISTER_RING_FDS, u32::MAX, fd);
        enter_flags.set(EnterFlags::REGISTERED_RING, number.is_some());
        let (backlog, enter_fd) = (VecDeque::new(), number.unwrap_or(fd));
        Self { ring, backlog, enter_fd, enter_flags, was_entered: false }
    }

    /// Whether the kernel may have taken operations, which are then in flight until they complete.
    pub(crate) fn was_entered(&self) -> bool {
        self.was_entered
    }

    /// The flags of every enter.
    pub(crate) fn enter_flags(&self) -> EnterFlags {
        self.enter_flags
    }

    /// Registers `buffers` as the provided-buffer group `group` of this ring.
    pub(crate) fn register_buffers(&self, group: u16, buffers: &BufRing) -> io::Result<()> {
        // SAFETY: the ring memory is page-aligned, has the stated number of entries, and is kept
        // by its owner until after this ring is closed.
        unsafe {
            self.ring.submitter().register_buf_ring_with_flags(
                buffers.address(),
                buffers.entries(),
                group,
                0,
            )
        }
    }

    /// Whether the kernel has the operation of this code.
    pub(crate) fn can(&self, code: u8) -> bool {
        let mut probe = Probe::new();
        let probed = self.ring.submitter().register_probe(&mut probe);
        probed.is_ok() && probe.is_supported(code)
    }

    pub(crate) fn recv_multishot(&mut self, fd: RawFd, group: u16, user_data: u64) {
        self.push(opcode::RecvMulti::new(Fd(fd), group).build().user_data(user_data));
    }

    /// Receives datagrams, each with the sender's address before the payload; see `datagram_parts`.
    pub(crate) fn recv_datagrams(&mut self, fd: RawFd, group: u16, user_data: u64) {
        let entry = opcode::RecvMsgMulti::new(Fd(fd), DATAGRAM_LAYOUT.as_ptr(), group).build();
        self.push(entry.user_data(user_data));
    }

    pub(crate) fn accept_multishot(&mut self, fd: RawFd, user_data: u64) {
        let entry = opcode::AcceptMulti::new(Fd(fd)).flags(libc::SOCK_CLOEXEC).build();
        self.push(entry.user_data(user_data));
    }

    /// Reports each change of `fd` to one of the `events`, even if nobody acts on it meanwhile.
    pub(crate) fn poll_multishot(&mut self, fd: RawFd, events: i16, user_data: u64) {
        let events = events as u32;
        self.push(opcode::PollAdd::new(Fd(fd), events).multi(true).build().user_data(user_data));
    }

    /// Cancels every operation on `fd`.
    pub(crate) fn cancel_fd(&mut self, fd: RawFd, user_data: u64) {
        let target = CancelBuilder::fd(Fd(fd)).all();
        self.push(opcode::AsyncCancel2::new(target).build().user_data(user_data));
    }

    /// Cancels the operation that carries `target`.
    pub(crate) fn cancel(&mut self, target: u64, user_data: u64) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(target)).build();
        self.push(entry.user_data(user_data));
    }

    /// Queues an operation, whose memory must outlive its completion.
    pub(super) fn push(&mut self, entry: Entry) {
        if self.backlog.is_empty() {
            if self.fits(&entry) {
                return;
            }
            // The queue is full: submit it now. An error occurs again in the turn, which can
            // report it.
            let _reported_by_turn = self.enter_once(0, None);
        }
        self.backlog.push_back(entry);
        self.refill();
    }

    fn fits(&mut self, entry: &Entry) -> bool {
        // SAFETY: every caller of `push` passes memory that is owned until the completion arrives:
        // provided buffers by their pool, batches and addresses by a send slot, paths, buffers
        // and descriptions of files by a slot of the file table.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Moves entries of the backlog to the queue while it has room.
    fn refill(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.fits(&entry) {
                return self.backlog.push_front(entry);
            }
        }
    }

    /// Number of operations queued and not taken by the kernel yet.
    pub(crate) fn queued(&mut self) -> usize {
        self.ring.submission().len() + self.backlog.len()
    }

    /// Whether an enter would find completions, read from shared memory.
    pub(crate) fn peek(&mut self) -> bool {
        let submission = self.ring.submission();
        if submission.taskrun() || submission.cq_overflow() {
            return true;
        }
        drop(submission);
        !self.ring.completion().is_empty()
    }

    /// Whether completions wait inside the kernel for room.
    pub(crate) fn has_overflowed(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Whether completions were lost because the kernel had no memory for them. The outcome of the
    /// operations in flight can then never be known.
    pub(crate) fn has_dropped(&mut self) -> bool {
        self.ring.completion().overflow() != 0
    }

    /// Submits queued operations, runs deferred work and waits until `want` completions have
    /// arrived or `timeout` has passed. If several are wanted, one suffices after
    /// [`limits::GATHER_WAIT`]; kernels before 6.12 cannot do that and wait for one only.
    ///
    /// # Errors
    /// Returns the kernel's error, except `ETIME` and `EINTR`, which are normal ends of a wait.
    pub(crate) fn enter(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        self.refill();
        // Nothing may sleep on operations that the kernel has not seen.
        let want = if self.backlog.is_empty() { want } else { 0 };
        self.enter_once(want, timeout)
    }

    fn enter_once(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        let gathers = want > 1 && self.ring.params().is_feature_min_timeout();
        let min_wait_us = if gathers { limits::GATHER_WAIT.as_micros() as u32 } else { 0 };
        let want = if gathers { want } else { want.min(1) };
        let timespec = timeout.map(Timespec::from);
        let mut argument = SubmitArgs::new().min_wait_usec(min_wait_us);
        if let Some(timespec) = &timespec {
            argument = argument.timespec(timespec);
        }
        let queued = self.ring.submission().len();
        // SAFETY: the argument and its timespec live on this frame until the call returns; the
        // queued entries are covered by `push`.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                queued,
                want,
                self.enter_flags.bits(),
                std::ptr::from_ref(&argument),
                size_of_val(&argument),
            )
        };
        let error = io::Error::last_os_error();
        // EBUSY and EAGAIN: completions must be reaped before more is taken; the caller does.
        let ordinary = matches!(
            error.raw_os_error(),
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
        );
        if answer < 0 && !ordinary {
            return Err(error);
        }
        self.was_entered = true;
        Ok(())
    }

    /// Moves the completions that have arrived to the end of `into`.
    pub(crate) fn reap(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.ring.completion().map(Completion::from));
    }
}

/// `struct io_uring_rsrc_update` of the kernel's interface.
#[repr(C)]
struct ResourceUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

impl Drop for Ring {
    /// Unregisters the ring, since the thread's registration would keep it and its memory alive.
    fn drop(&mut self) {
        if self.enter_flags.contains(EnterFlags::REGISTERED_RING) {
            let (fd, index) = (self.ring.as_raw_fd(), self.enter_fd as u32);
            let removed = update_ring_fd(fd, UNREGISTER_RING_FDS, index, 0);
            debug_assert!(removed.is_some());
        }
    }
}

/// Registers the thread's ring, which saves the kernel a descriptor look-up in each enter, or
/// unregisters it. Returns the index; `None` if that is not supported.
fn update_ring_fd(fd: RawFd, how: u32, offset: u32, data: RawFd) -> Option<i32> {
    let mut update = ResourceUpdate { offset, reserved: 0, data: data as u64 };
    // SAFETY: `update` is one element of the layout that the call reads and writes.
    let answer = unsafe {
        libc::syscall(libc::SYS_io_uring_register, fd, how, std::ptr::from_mut(&mut update), 1)
    };
    (answer == 1).then_some(update.offset as i32)
}
