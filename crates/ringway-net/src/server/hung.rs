//! Cores that hang: nobody accepts for them, so new connections must not be given to them.
//!
//! ```text
//!  watchdog: it hangs ─► its TCP sockets stop to listen ─► the kernel gives new connections to the other cores
//!  the core goes on ─► its accept fails ─► it listens again
//! ```

use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ringway_runtime::io::Listener;
use socket2::Socket;

use super::log::log;
use super::shared::ServerShared;
use crate::limits;

/// Called when a first core of the server hangs, and when none does any more.
pub(crate) type HangHook = Box<dyn Fn(bool) + Send + Sync>;

/// Which cores of a server hang, and where they listen.
pub(crate) struct Hung {
    cores: Box<[HungCore]>,
    hooks: Vec<HangHook>,
    /// Held while a change is told, so that hooks hear the changes in their order.
    changes: Mutex<()>,
}

#[derive(Default)]
struct HungCore {
    hangs: AtomicBool,
    /// Whether its sockets were stopped, and it has not noticed.
    is_kept_out: AtomicBool,
    /// Second descriptors of its listening sockets, which share an address with those of other cores.
    sockets: Mutex<Vec<Arc<Socket>>>,
}

impl HungCore {
    /// No foreign code runs under the lock, so its content is sound even if it is poisoned.
    fn sockets(&self) -> MutexGuard<'_, Vec<Arc<Socket>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hung {
    pub(crate) fn new(cores: usize, hooks: Vec<HangHook>) -> Self {
        let cores = (0..cores).map(|_| HungCore::default()).collect();
        Self { cores, hooks, changes: Mutex::default() }
    }

    pub(crate) fn hangs(&self, core: usize) -> bool {
        self.cores[core].hangs.load(Ordering::Relaxed)
    }

    fn count(&self) -> usize {
        (0..self.cores.len()).filter(|&core| self.hangs(core)).count()
    }

    fn note(&self, core: usize, hangs: bool) {
        let _one_after_another = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.count();
        self.cores[core].hangs.store(hangs, Ordering::Relaxed);
        let now = self.count();
        if hangs && now < self.cores.len() {
            self.keep_out(core);
        }
        if (before == 0) != (now == 0) {
            self.hooks.iter().for_each(|hook| hook(now > 0));
        }
    }

    /// Stops the listening sockets of a core. The kernel resets the connections that it has queued there, whose
    /// clients can connect again, and gives new ones to the sockets of the other cores.
    fn keep_out(&self, core: usize) {
        let sockets = self.cores[core].sockets();
        if sockets.is_empty() {
            return;
        }
        self.cores[core].is_kept_out.store(true, Ordering::SeqCst);
        let stopped: Vec<_> = sockets.iter().map(|it| it.shutdown(Shutdown::Read)).collect();
        drop(sockets); // who logs may do anything
        for stopped in stopped {
            log(|| {
                tracing::warn!(core, ?stopped, "a core hangs: new connections go to the others")
            });
        }
    }

    /// Listens again if the sockets of `core` were stopped because it hung. Returns whether they were.
    pub(crate) fn let_in_again(&self, core: usize) -> bool {
        if !self.cores[core].is_kept_out.swap(false, Ordering::SeqCst) {
            return false;
        }
        let sockets = self.cores[core].sockets();
        let listening: Vec<_> = sockets.iter().map(|it| it.listen(limits::BACKLOG)).collect();
        drop(sockets);
        for listens in listening {
            log(|| tracing::info!(core, ?listens, "a core that hung accepts connections again"));
        }
        true
    }
}

/// Has `shared` told when one of its cores hangs.
pub(crate) fn watch(shared: &Arc<ServerShared>) {
    for (core, handle) in shared.handles().iter().enumerate() {
        let shared: Weak<ServerShared> = Arc::downgrade(shared);
        handle.on_hang(move |hangs| {
            if let Some(shared) = shared.upgrade() {
                shared.hung.note(core, hangs);
            }
        });
    }
}

/// A listening socket that other threads may stop, until this is dropped.
pub(crate) struct MayBeStopped {
    shared: Arc<ServerShared>,
    core: usize,
    socket: Arc<Socket>,
}

impl MayBeStopped {
    /// `None` if the socket has no second descriptor, as those of simulations.
    pub(crate) fn new(
        shared: &Arc<ServerShared>,
        core: usize,
        listener: &Listener,
    ) -> Option<Self> {
        let mut second = None;
        let made = listener.with_socket(|socket| {
            second = Some(socket.try_clone()?);
            Ok::<(), io::Error>(())
        });
        let socket = Arc::new(second.filter(|_| made.is_ok())?);
        shared.hung.cores[core].sockets().push(Arc::clone(&socket));
        Some(Self { shared: Arc::clone(shared), core, socket })
    }
}

impl Drop for MayBeStopped {
    fn drop(&mut self) {
        let mut sockets = self.shared.hung.cores[self.core].sockets();
        sockets.retain(|socket| !Arc::ptr_eq(socket, &self.socket));
    }
}
