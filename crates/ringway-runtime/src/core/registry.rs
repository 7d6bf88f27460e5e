//! The part of a core that other threads see, and the registry in which they find it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, Weak};
use std::thread;

use super::hangs::Hangs;
use crate::counters::SharedCounters;
use crate::limits;
use crate::mailbox::Mailbox;
use crate::task::TaskToken;

/// Work sent to a core, which runs it between two turns.
pub(crate) type Message = Box<dyn FnOnce() + Send>;

/// The part of a core that is `Send` and `Sync`.
pub(crate) struct CoreShared {
    id: u16,
    pub(crate) mailbox: Mailbox<Message>,
    pub(crate) counters: SharedCounters,
    pub(crate) stopping: AtomicBool,
    pub(crate) hangs: Hangs,
    /// The name of the core's thread.
    thread: String,
    eventfd: Arc<OwnedFd>,
}

impl CoreShared {
    /// Registers the calling thread's core, so that wakers on other threads find it.
    pub(crate) fn register(eventfd: Arc<OwnedFd>) -> Option<Arc<Self>> {
        let mut cores = CORES.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let vacant = cores.iter().position(|core| core.strong_count() == 0);
        let id = vacant.unwrap_or(cores.len());
        if id >= limits::LIVE_CORES_MAX {
            return None;
        }
        let shared = Arc::new(Self {
            id: id as u16,
            mailbox: Mailbox::new(limits::MAILBOX_MESSAGES),
            counters: SharedCounters::default(),
            stopping: AtomicBool::new(false),
            hangs: Hangs::default(),
            thread: thread::current().name().unwrap_or_default().to_owned(),
            eventfd,
        });
        if id == cores.len() {
            cores.push(Weak::new());
        }
        cores[id] = Arc::downgrade(&shared);
        Some(shared)
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// The name of the core's thread, as panics and debuggers show it.
    pub(crate) fn thread(&self) -> &str {
        &self.thread
    }

    /// Wakes the core from its sleep. Only the thread whose push asked for a signal may call it.
    pub(crate) fn signal(&self) {
        self.counters.signalled();
        // A full counter means that the core is about to wake anyway.
        let _already_signalled = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    /// Ends a sleep without waking a task.
    pub(crate) fn wake_up(&self) {
        if self.mailbox.wake(NO_TASK).0 {
            self.signal();
        }
    }
}

/// A token that names no task: such a wake only ends the sleep.
const NO_TASK: u64 = u64::MAX;

static CORES: RwLock<Vec<Weak<CoreShared>>> = RwLock::new(Vec::new());

/// Sends a wake to the core that owns the task; if the core is gone, nothing has to be woken.
pub(super) fn wake_elsewhere(token: TaskToken) {
    let cores = CORES.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(core) = cores.get(usize::from(token.core())).and_then(Weak::upgrade) else {
        return;
    };
    drop(cores);
    if core.mailbox.wake(token.bits()).0 {
        core.signal();
    }
}

/// Removes an ended core from the registry: nobody has to wake it any more, and its index becomes
/// free, even while handles of it exist.
pub(super) fn forget(ended: &Arc<CoreShared>) {
    let mut cores = CORES.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(core) = cores.get_mut(usize::from(ended.id))
        && std::ptr::eq(core.as_ptr(), Arc::as_ptr(ended))
    {
        *core = Weak::new();
    }
}

/// Counts a core while it runs on a thread of its own.
pub(super) struct Running;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

impl Running {
    pub(super) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Number of cores of this process that are running now.
pub(super) fn running_cores() -> usize {
    RUNNING.load(Ordering::Relaxed)
}
