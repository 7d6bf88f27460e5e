//! The state of a client's resolver, as all threads see it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::client::server_address::ServerAddress;
use crate::limits;
use crate::waiters;

/// What a client's [resolver](super::Resolver) has told, and how it is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ResolverStats {
    /// The name of the source.
    pub source: String,
    /// The state of the list.
    pub state: ResolverState,
    /// The hosts that are called.
    pub hosts: usize,
    /// The hosts of the source's last list.
    pub listed: usize,
    /// The entries of the last list that were left out because they are malformed or too many.
    pub skipped: usize,
    /// The lists that the source has told.
    pub updates: u64,
    /// The failures of the source.
    pub failures: u64,
    /// The time since the last list, or `None` before the first.
    pub age: Option<Duration>,
    /// The last failure, or why the last list is not used as it is; empty while all is well.
    pub last_error: String,
}

/// The state of a resolved list of hosts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ResolverState {
    /// There is no list yet: calls wait for it until their deadline.
    Waiting,
    /// The list is what the source has told last.
    Current,
    /// The source fails. The client uses the last list that it has told.
    Failing,
    /// The source has told no list yet. The client uses the last one of an earlier run, from disk.
    Stale,
    /// The last list is empty or less than half as long as the one before. Hosts that are missing in it stay in use
    /// until the source has confirmed it, or until they cannot be reached.
    Held,
}

impl fmt::Display for ResolverState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Current => "current",
            Self::Failing => "failing",
            Self::Stale => "stale",
            Self::Held => "held",
        })
    }
}

pub(crate) struct SharedState {
    source: String,
    /// Whether hosts are in use that the source does not list.
    is_keeping: AtomicBool,
    state: Mutex<State>,
}

struct State {
    stats: ResolverStats,
    told_at: Option<Instant>,
    /// Hosts to which a connection has failed while some are kept.
    unreachable: Vec<ServerAddress>,
    /// Hosts to which one has failed since the last list, and since the last connection to any.
    gone: Vec<ServerAddress>,
    /// Wakes the source when that are all.
    source_waker: Option<Waker>,
    is_closed: bool,
    /// Wakes the keeper's task.
    waker: Option<Waker>,
}

impl State {
    /// Whether a connection to each of the hosts in use has failed.
    fn is_all_gone(&self) -> bool {
        !self.gone.is_empty() && self.gone.len() >= self.stats.hosts
    }
}

/// Adds a host to a list that is no longer than that of a client.
fn add_host(list: &mut Vec<ServerAddress>, address: &ServerAddress) {
    if list.len() < limits::HOSTS_MAX && !list.contains(address) {
        list.push(address.clone());
    }
}

/// What the keeper's task has to do.
pub(super) enum Task {
    Close,
    Unreachable(Vec<ServerAddress>),
}

impl SharedState {
    pub(crate) fn new(source: String) -> Self {
        let stats = ResolverStats {
            source: source.clone(),
            state: ResolverState::Waiting,
            hosts: 0,
            listed: 0,
            skipped: 0,
            updates: 0,
            failures: 0,
            age: None,
            last_error: String::new(),
        };
        let state = State {
            stats,
            told_at: None,
            unreachable: Vec::new(),
            gone: Vec::new(),
            source_waker: None,
            is_closed: false,
            waker: None,
        };
        Self { source, is_keeping: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// The name of the source.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn stats(&self) -> ResolverStats {
        let state = self.lock();
        let age = state.told_at.map(|at| at.elapsed());
        ResolverStats { age, ..state.stats.clone() }
    }

    /// Why there are no hosts to call.
    pub(crate) fn why_empty(&self) -> String {
        let ResolverStats { source, updates, listed, last_error, .. } = self.stats();
        let why = match (updates, listed) {
            _ if !last_error.is_empty() => last_error,
            (0, _) => "it has not answered yet".to_owned(),
            (_, 0) => "it lists no servers".to_owned(),
            (_, listed) => format!("of {listed} servers that it lists, none takes calls"),
        };
        format!("no server of {source} is known: {why}")
    }

    /// Notes that no connection to a host could be made.
    pub(crate) fn unreachable(&self, address: &ServerAddress) {
        let is_keeping = self.is_keeping.load(Ordering::Relaxed);
        let mut state = self.lock();
        add_host(&mut state.gone, address);
        let source = if state.is_all_gone() { state.source_waker.take() } else { None };
        if is_keeping {
            add_host(&mut state.unreachable, address);
        }
        drop(state);
        source.into_iter().for_each(waiters::wake);
        if is_keeping {
            self.wake_keeper();
        }
    }

    /// Notes that a connection to a host was made.
    pub(crate) fn reached(&self) {
        self.lock().gone.clear();
    }

    /// Waits until no host can be reached. Of several that wait, the last is woken.
    pub(super) fn poll_all_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        if state.is_all_gone() {
            state.gone.clear();
            return Poll::Ready(());
        }
        let former = state.source_waker.replace(waker);
        drop(state);
        drop(former);
        Poll::Pending
    }

    /// Ends the resolver's tasks.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.wake_keeper();
    }

    /// Wakes the keeper's task.
    pub(super) fn wake_keeper(&self) {
        let waker = self.lock().waker.take();
        waker.into_iter().for_each(waiters::wake);
    }

    /// Whether the client was dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// What the keeper's task has to do; if there is nothing, `waker` is woken later.
    pub(super) fn next_task(&self, waker: &Waker) -> Option<Task> {
        let mut state = self.lock();
        if state.is_closed {
            return Some(Task::Close);
        }
        if !state.unreachable.is_empty() {
            return Some(Task::Unreachable(std::mem::take(&mut state.unreachable)));
        }
        let former = state.waker.replace(waker.clone());
        drop(state);
        drop(former);
        None
    }

    /// Changes the counters and the state. Returns the former state.
    pub(super) fn note(
        &self,
        is_keeping: bool,
        change: impl FnOnce(&mut ResolverStats),
        told_at: Option<Instant>,
    ) -> ResolverState {
        self.is_keeping.store(is_keeping, Ordering::Relaxed);
        let mut state = self.lock();
        let former = state.stats.state;
        change(&mut state.stats);
        if told_at.is_some() {
            (state.told_at, state.gone) = (told_at, Vec::new());
        }
        former
    }

    /// No code of a user runs under the lock, so the content of a poisoned one is sound.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
