//! A thread outside of the runtime that keeps bytes in the core's receive buffers and drops them later, perhaps
//! when the core is gone.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use crate::ledger::World;
use crate::pattern::Source;

/// Bytes that a stream has received, and the bytes that they must stay equal to.
pub(crate) struct Shared {
    pub(crate) bytes: Bytes,
    pub(crate) source: Source,
    pub(crate) from: u64,
}

/// The thread of one run. It starts with the first bytes that it receives.
#[derive(Default)]
pub(crate) struct Elsewhere(Mutex<Option<Keeper>>);

struct Keeper {
    sender: SyncSender<Shared>,
    thread: JoinHandle<()>,
}

impl Elsewhere {
    /// Gives bytes to the thread, or drops them here if the thread is behind.
    pub(crate) fn keep(&self, world: &Arc<World>, shared: Shared) {
        let mut keeper = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keeper = keeper.get_or_insert_with(|| Keeper::start(Arc::clone(world)));
        drop(keeper.sender.try_send(shared));
    }

    /// Drops all kept bytes and waits until the thread has ended.
    pub(crate) fn end(&self) {
        let keeper = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Keeper { sender, thread }) = keeper {
            drop(sender);
            thread.join().expect("it only compares bytes");
        }
    }
}

impl Keeper {
    fn start(world: Arc<World>) -> Self {
        let (sender, given) = sync_channel(WAITING_MAX);
        let thread = thread::Builder::new().name("elsewhere".to_owned());
        let thread = thread.spawn(move || keep(&world, &given)).expect("a thread");
        Self { sender, thread }
    }
}

fn keep(world: &World, given: &Receiver<Shared>) {
    let mut kept = VecDeque::new();
    for shared in given {
        kept.push_back(shared);
        if kept.len() > KEPT_MAX {
            kept.pop_front().iter().for_each(|shared| shared.check(world));
        }
    }
    kept.iter().for_each(|shared| shared.check(world));
}

impl Shared {
    fn check(&self, world: &World) {
        if let Some(at) = self.source.first_wrong(self.from, &self.bytes) {
            let place = self.from + at as u64;
            let whose = world.attribute(&self.bytes[at..]);
            world.complain(format_args!("byte {place} was overwritten on a thread, it is {whose}"));
        }
    }
}

const WAITING_MAX: usize = 64;
/// Few enough not to pin half of a core's buffers of any size.
const KEPT_MAX: usize = 48;
