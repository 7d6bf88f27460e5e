//! What has changed in a watched directory.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::descriptor::FileDescriptor;
use crate::limits;

/// What a [`Watch`](crate::fs::Watch) tells.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Changes {
    names: BTreeSet<OsString>,
    look_again: bool,
    is_gone: bool,
}

impl Changes {
    /// The names at which something has changed, each once: what is there now is to be looked up.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.names.iter().map(OsString::as_os_str)
    }

    /// Whether there were more changes than are told by their names: anything may have changed.
    #[must_use]
    pub fn look_again(&self) -> bool {
        self.look_again
    }

    /// Whether the directory itself is gone from its place, and nothing more will be told.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.look_again && !self.is_gone
    }

    pub(crate) fn has(&self, name: &OsStr) -> bool {
        self.names.contains(name)
    }

    pub(crate) fn of_name(name: OsString) -> Self {
        Self { names: BTreeSet::from([name]), ..Self::default() }
    }

    pub(crate) fn note(&mut self, name: &OsStr) {
        if self.names.len() < limits::WATCH_NAMES_MAX {
            self.names.insert(name.to_owned());
        } else if !self.names.contains(name) {
            self.look_again = true;
        }
    }

    pub(crate) fn note_gone(&mut self) {
        self.is_gone = true;
    }
}

/// What is told of: content once its writer has closed the file, and every change of names.
const TOLD: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Has the kernel watch a directory.
pub(super) fn watch(path: &CStr) -> io::Result<FileDescriptor> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, path, TOLD)?;
    Ok(FileDescriptor::Kernel(watch))
}

/// Takes what has changed off a watch, without waiting. A watch that goes on telling is left after some of it.
pub(crate) fn read_changes(watch: &FileDescriptor) -> io::Result<Changes> {
    let mut memory = [MaybeUninit::uninit(); limits::WATCH_READ_BYTES];
    let mut reader = Reader::new(watch.of_kernel()?, &mut memory);
    let mut changes = Changes::default();
    for _ in 0..limits::WATCH_EVENTS_MAX {
        let event = match reader.next() {
            Ok(event) => event,
            Err(Errno::WOULDBLOCK | Errno::INTR) => break,
            Err(error) => return Err(error.into()),
        };
        let what = event.events();
        changes.look_again |= what.contains(ReadFlags::QUEUE_OVERFLOW);
        let ends = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        changes.is_gone |= what.intersects(ends | ReadFlags::IGNORED);
        if let Some(name) = event.file_name() {
            changes.note(OsStr::from_bytes(name.to_bytes()));
        }
    }
    Ok(changes)
}
