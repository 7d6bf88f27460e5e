//! File systems of simulated hosts, in memory. They know no time and no operations, only what there is, what
//! is durable, and what a crash makes of it.

mod content;
mod tree;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt;
use std::ops::Bound;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::OFlags;

use self::content::FileContent;
use self::tree::{DiskNode, Names, NodeKind, Tree};
pub(super) use self::tree::{NodeId, Parts, Refusal, WatchId};
use super::rng::Rng;
use crate::driver::files::{Changes, DirEntry, FileKind, Metadata};
use crate::limits;

/// The file system of a simulated host: it outlives simulations and crashes.
///
/// Each simulation has one of its own at `/`. One that is made here and mounted there, or below, is kept
/// afterwards: so a test ends a simulation anywhere, crashes the disk, and looks in a second one what a
/// program makes of it. Within one simulation, each directory that a disk is mounted at is a host.
///
/// A crash keeps what was synced, and of everything else what its seed says: each write may be kept, lost, or
/// torn, so that only its beginning is there; and files that were made, renamed or removed since the last
/// [`sync_dir`](crate::fs::sync_dir) of their directory are so only up to some moment. Files that were
/// open are so no more: what is still asked of them fails.
///
/// ```
/// use ringway_runtime::sim::{Disk, SimConfig, mount};
/// use ringway_runtime::{Builder, fs};
///
/// for seed in 0..20 {
///     let disk = Disk::new(seed);
///     let host = disk.clone();
///     Builder::simulate(SimConfig::new(seed), async move {
///         mount("/data", &host)?;
///         fs::write_atomic("/data/state", "first").await?;
///         let file = fs::OpenOptions::new().write(true).open("/data/state").await?;
///         file.write_all_at(0, "FIRST").await // and no sync
///     })??;
///     disk.crash();
///     let state = Builder::simulate(SimConfig::new(seed), async move {
///         mount("/data", &disk)?;
///         fs::read("/data/state", 100).await
///     })??;
///     let kept = state.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
///     assert_eq!(state[kept..], b"first"[kept..]);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Disk {
    state: Rc<RefCell<DiskState>>,
}

struct DiskState {
    rng: Rng,
    tree: Tree,
    capacity_bytes: u64,
    /// How often it has crashed.
    epoch: u32,
    /// What its clock showed when the simulation began that it is mounted in.
    base: Duration,
    /// The latest time of a change.
    latest: Duration,
}

impl Disk {
    /// An empty disk of 256 MiB. The seed decides what its crashes leave.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_capacity(seed, limits::SIM_DISK_BYTES_MAX)
    }

    /// An empty disk that is full when its files have so many bytes.
    #[must_use]
    pub fn with_capacity(seed: u64, bytes: u64) -> Self {
        let state = DiskState {
            rng: Rng::new(seed),
            tree: Tree::new(),
            capacity_bytes: bytes,
            epoch: 0,
            base: Duration::ZERO,
            latest: Duration::ZERO,
        };
        Self { state: Rc::new(RefCell::new(state)) }
    }

    /// The host loses its power: what was not synced is lost, kept or torn as the seed says.
    pub fn crash(&self) {
        let DiskState { rng, tree, epoch, .. } = &mut *self.state.borrow_mut();
        *epoch += 1;
        tree.crash(rng);
    }

    pub(super) fn epoch(&self) -> u32 {
        self.state.borrow().epoch
    }

    pub(super) fn is(&self, other: &Disk) -> bool {
        Rc::ptr_eq(&self.state, &other.state)
    }

    /// The clock goes on where it stood when the last simulation ended.
    pub(super) fn begin(&self) {
        let mut state = self.state.borrow_mut();
        state.base = state.latest;
    }

    /// Opens what there is at a path, or makes a file.
    pub(super) fn open(
        &self,
        parts: &Parts,
        flags: OFlags,
        mode: u32,
        at: Duration,
    ) -> Result<NodeId, Refusal> {
        let mut state = self.state.borrow_mut();
        let node = match state.tree.find(parts) {
            Ok(_) if flags.contains(OFlags::EXCL) => return Err(libc::EEXIST),
            Ok(node) => node,
            Err(libc::ENOENT) if flags.contains(OFlags::CREATE) => {
                let (directory, name) = state.tree.find_parent(parts)?;
                let made = DiskNode::new(NodeKind::File(FileContent::default()), mode & !UMASK);
                let made = state.tree.add(directory, name, made);
                state.touch(made, at);
                state.touch(directory, at);
                made
            }
            Err(refusal) => return Err(refusal),
        };
        let is_dir = state.tree.names(node).is_ok();
        if !is_dir && flags.contains(OFlags::DIRECTORY) {
            return Err(libc::ENOTDIR);
        }
        if is_dir && (!flags.contains(OFlags::DIRECTORY)) {
            return Err(libc::EISDIR);
        }
        if flags.contains(OFlags::TRUNC) && state.tree.content(node)?.len() > 0 {
            state.tree.content(node)?.set_len(0);
            state.touch(node, at);
        }
        if let Some(node) = state.tree.nodes.get_mut(&node) {
            node.opens += 1;
        }
        Ok(node)
    }

    pub(super) fn close(&self, node: NodeId) {
        let mut state = self.state.borrow_mut();
        if let Some(node) = state.tree.nodes.get_mut(&node) {
            node.opens = node.opens.saturating_sub(1);
            if node.opens == 0 && node.links == 0 {
                state.tree.sweep();
            }
        }
    }

    pub(super) fn watch(&self, parts: &Parts) -> Result<(NodeId, WatchId), Refusal> {
        let tree = &mut self.state.borrow_mut().tree;
        let directory = tree.find(parts)?;
        Ok((directory, tree.watch(directory)?))
    }

    pub(super) fn unwatch(&self, id: WatchId) {
        self.state.borrow_mut().tree.unwatch(id);
    }

    /// Whether a watch has something to tell, if only that its host has crashed.
    pub(super) fn has_changes(&self, id: WatchId) -> bool {
        let tree = &mut self.state.borrow_mut().tree;
        tree.untold(id).is_none_or(|untold| !untold.is_empty())
    }

    pub(super) fn take_changes(&self, id: WatchId) -> Result<Changes, Refusal> {
        let tree = &mut self.state.borrow_mut().tree;
        Ok(std::mem::take(tree.untold(id).ok_or(libc::EIO)?))
    }

    /// As `close`, of one who has changed the content.
    pub(super) fn close_written(&self, node: NodeId) {
        self.state.borrow_mut().tree.note_written(node);
        self.close(node);
    }

    /// Appends at most `bytes` bytes from `at` on.
    pub(super) fn read(
        &self,
        node: NodeId,
        at: u64,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut state = self.state.borrow_mut();
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        into.extend_from_slice(state.tree.content(node)?.read(start, bytes));
        Ok(())
    }

    /// Writes at `place`, or at the end.
    pub(super) fn write(
        &self,
        node: NodeId,
        place: Option<u64>,
        bytes: &[u8],
        at: Duration,
    ) -> Result<(), Refusal> {
        let mut state = self.state.borrow_mut();
        let len = state.tree.content(node)?.len();
        let start = place.unwrap_or(len as u64);
        state.make_room(node, start.saturating_add(bytes.len() as u64))?;
        state.tree.content(node)?.write(start as usize, bytes);
        state.touch(node, at);
        Ok(())
    }

    pub(super) fn set_len(&self, node: NodeId, bytes: u64, at: Duration) -> Result<(), Refusal> {
        let mut state = self.state.borrow_mut();
        state.make_room(node, bytes)?;
        state.tree.content(node)?.set_len(bytes as usize);
        state.touch(node, at);
        Ok(())
    }

    /// A file is at least that long.
    pub(super) fn allocate(&self, node: NodeId, end: u64, at: Duration) -> Result<(), Refusal> {
        let len = self.state.borrow_mut().tree.content(node)?.len() as u64;
        if end > len { self.set_len(node, end, at) } else { Ok(()) }
    }

    /// FileContent or names are on the disk; `fails` where the disk refuses them.
    pub(super) fn sync(&self, node: NodeId, fails: bool) -> Result<(), Refusal> {
        let tree = &mut self.state.borrow_mut().tree;
        let is_dir = tree.names(node).is_ok();
        match (is_dir, fails) {
            (true, false) => tree.sync_names(node),
            (false, false) => tree.content(node)?.sync(),
            (false, true) => tree.content(node)?.fail_sync(),
            (true, true) => {}
        }
        if fails { Err(libc::EIO) } else { Ok(()) }
    }

    pub(super) fn describe(&self, node: NodeId) -> Result<Metadata, Refusal> {
        let state = self.state.borrow();
        let found = state.tree.nodes.get(&node).ok_or(libc::ENOENT)?;
        let kind = match found.kind {
            NodeKind::File(_) => FileKind::File,
            NodeKind::Directory(_) => FileKind::Directory,
        };
        Ok(Metadata {
            kind,
            len: found.len(),
            mode: found.mode,
            modified: UNIX_EPOCH + found.modified,
            changed: UNIX_EPOCH + found.changed,
            inode: node,
            device: 1,
            links: found.links,
        })
    }

    pub(super) fn describe_path(&self, parts: &Parts) -> Result<Metadata, Refusal> {
        let node = self.state.borrow().tree.find(parts)?;
        self.describe(node)
    }

    pub(super) fn create_dir(&self, parts: &Parts, mode: u32, at: Duration) -> Result<(), Refusal> {
        let mut state = self.state.borrow_mut();
        match state.tree.find(parts) {
            Ok(_) => return Err(libc::EEXIST),
            Err(libc::ENOENT) => {}
            Err(refusal) => return Err(refusal),
        }
        let (directory, name) = state.tree.find_parent(parts)?;
        let made = DiskNode::new(NodeKind::Directory(Names::default()), mode & !UMASK);
        let made = state.tree.add(directory, name, made);
        state.touch(made, at);
        state.touch(directory, at);
        Ok(())
    }

    pub(super) fn rename(&self, from: &Parts, to: &Parts, at: Duration) -> Result<(), Refusal> {
        let mut state = self.state.borrow_mut();
        state.tree.rename(from, to)?;
        state.touch_parents(&[from, to], at);
        Ok(())
    }

    pub(super) fn remove_file(&self, parts: &Parts, at: Duration) -> Result<(), Refusal> {
        let mut state = self.state.borrow_mut();
        state.tree.remove_file(parts)?;
        state.touch_parents(&[parts], at);
        Ok(())
    }

    pub(super) fn remove_dir(&self, parts: &Parts, at: Duration) -> Result<(), Refusal> {
        let mut state = self.state.borrow_mut();
        state.tree.remove_dir(parts)?;
        state.touch_parents(&[parts], at);
        Ok(())
    }

    /// The entries behind `last`, some of them.
    pub(super) fn entries(
        &self,
        directory: NodeId,
        last: Option<&OsString>,
    ) -> Result<Vec<DirEntry>, Refusal> {
        let state = self.state.borrow();
        let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
        let names =
            state.tree.names(directory)?.now.range::<OsString, _>((behind, Bound::Unbounded));
        let entries = names.take(limits::SIM_DIR_BATCH).map(|(name, &node)| {
            let is_dir = state.tree.names(node).is_ok();
            let kind = if is_dir { FileKind::Directory } else { FileKind::File };
            DirEntry { name: name.clone(), kind: Some(kind) }
        });
        Ok(entries.collect())
    }
}

impl DiskState {
    /// Notes a change of a node's content.
    fn touch(&mut self, node: NodeId, at: Duration) {
        self.latest = self.latest.max(self.base + at);
        if let Some(node) = self.tree.nodes.get_mut(&node) {
            (node.modified, node.changed) = (self.latest, self.latest);
        }
    }

    fn touch_parents(&mut self, paths: &[&Parts], at: Duration) {
        for parts in paths {
            if let Ok((directory, _)) = self.tree.find_parent(parts) {
                self.touch(directory, at);
            }
        }
    }

    /// Whether a file may be as long as that.
    fn make_room(&mut self, node: NodeId, len: u64) -> Result<(), Refusal> {
        let present = self.tree.content(node)?.len() as u64;
        let more = len.saturating_sub(present);
        let is_full = more > 0 && self.tree.used_bytes().saturating_add(more) > self.capacity_bytes;
        if is_full { Err(libc::ENOSPC) } else { Ok(()) }
    }
}

/// What a simulated process takes off the rights of what it makes.
const UMASK: u32 = 0o022;

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.borrow();
        let used = state.tree.used_bytes();
        f.debug_struct("Disk").field("used_bytes", &used).field("crashes", &state.epoch).finish()
    }
}
