//! Which tasks the cores run, seen by looking again and again, and only while somebody looks at the page.
//!
//! A core writes down the name of the task that it polls, for the watchdog. A job of the blocking pool reads it
//! some hundred times a second: that costs the core nothing, and the share of the looks is the share of the time.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ringway_runtime::{CoreHandle, spawn_blocking};
use serde_json::{Value, json};

use crate::limits;

/// The looks at a server's cores.
#[derive(Default, Debug)]
pub(crate) struct Profile(Arc<Looks>);

#[derive(Default, Debug)]
struct Looks {
    seen: Mutex<Seen>,
    over: Condvar,
}

/// What was seen. Counts only grow, so that each page tells by itself what is new to it.
#[derive(Default, Debug)]
struct Seen {
    /// When nobody looks at the page any more; `None` if nobody does.
    watched_until: Option<Instant>,
    is_over: bool,
    /// The cores of the last question: one that gets its first connection joins them.
    cores: Vec<CoreHandle>,
    looks: u64,
    /// The looks at each core that have found a task, by its name.
    tasks: HashMap<usize, HashMap<&'static str, u64>>,
}

impl Profile {
    /// Looks at the cores for some seconds from now on. Called on a core.
    pub(super) fn watch(&self, cores: Vec<CoreHandle>) {
        let mut seen = self.0.lock();
        seen.cores = cores;
        let until = Instant::now() + limits::CONSOLE_WATCHED_FOR;
        let is_watched = seen.watched_until.replace(until).is_some();
        drop(seen);
        let looks = Arc::clone(&self.0);
        if !is_watched && spawn_blocking(move || looks.go_on()).is_err() {
            self.0.lock().watched_until = None; // the pool is full: the page shows no tasks
        }
    }

    /// What was seen of a core.
    pub(super) fn of(&self, core: usize) -> Value {
        let seen = self.0.lock();
        let mut tasks: Vec<_> = seen.tasks.get(&core).into_iter().flatten().collect();
        tasks.sort_unstable_by_key(|(name, count)| (std::cmp::Reverse(**count), **name));
        let all: u64 = tasks.iter().map(|(_, count)| **count).sum();
        tasks.truncate(limits::CONSOLE_TASKS_MAX);
        json!({ "looks": seen.looks, "in_tasks": all, "tasks": tasks })
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.over.notify_all();
    }
}

impl Looks {
    /// No foreign code runs under the lock, so its content is sound even if it is poisoned.
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the cores until nobody wants to know.
    fn go_on(&self) {
        let mut seen = self.lock();
        while !seen.is_over && seen.watched_until.is_some_and(|until| Instant::now() < until) {
            seen.look();
            let waited = self.over.wait_timeout(seen, limits::CONSOLE_LOOK_PAUSE);
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        (seen.watched_until, seen.cores) = (None, Vec::new());
    }
}

impl Seen {
    fn look(&mut self) {
        self.looks += 1;
        for core in &self.cores {
            if let Some(task) = core.current_task() {
                *self.tasks.entry(core.id()).or_default().entry(task).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ringway_runtime::{block_on, spawn_named, yield_now};

    use super::*;

    #[test]
    fn a_task_is_seen_while_it_is_polled() {
        let shown = block_on(async {
            let profile = Profile::default();
            profile.0.lock().cores = vec![CoreHandle::current()];
            let looking = spawn_named("a task", async move {
                profile.0.lock().look();
                profile.of(CoreHandle::current().id())
            });
            looking.await.expect("no panic")
        });
        let expected = json!({ "looks": 1, "in_tasks": 1, "tasks": [["a task", 1]] });
        assert_eq!(shown.expect("a core"), expected);
    }

    #[test]
    fn nobody_looks_any_more_once_the_server_has_ended() {
        block_on(async {
            let profile = Profile::default();
            let looks = Arc::clone(&profile.0);
            profile.watch(vec![CoreHandle::current()]);
            drop(profile);
            while Arc::strong_count(&looks) > 1 {
                yield_now().await;
            }
        })
        .expect("a core");
    }
}
