//! Watches on files that somebody waits for.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::driver::files::{FileAnswer, FileDescriptor, FileEnd, FileOp};
use crate::driver::{Event, Key};

/// The watches in the epoll instance, by the bits of the operations that wait for them.
#[derive(Default)]
pub(super) struct Watches {
    awaited: BTreeMap<u64, Arc<FileDescriptor>>,
}

/// Marks the data of a watch; those of a socket have none of the high eight bits, and the eventfd has all.
const MARK: u64 = 1 << 56;

impl Watches {
    /// The operation that an event of epoll is for, if it is one of these.
    pub(super) fn name_of(data: EventData) -> Option<Key> {
        (data.u64() >> 56 == MARK >> 56).then(|| Key::from_bits(data.u64()))
    }

    /// Waits until the watch has something to tell. It is level-triggered: what is there by now counts.
    pub(super) fn begin(
        &mut self,
        epoll: &OwnedFd,
        name: Key,
        watch: Arc<FileDescriptor>,
    ) -> Option<Event> {
        let data = EventData::new_u64(MARK | name.bits());
        let added = watch.of_kernel().map(|fd| epoll::add(epoll, fd, data, EventFlags::IN));
        match added {
            Ok(Ok(())) => {
                self.awaited.insert(name.bits(), watch);
                None
            }
            Ok(Err(errno)) => Some(ended(name, watch, errno.raw_os_error())),
            Err(_) => Some(ended(name, watch, libc::EBADF)),
        }
    }

    /// Ends a wait that has not ended; with an error unless that is zero.
    pub(super) fn end(&mut self, epoll: &OwnedFd, name: Key, errno: i32) -> Option<Event> {
        let watch = self.awaited.remove(&name.bits())?;
        if let Ok(fd) = watch.of_kernel() {
            let _gone_already = epoll::delete(epoll, fd);
        }
        Some(ended(name, watch, errno))
    }
}

fn ended(name: Key, watch: Arc<FileDescriptor>, errno: i32) -> Event {
    let op = FileOp::AwaitChanges { watch };
    let end = match errno {
        0 => Box::new(FileEnd { op: Some(op), answer: Ok(FileAnswer::Done) }),
        errno => FileEnd::failed(op, errno),
    };
    Event::FileEnded { name, end }
}
