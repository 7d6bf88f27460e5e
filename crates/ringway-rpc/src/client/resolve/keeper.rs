//! The tasks of one client's resolver, on the background core.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use ringway_runtime::{self as runtime, contain};

use super::Resolver;
use super::guard::ListGuard;
use super::last_known;
use super::state::{ResolverState, ResolverStats, SharedState, Task};
use super::updates::{CheckedList, HostUpdates, Verdict, check};
use crate::call::status::Status;
use crate::client::connector::Connector;
use crate::client::host_rules::HostRules;
use crate::client::hosts::{Host, HostList, ListedHost};
use crate::client::registry::ClientId;
use crate::client::server_address::ServerAddress;
use crate::client::{background, local_clients, registry};
use crate::limits;

/// What a keeper needs of its client.
pub(crate) struct KeeperArgs {
    pub(crate) client: ClientId,
    pub(crate) state: Arc<SharedState>,
    pub(crate) connector: Connector,
    pub(crate) rules: HostRules,
    /// The file that keeps the last list.
    pub(crate) last_known: Option<PathBuf>,
}

/// Takes the lists of a resolver and gives the client's pools what they may use of them.
pub(crate) struct Keeper {
    args: KeeperArgs,
    guard: RefCell<ListGuard>,
    /// The list that pools have.
    published: RefCell<HostList>,
    /// Whether the source has told a list.
    has_list: Cell<bool>,
    /// Whether the file is out of date.
    is_unwritten: Cell<bool>,
    /// When to read the file, as long as that may be needed.
    read_at: Cell<Option<Instant>>,
}

/// Starts a resolver on the background core.
///
/// # Errors
/// Fails when the background core cannot be started.
pub(crate) fn start(args: KeeperArgs, resolver: Box<dyn Resolver>) -> Result<(), Status> {
    let core = background::core()?;
    local_clients::on_core(core, move |_| {
        let keeper = Rc::new(Keeper::new(args));
        runtime::spawn_named("resolver of a client", keeper.run(resolver));
    });
    Ok(())
}

impl Keeper {
    fn new(args: KeeperArgs) -> Self {
        Self {
            read_at: Cell::new(None),
            args,
            guard: RefCell::default(),
            published: RefCell::new(Arc::new([])),
            has_list: Cell::new(false),
            is_unwritten: Cell::new(false),
        }
    }

    pub(super) fn source(&self) -> &str {
        self.args.state.source()
    }

    /// Runs the resolver until the client is dropped.
    async fn run(self: Rc<Self>, resolver: Box<dyn Resolver>) {
        let keeper = Rc::clone(&self);
        let resolving = runtime::spawn_named("source of a client's hosts", async move {
            let mut end = ResolverEnd { keeper: Rc::clone(&keeper), has_returned: false };
            resolver.run(HostUpdates::new(keeper)).await;
            end.has_returned = true;
        });
        if self.args.last_known.is_some() {
            self.read_at.set(Some(runtime::now() + limits::LAST_KNOWN_WAIT));
        }
        let mut write_at = None;
        loop {
            match self.next(write_at).await {
                KeeperJob::Close => break,
                KeeperJob::Unreachable(hosts) => self.unreachable(&hosts),
                KeeperJob::Read => self.read_last_known().await,
                KeeperJob::Write => {
                    self.write_last_known().await;
                    write_at = Some(runtime::now() + limits::LAST_KNOWN_INTERVAL);
                }
            }
        }
        resolving.abort();
        if self.is_unwritten.get() {
            self.write_last_known().await;
        }
    }

    /// Waits until there is something to do.
    async fn next(&self, write_at: Option<Instant>) -> KeeperJob {
        let poll = |now: Instant, waker: &Waker| {
            match self.args.state.next_task(waker) {
                Some(Task::Close) => return Ok(KeeperJob::Close),
                Some(Task::Unreachable(hosts)) => return Ok(KeeperJob::Unreachable(hosts)),
                None => {}
            }
            if self.read_at.get().is_some_and(|at| at <= now) {
                return Ok(KeeperJob::Read);
            }
            if self.is_unwritten.get() && write_at.is_none_or(|at| at <= now) {
                return Ok(KeeperJob::Write);
            }
            let writes = write_at.filter(|_| self.is_unwritten.get());
            Err(self.read_at.get().into_iter().chain(writes).min())
        };
        let mut timer = std::pin::pin!(runtime::sleep(Duration::ZERO));
        poll_fn(|cx| {
            loop {
                let until = match poll(runtime::now(), cx.waker()) {
                    Ok(next) => return Poll::Ready(next),
                    Err(until) => until,
                };
                let Some(until) = until else {
                    return Poll::Pending;
                };
                timer.as_mut().get_mut().reset(until);
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Takes a list of the source, which may have confirmed it.
    pub(super) fn take(&self, list: CheckedList, is_confirmed: bool) -> Verdict {
        let CheckedList { hosts, skipped, why } = list;
        if hosts.is_empty() && skipped > 0 {
            self.failed(format!("none of the {skipped} entries of its list is a server: {why}"));
            return Verdict::Refused;
        }
        let (listed, now) = (hosts.len(), runtime::now());
        self.has_list.set(true);
        self.read_at.set(None);
        let is_held = self.guard.borrow_mut().offer(hosts, now, is_confirmed);
        let used = self.publish();
        // A list that is held back does not make up for one before it that was not written yet.
        if !is_held && self.args.last_known.is_some() {
            self.is_unwritten.set(listed > 0);
        }
        let why = match (is_held, skipped) {
            (true, _) => format!("it lists {listed} hosts all at once, and {used} are in use"),
            (false, 0) => String::new(),
            (false, _) => format!("{skipped} entries of its list are left out: {why}"),
        };
        let state = if is_held { ResolverState::Held } else { ResolverState::Current };
        let former = self.args.state.note(
            is_held,
            |stats| {
                stats.updates += 1;
                (stats.listed, stats.skipped, stats.hosts) = (listed, skipped, used);
                (stats.state, stats.last_error) = (state, why.clone());
            },
            Some(Instant::now()),
        );
        self.log_change(former, state, &why);
        self.args.state.wake_keeper();
        if is_held { Verdict::Held } else { Verdict::Taken }
    }

    /// Notes a failure of the source.
    pub(super) fn failed(&self, why: String) {
        let is_keeping = self.guard.borrow().is_keeping();
        let has_list = self.has_list.get();
        let mut state = ResolverState::Waiting;
        let former = self.args.state.note(
            is_keeping,
            |stats| {
                stats.failures += 1;
                stats.last_error.clone_from(&why);
                if has_list {
                    stats.state = ResolverState::Failing;
                }
                state = stats.state;
            },
            None,
        );
        if former == ResolverState::Waiting && self.args.state.stats().failures == 1 {
            self.log(state, &why);
        } else {
            self.log_change(former, state, &why);
        }
        if let Some(at) = self.read_at.get() {
            self.read_at.set(Some(at.min(runtime::now())));
            self.args.state.wake_keeper();
        }
    }

    /// Waits until no host can be reached.
    pub(super) async fn all_unreachable(&self) {
        poll_fn(|cx| self.args.state.poll_all_gone(cx)).await;
    }

    /// Hosts that the source does not list any more leave when they cannot be reached.
    fn unreachable(&self, hosts: &[ServerAddress]) {
        let now = runtime::now();
        let mut guard = self.guard.borrow_mut();
        let gone = hosts.iter().filter(|host| guard.unreachable(host, now)).count();
        let is_keeping = guard.is_keeping();
        drop(guard);
        if gone == 0 {
            return;
        }
        let used = self.publish();
        let mut state = ResolverState::Held;
        let former = self.args.state.note(
            is_keeping,
            |stats| {
                stats.hosts = used;
                if !is_keeping && stats.state == ResolverState::Held {
                    (stats.state, stats.last_error) = (ResolverState::Current, String::new());
                }
                state = stats.state;
            },
            None,
        );
        self.log_change(former, state, "hosts that it does not list cannot be reached");
    }

    /// Uses the list on disk if the source has not told any.
    async fn read_last_known(&self) {
        self.read_at.set(None);
        let Some(path) = self.args.last_known.clone() else {
            return;
        };
        let read = last_known::read(path.clone(), self.source()).await;
        if self.has_list.get() {
            return;
        }
        let hosts = match read {
            Ok(hosts) => check(hosts.into_iter().map(Ok)).hosts,
            Err(error) => {
                let why = format!("the last known list {} cannot be used: {error}", path.display());
                return self.log(ResolverState::Waiting, &why);
            }
        };
        if hosts.is_empty() {
            return;
        }
        self.guard.borrow_mut().offer(hosts, runtime::now(), false);
        let used = self.publish();
        let state = ResolverState::Stale;
        let set = |stats: &mut ResolverStats| (stats.state, stats.hosts) = (state, used);
        let former = self.args.state.note(false, set, None);
        self.log_change(former, state, &format!("the list is that of {}", path.display()));
    }

    async fn write_last_known(&self) {
        self.is_unwritten.set(false);
        let Some(path) = &self.args.last_known else {
            return;
        };
        let hosts = self.guard.borrow().hosts();
        if let Err(error) = last_known::write(path, self.source(), &hosts).await {
            let why = format!("its list cannot be kept in {}: {error}", path.display());
            self.log(ResolverState::Current, &why);
        }
    }

    /// Gives the hosts that may be called to all pools. Returns their number.
    fn publish(&self) -> usize {
        let hosts: Vec<Host> = self.guard.borrow().hosts();
        let chosen = self.args.rules.choose(hosts);
        let former = Arc::clone(&self.published.borrow());
        let known: HashMap<_, _> = former.iter().map(|listed| (&listed.address, listed)).collect();
        let listed = chosen.into_iter().filter_map(|chosen| {
            match known.get(&chosen.host.address) {
                Some(&known) => {
                    let (weight, is_near) = (chosen.host.weight, chosen.is_near);
                    Some(ListedHost { weight, is_near, ..known.clone() })
                }
                // It was checked when the list was taken.
                None => self.args.connector.listed(chosen).ok(),
            }
        });
        let list: HostList = listed.collect::<Vec<_>>().into();
        let is_same = list.len() == former.len()
            && list.iter().zip(&*former).all(|(new, old)| {
                (&new.address, new.weight, new.is_near) == (&old.address, old.weight, old.is_near)
            });
        let count = list.len();
        if !is_same {
            self.published.replace(Arc::clone(&list));
            let client = self.args.client;
            for core in registry::set_hosts(client, list) {
                local_clients::on_core(core, move |local| local.look_at_hosts(client));
            }
        }
        count
    }

    fn log_change(&self, former: ResolverState, state: ResolverState, why: &str) {
        if former != state {
            self.log(state, why);
        }
    }

    fn log(&self, state: ResolverState, why: &str) {
        let (source, is_well) = (self.source(), state == ResolverState::Current && why.is_empty());
        contain("a log subscriber", || match is_well {
            true => tracing::info!(source, %state, "the hosts of a client are known"),
            false => tracing::warn!(source, %state, why, "the hosts of a client are in doubt"),
        });
    }
}

enum KeeperJob {
    Close,
    Unreachable(Vec<ServerAddress>),
    Read,
    Write,
}

/// Notes the end of a resolver that has panicked, or has told no list: nobody keeps the list up to date.
struct ResolverEnd {
    keeper: Rc<Keeper>,
    has_returned: bool,
}

impl Drop for ResolverEnd {
    fn drop(&mut self) {
        let why = match (self.has_returned, self.keeper.has_list.get()) {
            _ if self.keeper.args.state.is_closed() => return,
            (false, _) => "its resolver has panicked, and tells nothing more",
            (true, false) => "it has ended without a list",
            (true, true) => return,
        };
        self.keeper.failed(why.to_owned());
    }
}
