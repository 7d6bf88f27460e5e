//! A watch that ends the process with a report when a run makes no progress.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ledger::World;

/// Watches a run until it is dropped.
pub(crate) struct Watch {
    thread: Option<JoinHandle<()>>,
    over: Option<Sender<()>>,
}

impl Watch {
    /// Watches the run that `name` repeats.
    pub(crate) fn begin(world: Arc<World>, name: String) -> Self {
        let (over, is_over) = channel();
        let watch = move || {
            let (mut seen, mut moved) = (0, Instant::now());
            while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let now = world.progress.load(SeqCst);
                if now != seen {
                    (seen, moved) = (now, Instant::now());
                } else if moved.elapsed() > STILL_MAX {
                    eprintln!("socket life: {name} hangs: {:?}{}", world.fault(), world.describe());
                    std::process::exit(101);
                }
            }
        };
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(watch);
        Self { thread: Some(thread.expect("a thread")), over: Some(over) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.over.take());
        _ = self.thread.take().map(JoinHandle::join);
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longer than any timeout of the runtime, also on a busy machine.
const STILL_MAX: Duration = Duration::from_secs(90);
