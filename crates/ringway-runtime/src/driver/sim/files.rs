//! Operations on simulated files: each takes its time, and then does what it does, or fails.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::time::Duration;

use rustix::fs::OFlags;

use super::disk::{Disk, NodeId, Refusal, WatchId};
use super::{Action, Sim};
use crate::driver::files::{
    Changes, FileAnswer, FileDescriptor, FileEnd, FileKind, FileOp, OpenRequest,
};
use crate::driver::{Event, Key};
use crate::limits;

/// The disks of a simulation, and what is open and under way there.
pub(super) struct SimFiles {
    /// The longest path first; the last one is the root.
    mounts: Vec<(Vec<OsString>, Disk)>,
    open: BTreeMap<RawFd, OpenFile>,
    /// Never used twice.
    next_fd: RawFd,
    /// By the bits of their names, in which nothing depends on their order.
    under_way: BTreeMap<u64, UnderWay>,
    /// Those of them that wait for a watch to have something to tell.
    awaiting: Vec<Key>,
}

struct OpenFile {
    disk: Disk,
    /// The disk's when it was opened: after a crash the host that had it open is gone.
    epoch: u32,
    node: NodeId,
    watch: Option<WatchId>,
    flags: OFlags,
    /// Its content was changed through this descriptor.
    was_written: bool,
    /// Of a directory: the name that was told last.
    listed: Option<OsString>,
}

struct UnderWay {
    op: FileOp,
    /// The disk that it is for, and what epoch that was in.
    host: Option<(Disk, u32)>,
}

/// Where a path leads.
struct DiskPath {
    disk: Disk,
    parts: Vec<OsString>,
}

/// Above every simulated socket, and every descriptor of a process.
const FIRST_FD: RawFd = 1_000_000_000;

impl SimFiles {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            mounts: vec![(Vec::new(), Disk::new(seed))],
            open: BTreeMap::new(),
            next_fd: FIRST_FD,
            under_way: BTreeMap::new(),
            awaiting: Vec::new(),
        }
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// # Errors
    /// `EBUSY` where there is a disk by then that is in use.
    pub(super) fn mount(&mut self, at: &Path, disk: &Disk) -> io::Result<()> {
        let parts = parts_of(at.as_os_str()).map_err(io::Error::from_raw_os_error)?;
        if let Some(former) = self.mounts.iter().position(|(place, _)| *place == parts) {
            let (_, former_disk) = &self.mounts[former];
            if self.open.values().any(|open| open.disk.is(former_disk)) {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            self.mounts.remove(former);
        }
        disk.begin();
        self.mounts.push((parts, disk.clone()));
        self.mounts.sort_by_key(|(parts, _)| std::cmp::Reverse(parts.len()));
        Ok(())
    }

    fn place(&self, path: &CStr) -> Result<DiskPath, Refusal> {
        let parts = parts_of(OsStr::from_bytes(path.to_bytes()))?;
        let (above, disk) =
            self.mounts.iter().find(|(above, _)| parts.starts_with(above)).ok_or(libc::ENOENT)?;
        Ok(DiskPath { disk: disk.clone(), parts: parts[above.len()..].to_vec() })
    }

    fn insert(&mut self, open: OpenFile) -> FileDescriptor {
        let fd = self.next_fd;
        self.next_fd += 1;
        self.open.insert(fd, open);
        FileDescriptor::Simulated(fd)
    }

    /// Whether an operation waits for a watch that has nothing to tell.
    fn waits(&mut self, name: Key) -> bool {
        let Some(UnderWay { op: FileOp::AwaitChanges { watch }, .. }) =
            self.under_way.get(&name.bits())
        else {
            return false;
        };
        let watch = std::sync::Arc::clone(watch);
        self.file(&watch)
            .is_ok_and(|open| open.watch.is_some_and(|watch| !open.disk.has_changes(watch)))
    }

    pub(super) fn take_changes(&mut self, watch: &FileDescriptor) -> io::Result<Changes> {
        let taken = self.file(watch).and_then(|open| {
            let watch = open.watch.ok_or(libc::EINVAL)?;
            open.disk.take_changes(watch)
        });
        taken.map_err(io::Error::from_raw_os_error)
    }

    /// What is open under a descriptor, if its host is alive.
    fn file(&mut self, descriptor: &FileDescriptor) -> Result<&mut OpenFile, Refusal> {
        let fd = descriptor.of_simulation().map_err(|_| libc::EBADF)?;
        let open = self.open.get_mut(&fd).ok_or(libc::EBADF)?;
        if open.epoch == open.disk.epoch() { Ok(open) } else { Err(libc::EIO) }
    }

    fn rename(&self, from: &CStr, to: &CStr, at: Duration) -> Result<(), Refusal> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        if !from.disk.is(&to.disk) {
            return Err(libc::EXDEV);
        }
        from.disk.rename(&from.parts, &to.parts, at)
    }

    /// The disk that an operation is for; none where it will not find one.
    fn host(&mut self, op: &FileOp) -> Option<(Disk, u32)> {
        let disk = match op {
            FileOp::Open(OpenRequest { path, .. })
            | FileOp::OpenBeneath { root: path, .. }
            | FileOp::DescribePath { path }
            | FileOp::Rename { from: path, .. }
            | FileOp::RemoveFile { path }
            | FileOp::RemoveDir { path }
            | FileOp::CreateDir { path, .. }
            | FileOp::Watch { path } => self.place(path).ok()?.disk,
            FileOp::Close(_) => return None,
            FileOp::Read { file, .. }
            | FileOp::Write { file, .. }
            | FileOp::Sync { file, .. }
            | FileOp::SetLen { file, .. }
            | FileOp::Allocate { file, .. }
            | FileOp::Describe { file }
            | FileOp::ReadDir { dir: file }
            | FileOp::AwaitChanges { watch: file } => self.file(file).ok()?.disk.clone(),
        };
        let epoch = disk.epoch();
        Some((disk, epoch))
    }
}

impl Sim {
    pub(super) fn begin_file_op(&mut self, name: Key, op: FileOp) {
        let host = self.files.host(&op);
        let waits = matches!(op, FileOp::AwaitChanges { .. });
        self.files.under_way.insert(name.bits(), UnderWay { op, host });
        if waits {
            return self.files.awaiting.push(name);
        }
        let after = self.latency();
        self.schedule.after(after, Action::File(name));
    }

    /// Ends the waits for watches that have something to tell.
    pub(super) fn tell_watches(&mut self) {
        let mut awaiting = std::mem::take(&mut self.files.awaiting);
        awaiting.retain(|&name| {
            let waits = self.files.waits(name);
            if !waits {
                let after = self.latency();
                self.schedule.after(after, Action::File(name));
            }
            waits
        });
        self.files.awaiting = awaiting;
    }

    /// An operation that is not done by now is never done, unless the word comes too late.
    pub(super) fn stop_file_op(&mut self, name: Key) {
        let is_watch = self.files.awaiting.contains(&name);
        if !is_watch && self.chance(self.config.faults.late_cancels) {
            return;
        }
        self.files.awaiting.retain(|&awaiting| awaiting != name);
        if let Some(UnderWay { op, .. }) = self.files.under_way.remove(&name.bits()) {
            let end = FileEnd::failed(op, libc::ECANCELED);
            self.ready.push_back(Event::FileEnded { name, end });
        }
    }

    pub(super) fn on_file(&mut self, name: Key) {
        let Some(UnderWay { mut op, host }) = self.files.under_way.remove(&name.bits()) else {
            return;
        };
        let is_gone = host.is_some_and(|(disk, epoch)| disk.epoch() != epoch);
        let answer = if is_gone { Err(libc::EIO) } else { self.perform(&mut op) };
        let answer = answer.map_err(io::Error::from_raw_os_error);
        let end = Box::new(FileEnd { op: Some(op), answer });
        self.ready.push_back(Event::FileEnded { name, end });
    }

    fn perform(&mut self, op: &mut FileOp) -> Result<FileAnswer, Refusal> {
        let at = self.elapsed();
        if op.takes_room() && self.chance(self.config.faults.disk_full) {
            return Err(libc::ENOSPC);
        }
        match op {
            FileOp::Open(request) => return self.open_file(request, at),
            FileOp::OpenBeneath { root, path } => {
                let path = beneath(root, path)?;
                let (flags, kind) = (OpenRequest::READ_FLAGS, FileKind::File);
                return self.open_file(&OpenRequest { path, flags, mode: 0, kind }, at);
            }
            FileOp::Close(descriptor) => self.close_file(descriptor)?,
            FileOp::Read { file, at, bytes, buffer } => {
                return self.read_file(file, *at, *bytes, std::mem::take(buffer));
            }
            FileOp::Write { file, at: place, bytes } => {
                return self.write_file(file, *place, bytes, at);
            }
            FileOp::Sync { file, .. } => {
                let fails = self.chance(self.config.faults.sync_errors);
                let open = self.files.file(file)?;
                open.disk.sync(open.node, fails)?;
            }
            FileOp::SetLen { file, bytes } => {
                let open = self.files.file(file)?.for_writing()?;
                open.disk.set_len(open.node, *bytes, at)?;
            }
            FileOp::Allocate { file, at: place, bytes } => {
                let open = self.files.file(file)?.for_writing()?;
                open.disk.allocate(open.node, place.saturating_add(*bytes), at)?;
            }
            FileOp::Describe { file } => {
                let open = self.files.file(file)?;
                return open.disk.describe(open.node).map(FileAnswer::Described);
            }
            FileOp::ReadDir { dir } => {
                let open = self.files.file(dir)?;
                let entries = open.disk.entries(open.node, open.listed.as_ref())?;
                open.listed = entries.last().map(|last| last.name.clone()).or(open.listed.take());
                return Ok(FileAnswer::Entries(entries));
            }
            FileOp::DescribePath { path } => {
                let DiskPath { disk, parts } = self.files.place(path)?;
                return disk.describe_path(&parts).map(FileAnswer::Described);
            }
            FileOp::Rename { from, to } => self.files.rename(from, to, at)?,
            FileOp::RemoveFile { path } => {
                let DiskPath { disk, parts } = self.files.place(path)?;
                disk.remove_file(&parts, at)?;
            }
            FileOp::RemoveDir { path } => {
                let DiskPath { disk, parts } = self.files.place(path)?;
                disk.remove_dir(&parts, at)?;
            }
            FileOp::CreateDir { path, mode } => {
                let DiskPath { disk, parts } = self.files.place(path)?;
                disk.create_dir(&parts, *mode, at)?;
            }
            FileOp::Watch { path } => return self.open_watch(path),
            FileOp::AwaitChanges { watch } => {
                self.files.file(watch)?;
            }
        }
        Ok(FileAnswer::Done)
    }

    fn read_file(
        &mut self,
        file: &FileDescriptor,
        at: u64,
        bytes: usize,
        mut buffer: Vec<u8>,
    ) -> Result<FileAnswer, Refusal> {
        if self.chance(self.config.faults.read_errors) {
            return Err(libc::EIO);
        }
        let bytes = self.perhaps_fewer(self.config.faults.short_file_reads, bytes);
        let open = self.files.file(file)?;
        if open.flags.contains(OFlags::WRONLY) {
            return Err(libc::EBADF);
        }
        open.disk.read(open.node, at, bytes, &mut buffer)?;
        Ok(FileAnswer::Read(buffer))
    }

    fn write_file(
        &mut self,
        file: &FileDescriptor,
        place: Option<u64>,
        bytes: &[u8],
        at: Duration,
    ) -> Result<FileAnswer, Refusal> {
        let count = self.perhaps_fewer(self.config.faults.short_file_writes, bytes.len());
        let open = self.files.file(file)?.for_writing()?;
        let place = place.filter(|_| !open.flags.contains(OFlags::APPEND));
        open.disk.write(open.node, place, &bytes[..count], at)?;
        open.was_written = true;
        Ok(FileAnswer::Written(count))
    }

    fn perhaps_fewer(&mut self, per_mille: u16, all: usize) -> usize {
        if all > 1 && self.chance(per_mille) { self.rng.one_to(all) } else { all }
    }

    fn open_file(&mut self, request: &OpenRequest, at: Duration) -> Result<FileAnswer, Refusal> {
        let DiskPath { disk, parts } = self.files.place(&request.path)?;
        if self.open_descriptors() >= self.config.descriptors_max {
            return Err(libc::EMFILE);
        }
        let node = disk.open(&parts, request.flags, request.mode, at)?;
        let was_written = request.flags.contains(OFlags::TRUNC);
        let open = OpenFile { was_written, flags: request.flags, ..OpenFile::new(disk, node) };
        Ok(FileAnswer::Opened(self.files.insert(open)))
    }

    fn open_watch(&mut self, path: &CStr) -> Result<FileAnswer, Refusal> {
        let DiskPath { disk, parts } = self.files.place(path)?;
        if self.open_descriptors() >= self.config.descriptors_max {
            return Err(libc::EMFILE);
        }
        let (node, watch) = disk.watch(&parts)?;
        let open = OpenFile { watch: Some(watch), ..OpenFile::new(disk, node) };
        Ok(FileAnswer::Opened(self.files.insert(open)))
    }

    fn close_file(&mut self, descriptor: &FileDescriptor) -> Result<(), Refusal> {
        let fd = descriptor.of_simulation().map_err(|_| libc::EBADF)?;
        let open = self.files.open.remove(&fd).ok_or(libc::EBADF)?;
        if open.epoch != open.disk.epoch() {
            return Ok(());
        }
        match open.watch {
            Some(watch) => open.disk.unwatch(watch),
            None if open.was_written => open.disk.close_written(open.node),
            None => open.disk.close(open.node),
        }
        Ok(())
    }
}

/// A path below a directory, which it does not leave: there are no symbolic links here.
fn beneath(root: &CStr, path: &CStr) -> Result<CString, Refusal> {
    let mut depth = 0_u32;
    for part in Path::new(OsStr::from_bytes(path.to_bytes())).components() {
        depth = match part {
            Component::Normal(_) => depth + 1,
            Component::CurDir => depth,
            Component::ParentDir => depth.checked_sub(1).ok_or(libc::EXDEV)?,
            Component::RootDir | Component::Prefix(_) => return Err(libc::EXDEV),
        };
    }
    if path.is_empty() {
        return Err(libc::ENOENT);
    }
    CString::new([root.to_bytes(), b"/", path.to_bytes()].concat()).map_err(|_| libc::EINVAL)
}

impl OpenFile {
    fn new(disk: Disk, node: NodeId) -> Self {
        let epoch = disk.epoch();
        let (flags, watch, listed) = (OFlags::empty(), None, None);
        Self { disk, epoch, node, watch, flags, was_written: false, listed }
    }

    fn for_writing(&mut self) -> Result<&mut Self, Refusal> {
        let writes = self.flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        if writes { Ok(self) } else { Err(libc::EBADF) }
    }
}

/// The parts of a path; a simulated process is always at the root.
fn parts_of(path: &OsStr) -> Result<Vec<OsString>, Refusal> {
    if path.is_empty() {
        return Err(libc::ENOENT);
    }
    if path.len() >= limits::SIM_PATH_BYTES_MAX {
        return Err(libc::ENAMETOOLONG);
    }
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) if part.len() > limits::SIM_NAME_BYTES_MAX => {
                return Err(libc::ENAMETOOLONG);
            }
            Component::Normal(part) => parts.push(part.to_owned()),
            Component::ParentDir => drop(parts.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(parts)
}
