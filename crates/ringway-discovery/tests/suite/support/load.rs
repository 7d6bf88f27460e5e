//! Threads that call without a pause, and count what fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use ringway_rpc::Status;

use super::who::WhoClient;

#[derive(Default)]
struct Counts {
    is_over: AtomicBool,
    answered: AtomicUsize,
    failures: Mutex<Vec<Status>>,
}

pub(crate) struct Load {
    counts: Arc<Counts>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Begins to call from as many threads as there are clients.
    pub(crate) fn begin(clients: Vec<WhoClient>) -> Self {
        let counts = Arc::new(Counts::default());
        let call = |client: WhoClient| {
            let counts = Arc::clone(&counts);
            thread::spawn(move || {
                while !counts.is_over.load(Ordering::Relaxed) {
                    match client.who().wait() {
                        Ok(_) => drop(counts.answered.fetch_add(1, Ordering::Relaxed)),
                        Err(status) => counts.failures.lock().expect("no panic").push(status),
                    }
                }
            })
        };
        let threads = clients.into_iter().map(call).collect();
        Self { counts, threads }
    }

    /// The calls that were answered so far.
    pub(crate) fn answered(&self) -> usize {
        self.counts.answered.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> usize {
        self.counts.failures.lock().expect("no panic").len()
    }

    /// Ends the calls. Returns the failures.
    pub(crate) fn end(self) -> Vec<Status> {
        self.counts.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        std::mem::take(&mut *self.counts.failures.lock().expect("no panic"))
    }
}
