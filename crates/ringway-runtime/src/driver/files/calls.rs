//! File operations as system calls that wait, for a thread of the blocking pool.

use std::ffi::{CStr, OsString};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Mode, OFlags, RawDir, ResolveFlags, StatxFlags, fallocate,
    fdatasync, fsync, ftruncate, mkdirat, openat, openat2, renameat, statx, unlinkat,
};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};

use super::answer::{DirEntry, FileAnswer, FileKind, Metadata};
use super::changes::watch;
use super::descriptor::{FileDescriptor, check_opened};
use super::op::{FileOp, OpenRequest};
use crate::contain::drop_contained;
use crate::limits;

/// Does what `op` says, and waits for it. A descriptor whose last share it has is closed here.
pub(crate) fn perform(op: FileOp) -> io::Result<FileAnswer> {
    match op {
        FileOp::Open(request) => Ok(FileAnswer::Opened(open(&request)?)),
        FileOp::OpenBeneath { root, path } => Ok(FileAnswer::Opened(open_beneath(&root, &path)?)),
        FileOp::Close(descriptor) => {
            drop(descriptor);
            Ok(FileAnswer::Done)
        }
        FileOp::Read { file, at, bytes, buffer } => read(&file, at, bytes, buffer),
        FileOp::Write { file, at, bytes } => {
            let fd = file.of_kernel()?;
            let written = again(|| match at {
                Some(at) => pwrite(fd, &bytes, at),
                None => pwritev2(fd, &[IoSlice::new(&bytes)], 0, ReadWriteFlags::APPEND),
            });
            drop_contained("the destructor of bytes to write", bytes);
            Ok(FileAnswer::Written(written?))
        }
        FileOp::Sync { file, data_only } => {
            let fd = file.of_kernel()?;
            done(again(|| if data_only { fdatasync(fd) } else { fsync(fd) }))
        }
        FileOp::SetLen { file, bytes } => {
            let fd = file.of_kernel()?;
            done(again(|| ftruncate(fd, bytes)))
        }
        FileOp::Allocate { file, at, bytes } => {
            let fd = file.of_kernel()?;
            done(again(|| fallocate(fd, FallocateFlags::empty(), at, bytes)))
        }
        FileOp::Describe { file } => {
            let status =
                statx(file.of_kernel()?, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
            Ok(FileAnswer::Described(Metadata::of(&status)))
        }
        FileOp::DescribePath { path } => {
            let status = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS)?;
            Ok(FileAnswer::Described(Metadata::of(&status)))
        }
        FileOp::Rename { from, to } => done(renameat(CWD, from, CWD, to)),
        FileOp::RemoveFile { path } => done(unlinkat(CWD, path, AtFlags::empty())),
        FileOp::RemoveDir { path } => done(unlinkat(CWD, path, AtFlags::REMOVEDIR)),
        FileOp::CreateDir { path, mode } => done(mkdirat(CWD, path, Mode::from_raw_mode(mode))),
        FileOp::ReadDir { dir } => read_dir(&dir),
        FileOp::Watch { path } => Ok(FileAnswer::Opened(watch(&path)?)),
        // It may never end, and so is the driver's.
        FileOp::AwaitChanges { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn open(request: &OpenRequest) -> io::Result<FileDescriptor> {
    let mode = Mode::from_raw_mode(request.mode);
    let fd = again(|| openat(CWD, &request.path, request.kernel_flags(), mode))?;
    check_opened(fd, request.kind)
}

/// The kernel compares each step of the path with `root`, those through symbolic links too.
fn open_beneath(root: &CStr, path: &CStr) -> io::Result<FileDescriptor> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = again(|| openat(CWD, root, directory, Mode::empty()))?;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries = limits::BENEATH_TRIES;
    loop {
        tries -= 1;
        match openat2(&root, path, OpenRequest::READ_FLAGS, Mode::empty(), beneath) {
            // Directories were renamed meanwhile, and the kernel cannot tell where that has led.
            Err(Errno::AGAIN | Errno::INTR) if tries > 0 => {}
            opened => return check_opened(opened?, FileKind::File),
        }
    }
}

fn read(
    file: &FileDescriptor,
    at: u64,
    bytes: usize,
    mut buffer: Vec<u8>,
) -> io::Result<FileAnswer> {
    let fd = file.of_kernel()?;
    let before = buffer.len();
    buffer.resize(before + bytes, 0);
    let count = again(|| pread(fd, &mut buffer[before..], at))?;
    buffer.truncate(before + count);
    Ok(FileAnswer::Read(buffer))
}

/// One call's worth of entries: so a directory of millions is told in parts.
fn read_dir(dir: &FileDescriptor) -> io::Result<FileAnswer> {
    let mut memory = vec![MaybeUninit::uninit(); limits::DIR_BATCH_BYTES];
    let mut found = Vec::new();
    let mut listing = RawDir::new(dir.of_kernel()?, &mut memory);
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let kind = match entry.file_type() {
                rustix::fs::FileType::Unknown => None,
                known => Some(FileKind::of(known)),
            };
            found.push(DirEntry { name: OsString::from_vec(name.to_vec()), kind });
        }
        // The next call would replace what is here, so an answer ends with its batch; one with the names of
        // the directory and its parent alone is none.
        if listing.is_buffer_empty() && !found.is_empty() {
            break;
        }
    }
    Ok(FileAnswer::Entries(found))
}

fn done(ended: Result<(), Errno>) -> io::Result<FileAnswer> {
    ended?;
    Ok(FileAnswer::Done)
}

/// A signal that interrupts a call is no answer.
fn again<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    rustix::io::retry_on_intr(call)
}
