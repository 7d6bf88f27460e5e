//! The names of a simulated file system: as programs see them, as they are on the disk, and what a crash may
//! undo.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;

use super::content::FileContent;
use crate::driver::files::Changes;
use crate::driver::sim::rng::Rng;
use crate::limits;

/// Names a node of one disk; never used twice.
pub(crate) type NodeId = u64;

/// An error number.
pub(crate) type Refusal = i32;

/// The parts of a path below its disk's root.
pub(crate) type Parts = [OsString];

/// Files and directories with their names.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<NodeId, DiskNode>,
    next: NodeId,
    /// Changes of names that are not on the disk, oldest first.
    unsynced: VecDeque<Renaming>,
    watches: BTreeMap<WatchId, DirWatch>,
    next_watch: WatchId,
}

/// Names a watch of one disk; never used twice.
pub(crate) type WatchId = u64;

#[derive(Debug)]
struct DirWatch {
    directory: NodeId,
    untold: Changes,
}

#[derive(Debug)]
pub(super) struct DiskNode {
    pub(super) kind: NodeKind,
    pub(super) mode: u32,
    pub(super) links: u32,
    pub(super) opens: u32,
    /// Of content, since the start of the disk.
    pub(super) modified: std::time::Duration,
    pub(super) changed: std::time::Duration,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    File(FileContent),
    Directory(Names),
}

#[derive(Default, Debug)]
pub(super) struct Names {
    pub(super) now: BTreeMap<OsString, NodeId>,
    durable: BTreeMap<OsString, NodeId>,
}

/// One change of names, which happens whole or not at all: each name and what it names from then on.
type Renaming = Vec<(NodeId, OsString, Option<NodeId>)>;

pub(super) const ROOT: NodeId = 1;

impl Tree {
    pub(super) fn new() -> Self {
        let root = DiskNode::new(NodeKind::Directory(Names::default()), 0o755);
        let nodes = BTreeMap::from([(ROOT, root)]);
        Self {
            nodes,
            next: ROOT + 1,
            unsynced: VecDeque::new(),
            watches: BTreeMap::new(),
            next_watch: 0,
        }
    }

    /// What there is at a path.
    pub(super) fn find(&self, parts: &Parts) -> Result<NodeId, Refusal> {
        let mut at = ROOT;
        for part in parts {
            at = *self.names(at)?.now.get(part).ok_or(libc::ENOENT)?;
        }
        Ok(at)
    }

    /// The directory of the last part of a path, and that part.
    pub(super) fn find_parent<'p>(
        &self,
        parts: &'p Parts,
    ) -> Result<(NodeId, &'p OsString), Refusal> {
        let (name, above) = parts.split_last().ok_or(libc::EBUSY)?;
        let directory = self.find(above)?;
        self.names(directory)?;
        Ok((directory, name))
    }

    pub(super) fn names(&self, node: NodeId) -> Result<&Names, Refusal> {
        match self.nodes.get(&node).map(|node| &node.kind) {
            Some(NodeKind::Directory(names)) => Ok(names),
            Some(NodeKind::File(_)) => Err(libc::ENOTDIR),
            None => Err(libc::ENOENT),
        }
    }

    pub(super) fn content(&mut self, node: NodeId) -> Result<&mut FileContent, Refusal> {
        match self.nodes.get_mut(&node).map(|node| &mut node.kind) {
            Some(NodeKind::File(content)) => Ok(content),
            Some(NodeKind::Directory(_)) => Err(libc::EISDIR),
            None => Err(libc::ENOENT),
        }
    }

    /// Makes a node of that name, which is free.
    pub(super) fn add(&mut self, directory: NodeId, name: &OsString, node: DiskNode) -> NodeId {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.rename_all(vec![(directory, name.clone(), Some(id))]);
        id
    }

    pub(super) fn remove_file(&mut self, parts: &Parts) -> Result<(), Refusal> {
        let (directory, name) = self.find_parent(parts)?;
        let node = self.find(parts)?;
        self.content(node)?;
        self.rename_all(vec![(directory, name.clone(), None)]);
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, parts: &Parts) -> Result<(), Refusal> {
        let (directory, name) = self.find_parent(parts)?;
        let node = self.find(parts)?;
        if !self.names(node)?.now.is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        self.rename_all(vec![(directory, name.clone(), None)]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Parts, to: &Parts) -> Result<(), Refusal> {
        let (from_directory, from_name) = self.find_parent(from)?;
        let node = self.find(from)?;
        let (to_directory, to_name) = self.find_parent(to)?;
        if to.len() > from.len() && to.starts_with(from) {
            return Err(libc::EINVAL);
        }
        let is_dir = self.names(node).is_ok();
        match self.find(to) {
            Err(libc::ENOENT) => {}
            Err(refusal) => return Err(refusal),
            Ok(same) if same == node => return Ok(()),
            Ok(former) => match (is_dir, self.names(former)) {
                (true, Err(refusal)) => return Err(refusal),
                (true, Ok(names)) if !names.now.is_empty() => return Err(libc::ENOTEMPTY),
                (false, Ok(_)) => return Err(libc::EISDIR),
                _ => {}
            },
        }
        self.rename_all(vec![
            (from_directory, from_name.clone(), None),
            (to_directory, to_name.clone(), Some(node)),
        ]);
        Ok(())
    }

    fn rename_all(&mut self, renaming: Renaming) {
        for (directory, name, node) in &renaming {
            let Some(DiskNode { kind: NodeKind::Directory(names), .. }) =
                self.nodes.get_mut(directory)
            else {
                continue;
            };
            let former = match node {
                Some(node) => names.now.insert(name.clone(), *node),
                None => names.now.remove(name),
            };
            for watch in self.watches.values_mut() {
                if watch.directory == *directory {
                    watch.untold.note(name);
                }
                if former == Some(watch.directory) {
                    watch.untold.note_gone();
                }
            }
            if let Some(former) = former.and_then(|former| self.nodes.get_mut(&former)) {
                former.links = former.links.saturating_sub(1);
            }
            if let Some(node) = node.and_then(|node| self.nodes.get_mut(&node)) {
                node.links += 1;
            }
        }
        self.unsynced.push_back(renaming);
        if self.unsynced.len() > limits::SIM_UNSYNCED_MAX {
            let oldest = self.unsynced.pop_front(); // a kernel writes back unasked, too
            self.keep(oldest);
            self.sweep();
        }
    }

    pub(super) fn watch(&mut self, directory: NodeId) -> Result<WatchId, Refusal> {
        self.names(directory)?;
        let id = self.next_watch;
        self.next_watch += 1;
        self.watches.insert(id, DirWatch { directory, untold: Changes::default() });
        Ok(id)
    }

    pub(super) fn unwatch(&mut self, id: WatchId) {
        self.watches.remove(&id);
    }

    /// What a watch has to tell.
    pub(super) fn untold(&mut self, id: WatchId) -> Option<&mut Changes> {
        self.watches.get_mut(&id).map(|watch| &mut watch.untold)
    }

    /// A writer has closed a file.
    pub(super) fn note_written(&mut self, node: NodeId) {
        for watch in self.watches.values_mut() {
            let Some(DiskNode { kind: NodeKind::Directory(names), .. }) =
                self.nodes.get(&watch.directory)
            else {
                continue;
            };
            let its = names.now.iter().filter(|(_, named)| **named == node);
            its.for_each(|(name, _)| watch.untold.note(name));
        }
    }

    /// Puts changes of names on the disk.
    fn keep(&mut self, renamings: impl IntoIterator<Item = Renaming>) {
        for (directory, name, node) in renamings.into_iter().flatten() {
            if let Some(DiskNode { kind: NodeKind::Directory(names), .. }) =
                self.nodes.get_mut(&directory)
            {
                match node {
                    Some(node) => names.durable.insert(name, node),
                    None => names.durable.remove(&name),
                };
            }
        }
    }

    /// The names of a directory are on the disk, and so is what was changed together with them or before that
    /// in a directory which this concerns. Others are not: a file that is new in a new directory needs both.
    pub(super) fn sync_names(&mut self, directory: NodeId) {
        let mut concerned = BTreeSet::from([directory]);
        let mut is_kept = vec![false; self.unsynced.len()];
        for (at, renaming) in self.unsynced.iter().enumerate().rev() {
            if renaming.iter().any(|(directory, ..)| concerned.contains(directory)) {
                is_kept[at] = true;
                concerned.extend(renaming.iter().map(|(directory, ..)| *directory));
            }
        }
        let all = std::mem::take(&mut self.unsynced).into_iter().zip(is_kept);
        let (kept, left): (Vec<_>, Vec<_>) = all.partition(|(_, is_kept)| *is_kept);
        self.unsynced = left.into_iter().map(|(renaming, _)| renaming).collect();
        self.keep(kept.into_iter().map(|(renaming, _)| renaming));
        self.sweep();
    }

    /// Of the names only what a journal had got to is left, and of each file what its content says.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        self.watches.clear();
        let mut unsynced = std::mem::take(&mut self.unsynced);
        unsynced.truncate(rng.below(unsynced.len() + 1));
        self.keep(unsynced);
        for node in self.nodes.values_mut() {
            node.opens = 0;
            node.links = 0;
            match &mut node.kind {
                NodeKind::File(content) => content.crash(rng),
                NodeKind::Directory(names) => names.now.clone_from(&names.durable),
            }
        }
        self.sweep();
        let named: Vec<NodeId> = self.nodes.values().flat_map(DiskNode::children).collect();
        for child in named {
            if let Some(child) = self.nodes.get_mut(&child) {
                child.links += 1;
            }
        }
    }

    /// Drops the nodes that nothing can reach any more.
    pub(super) fn sweep(&mut self) {
        let mut reached = BTreeSet::new();
        let opened = self.nodes.iter().filter(|(_, node)| node.opens > 0).map(|(&id, _)| id);
        let named = self.unsynced.iter().flatten().flat_map(|&(at, _, node)| [Some(at), node]);
        let mut queue: Vec<NodeId> = opened.chain(named.flatten()).chain([ROOT]).collect();
        while let Some(id) = queue.pop() {
            if reached.insert(id)
                && let Some(DiskNode { kind: NodeKind::Directory(names), .. }) = self.nodes.get(&id)
            {
                queue.extend(names.now.values().chain(names.durable.values()));
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
    }

    /// Bytes of all files that have a name or are open.
    pub(super) fn used_bytes(&self) -> u64 {
        let held = self.nodes.values().filter(|node| node.links > 0 || node.opens > 0);
        held.map(DiskNode::len).sum()
    }
}

impl DiskNode {
    pub(super) fn new(kind: NodeKind, mode: u32) -> Self {
        let never = std::time::Duration::ZERO;
        Self { kind, mode, links: 0, opens: 0, modified: never, changed: never }
    }

    pub(super) fn len(&self) -> u64 {
        match &self.kind {
            NodeKind::File(content) => content.len() as u64,
            NodeKind::Directory(_) => 0,
        }
    }

    fn children(&self) -> Vec<NodeId> {
        match &self.kind {
            NodeKind::File(_) => Vec::new(),
            NodeKind::Directory(names) => names.now.values().copied().collect(),
        }
    }
}
