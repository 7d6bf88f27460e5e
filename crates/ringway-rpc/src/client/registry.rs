//! The clients of this process by number, and the core that makes calls for other threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringway_runtime::Runtime;

use super::builder::Plan;
use super::hosts::HostList;
use super::hub;
use crate::call::status::Status;

/// Names a client in the whole process; of one that is gone it names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ClientId {
    index: u32,
    generation: u32,
}

impl ClientId {
    pub(super) fn index(self) -> usize {
        self.index as usize
    }
}

/// What the pools of a client are made by.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) plan: Arc<Plan>,
    pub(super) hosts: HostList,
}

/// One client, as the process knows it.
#[derive(Default)]
struct Entry {
    generation: u32,
    recipe: Option<Recipe>,
    /// Those that live and have a pool of it.
    cores: Vec<u32>,
}

static CLIENTS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

pub(super) fn register(recipe: Recipe) -> ClientId {
    let mut clients = lock(&CLIENTS);
    let free = clients.iter().position(|entry| entry.recipe.is_none());
    let index = free.unwrap_or_else(|| {
        clients.push(Entry::default());
        clients.len() - 1
    });
    clients[index].recipe = Some(recipe);
    ClientId { index: index as u32, generation: clients[index].generation }
}

/// The last handle of a client is gone: its pools close, on every core, once their calls are over.
pub(super) fn remove(client: ClientId) {
    let mut clients = lock(&CLIENTS);
    let entry = &mut clients[client.index()];
    debug_assert_eq!(entry.generation, client.generation, "a client is removed once");
    entry.generation = entry.generation.wrapping_add(1);
    let recipe = entry.recipe.take();
    let cores = std::mem::take(&mut entry.cores);
    drop(clients);
    for core in cores {
        hub::on_core(core, move |hub| hub.close_pool(client));
    }
    drop(recipe); // with interceptors of the user
}

/// The client has these hosts from now on: its pools are told, on every core.
///
/// They are told to look here, so that the last list counts whatever the order in which they are.
pub(super) fn set_hosts(client: ClientId, hosts: HostList) {
    let mut clients = lock(&CLIENTS);
    let entry = &mut clients[client.index()];
    debug_assert_eq!(entry.generation, client.generation, "the caller holds the client");
    let former = entry.recipe.as_mut().map(|recipe| std::mem::replace(&mut recipe.hosts, hosts));
    let cores = entry.cores.clone();
    drop(clients);
    drop(former);
    for core in cores {
        hub::on_core(core, move |hub| hub.set_hosts(client));
    }
}

/// The hosts of a client; `None` if it is gone.
pub(super) fn hosts(client: ClientId) -> Option<HostList> {
    let clients = lock(&CLIENTS);
    let entry = clients.get(client.index())?;
    let recipe = entry.recipe.as_ref().filter(|_| entry.generation == client.generation)?;
    Some(Arc::clone(&recipe.hosts))
}

/// Notes that a core has a pool of the client, and tells how to make one; `None` if the client is
/// gone.
pub(super) fn join(client: ClientId, core: u32) -> Option<Recipe> {
    let mut clients = lock(&CLIENTS);
    let entry = clients.get_mut(client.index())?;
    let recipe = entry.recipe.clone().filter(|_| entry.generation == client.generation)?;
    entry.cores.push(core);
    Some(recipe)
}

/// A core that had pools of these clients has ended.
pub(super) fn leave(gone: impl Iterator<Item = ClientId>, core: u32) {
    let mut clients = lock(&CLIENTS);
    for client in gone {
        if let Some(entry) = clients.get_mut(client.index()) {
            entry.cores.retain(|other| *other != core);
        }
    }
}

/// The core that makes calls for threads that are none.
struct Background {
    core: u32,
    /// Where its thread is: a fork has it not.
    process: u32,
    _runtime: Runtime,
}

static BACKGROUND: Mutex<Option<Background>> = Mutex::new(None);

/// The number of the background core, which is started at first use and lives as long as the
/// process.
///
/// # Errors
/// When it cannot be started: out of threads, descriptors or memory. The next use tries again.
pub(super) fn background_core() -> Result<u32, Status> {
    let mut background = lock(&BACKGROUND);
    let process = std::process::id();
    if let Some(background) = background.as_ref().filter(|known| known.process == process) {
        return Ok(background.core);
    }
    // To end it would be to wait for a thread that is not here.
    std::mem::forget(background.take());
    let failed = |why: &dyn std::fmt::Display| {
        let why = format!("cannot start a core for calls of this thread: {why}");
        Status::unavailable(why).not_executed()
    };
    let runtime = Runtime::builder().threads(1).start().map_err(|error| failed(&error))?;
    let opened = runtime.cores()[0].spawn(async || hub::with(|hub| hub.core()));
    let core = opened.map_err(|error| failed(&error))?.wait().map_err(|error| failed(&error))?;
    let core = core.ok_or_else(|| failed(&"it has ended"))?;
    *background = Some(Background { core, process, _runtime: runtime });
    Ok(core)
}

/// No foreign code runs under these locks, so a poisoned one guards sound content.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_has_a_core_of_its_own() {
        let own = background_core().expect("a core");
        assert_eq!(background_core().expect("the same"), own);
        lock(&BACKGROUND).as_mut().expect("it has been started").process += 1;
        let other = background_core().expect("another core");
        assert_ne!(other, own, "the former is that of another process");
        assert_eq!(background_core().expect("the same"), other);
    }
}
