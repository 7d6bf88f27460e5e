//! File operations that the kernel has in hand, and the memory that it reads and writes for them.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::{io, ptr};

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};
use rustix::fs::{AtFlags, Statx, StatxFlags};

use super::{Ring, own};
use crate::driver::Key;
use crate::driver::files::{FileAnswer, FileDescriptor, FileEnd, FileOp, Metadata, check_opened};
use crate::driver::uring::{Completion, kind, tag};

/// Operations by the index of their names.
#[derive(Default)]
pub(crate) struct FileTable {
    slots: Vec<Option<FileSlot>>,
    in_flight: usize,
    /// `IORING_OP_FTRUNCATE`, which came with Linux 6.9.
    sets_lengths: bool,
}

/// What an operation owns until its completion. The kernel holds pointers to the heap only, so a growing
/// table moves nothing that it sees.
struct FileSlot {
    name: Key,
    op: FileOp,
    status: Option<Box<MaybeUninit<Statx>>>,
}

impl FileTable {
    /// Asks the kernel what it can do.
    pub(crate) fn probe(&mut self, ring: &Ring) {
        self.sets_lengths = ring.can(opcode::Ftruncate::CODE);
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Starts an operation, or gives back one that io_uring does not have.
    pub(crate) fn start(&mut self, ring: &mut Ring, name: Key, op: FileOp) -> Option<FileOp> {
        let status = match op {
            FileOp::ReadDir { .. } | FileOp::Watch { .. } => return Some(op),
            FileOp::SetLen { .. } if !self.sets_lengths => return Some(op),
            FileOp::Describe { .. } | FileOp::DescribePath { .. } => {
                Some(Box::new(MaybeUninit::uninit()))
            }
            _ => None,
        };
        let mut slot = FileSlot { name, op, status };
        let Some(entry) = slot.entry() else { return Some(slot.op) };
        if self.slots.len() <= name.index() {
            self.slots.resize_with(name.index() + 1, || None);
        }
        let before = self.slots[name.index()].replace(slot);
        assert!(before.is_none(), "two file operations of one name");
        self.in_flight += 1;
        ring.push(entry.user_data(tag(kind::FILE, name.bits())));
        None
    }

    /// Asks for an early end of an operation that is in flight.
    pub(crate) fn cancel(&self, ring: &mut Ring, name: Key) {
        let slot = self.slots.get(name.index()).and_then(Option::as_ref);
        if slot.is_some_and(|slot| slot.name == name) {
            ring.cancel(tag(kind::FILE, name.bits()), tag(kind::CANCEL, 0));
        }
    }

    /// Asks for an early end of everything but closes.
    pub(crate) fn cancel_all(&self, ring: &mut Ring) {
        let slots = self.slots.iter().flatten();
        let names = slots.filter(|slot| !matches!(slot.op, FileOp::Close(_)));
        names.for_each(|slot| ring.cancel(tag(kind::FILE, slot.name.bits()), tag(kind::CANCEL, 0)));
    }

    /// Takes an operation back that has ended; `None` for a completion that belongs to none.
    pub(crate) fn complete(&mut self, completion: Completion) -> Option<Box<FileEnd>> {
        let name = completion.name();
        let slot = self.slots.get_mut(name.index())?.take_if(|slot| slot.name == name)?;
        self.in_flight -= 1;
        Some(slot.end(completion.result))
    }
}

impl FileSlot {
    /// What the kernel is told; `None` where a descriptor is not its own.
    fn entry(&mut self) -> Option<Entry> {
        const HERE: Fd = Fd(libc::AT_FDCWD);
        let status = self.status.as_mut().map_or(ptr::null_mut(), |status| status.as_mut_ptr());
        let mask = StatxFlags::BASIC_STATS.bits();
        let of = |file: &FileDescriptor| file.of_kernel().ok().map(|fd| Fd(fd.as_raw_fd()));
        Some(match &mut self.op {
            FileOp::Open(request) => opcode::OpenAt::new(HERE, request.path.as_ptr())
                .flags(request.kernel_flags().bits() as i32)
                .mode(request.mode)
                .build(),
            // Off this thread: the last close of a file may wait for a disk or a network.
            FileOp::Close(file) => opcode::Close::new(of(file)?).build().flags(Flags::ASYNC),
            FileOp::Read { file, at, bytes, buffer } => {
                let room = buffer.spare_capacity_mut();
                let count = room.len().min(*bytes) as u32;
                opcode::Read::new(of(file)?, room.as_mut_ptr().cast(), count).offset(*at).build()
            }
            FileOp::Write { file, at, bytes } => {
                let flags = if at.is_none() { libc::RWF_APPEND } else { 0 };
                let write = opcode::Write::new(of(file)?, bytes.as_ptr(), bytes.len() as u32);
                write.offset(at.unwrap_or(0)).rw_flags(flags).build()
            }
            FileOp::Sync { file, data_only } => {
                let flags = if *data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                opcode::Fsync::new(of(file)?).flags(flags).build()
            }
            FileOp::SetLen { file, bytes } => opcode::Ftruncate::new(of(file)?, *bytes).build(),
            FileOp::Allocate { file, at, bytes } => {
                opcode::Fallocate::new(of(file)?, *bytes).offset(*at).build()
            }
            FileOp::Describe { file } => {
                let describe = opcode::Statx::new(of(file)?, c"".as_ptr(), status.cast());
                describe.flags(AtFlags::EMPTY_PATH.bits() as i32).mask(mask).build()
            }
            FileOp::DescribePath { path } => {
                opcode::Statx::new(HERE, path.as_ptr(), status.cast()).mask(mask).build()
            }
            FileOp::Rename { from, to } => {
                opcode::RenameAt::new(HERE, from.as_ptr(), HERE, to.as_ptr()).build()
            }
            FileOp::RemoveFile { path } => opcode::UnlinkAt::new(HERE, path.as_ptr()).build(),
            FileOp::RemoveDir { path } => {
                opcode::UnlinkAt::new(HERE, path.as_ptr()).flags(libc::AT_REMOVEDIR).build()
            }
            FileOp::CreateDir { path, mode } => {
                opcode::MkDirAt::new(HERE, path.as_ptr()).mode(*mode).build()
            }
            FileOp::AwaitChanges { watch } => {
                opcode::PollAdd::new(of(watch)?, libc::POLLIN as u32).build()
            }
            FileOp::OpenBeneath { .. } | FileOp::ReadDir { .. } | FileOp::Watch { .. } => {
                return None;
            }
        })
    }

    /// What a result says, a count or an error number below zero.
    fn end(self, result: i32) -> Box<FileEnd> {
        let Self { mut op, status, .. } = self;
        if result != -libc::ECANCELED
            && let FileOp::Close(FileDescriptor::Kernel(fd)) = op
        {
            // Whatever a close answers, its number is free again and may be somebody else's.
            let _closed = fd.into_raw_fd();
            return Box::new(FileEnd { op: None, answer: Ok(FileAnswer::Done) });
        }
        let answer = match &mut op {
            _ if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            FileOp::Open(request) => {
                check_opened(own(result), request.kind).map(FileAnswer::Opened)
            }
            FileOp::Read { buffer, .. } => {
                let mut buffer = std::mem::take(buffer);
                let filled = buffer.len() + result as usize;
                assert!(filled <= buffer.capacity(), "a read went beyond its buffer");
                // SAFETY: the kernel has written `result` bytes behind those that were there.
                unsafe { buffer.set_len(filled) };
                Ok(FileAnswer::Read(buffer))
            }
            FileOp::Write { .. } => Ok(FileAnswer::Written(result as usize)),
            _ => Ok(match &status {
                Some(status) => {
                    // SAFETY: the call has succeeded, so the kernel has filled in all of it.
                    let status = unsafe { status.assume_init_ref() };
                    FileAnswer::Described(Metadata::of(status))
                }
                None => FileAnswer::Done,
            }),
        };
        Box::new(FileEnd { op: Some(op), answer })
    }
}
