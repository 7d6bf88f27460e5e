//! SIGINT and SIGTERM: caught while a server runs, with their previous action afterwards.
//!
//! `signal_hook` never removes its handler from the kernel, so a signal that was caught once would
//! be ignored from then on. So one action of ours stays registered and does what the kernel would
//! have done while no server catches. Another one ends the process at the third signal, even if the
//! process was started with the signal ignored, as shells without job control do for background
//! jobs.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::low_level::{pipe, unregister};

use super::handle::ServerHandle;
use super::log::log;
use crate::error::{Error, Result};

/// The signals that request the end of a process.
const ASK_TO_END: [i32; 2] = [SIGINT, SIGTERM];

/// Directs the signals to a server until this is dropped: the first drains it, the second aborts
/// it, a third ends the process.
pub(crate) struct Signals {
    ids: Vec<SigId>,
}

impl Signals {
    /// Begins to catch the signals.
    pub(crate) fn catch(handle: &ServerHandle) -> Result<Self> {
        let cannot = |error| Error::io("cannot catch signals", error);
        let (caught, tell) = UnixStream::pair().map_err(cannot)?;
        let handle = handle.clone();
        let watch = move || watch(caught, &handle);
        thread::Builder::new().name("ringway-signals".into()).spawn(watch).map_err(cannot)?;
        process().begin();
        let mut signals = Self { ids: Vec::new() };
        for signal in ASK_TO_END {
            let tell = tell.try_clone().map_err(cannot)?;
            signals.ids.push(pipe::register(signal, tell).map_err(cannot)?);
        }
        process().is_heard().map_err(cannot)?;
        Ok(signals)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        process().end();
        // This closes the writing ends of the pipe, which ends the thread.
        for id in self.ids.drain(..) {
            unregister(id);
        }
    }
}

fn watch(mut caught: UnixStream, handle: &ServerHandle) {
    let mut byte = [0];
    if !next(&mut caught, &mut byte) {
        return;
    }
    log(|| tracing::info!("a signal requests the end: draining"));
    handle.shutdown();
    if next(&mut caught, &mut byte) {
        let what = "a second signal: aborting all connections; a third one ends the process";
        log(|| tracing::warn!("{what}"));
        process().insisted.store(true, Ordering::SeqCst);
        handle.abort();
    }
}

/// Waits for a signal; returns false when they are no longer caught.
fn next(caught: &mut UnixStream, byte: &mut [u8; 1]) -> bool {
    loop {
        match caught.read(byte) {
            Ok(count) => return count > 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// The state of signal handling in this process.
#[derive(Default)]
struct Process {
    /// The number of servers that catch signals now.
    catching: usize,
    /// The signals that had their default action before the first server caught them.
    had_default_action: Option<Vec<i32>>,
    /// Whether the actions below are registered.
    has_actions: bool,
    /// Whether no server catches signals: each then does what the kernel would have done.
    unheard: Arc<AtomicBool>,
    /// Whether a server got a second signal: the next one ends the process.
    insisted: Arc<AtomicBool>,
}

fn process() -> MutexGuard<'static, Process> {
    static PROCESS: LazyLock<Mutex<Process>> = LazyLock::new(Mutex::default);
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Counts a server that is about to catch signals.
    fn begin(&mut self) {
        self.had_default_action.get_or_insert_with(|| {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            ASK_TO_END.into_iter().filter(|&signal| has_default_action(&status, signal)).collect()
        });
        self.catching += 1;
    }

    /// Notes that a server now catches signals. The actions come after the server's first pipe, so that no
    /// signal finds a handler in the kernel and nobody who hears it.
    fn is_heard(&mut self) -> io::Result<()> {
        self.unheard.store(false, Ordering::SeqCst);
        self.insisted.store(false, Ordering::SeqCst);
        if self.has_actions {
            return Ok(());
        }
        for signal in ASK_TO_END {
            register_conditional_default(signal, Arc::clone(&self.insisted))?;
        }
        // If another handler exists or the signal is ignored, that decides while no server runs.
        for &signal in self.had_default_action.iter().flatten() {
            register_conditional_default(signal, Arc::clone(&self.unheard))?;
        }
        self.has_actions = true;
        Ok(())
    }

    fn end(&mut self) {
        self.catching -= 1;
        if self.catching == 0 {
            self.unheard.store(true, Ordering::SeqCst);
            self.insisted.store(false, Ordering::SeqCst);
        }
    }
}

/// Whether a signal has its default action: the process neither handles nor ignores it. `status` is
/// the text of `/proc/self/status`.
fn has_default_action(status: &str, signal: i32) -> bool {
    let is_in = |set: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(set)).map(str::trim);
        let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        mask >> (signal - 1) & 1 == 1
    };
    !is_in("SigCgt:") && !is_in("SigIgn:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_handled_or_ignored_elsewhere_are_left_alone() {
        let status = "Name:\tx\nSigIgn:\t0000000000000002\nSigCgt:\t0000000000004000\n";
        assert!(!has_default_action(status, SIGINT), "ignored");
        assert!(!has_default_action(status, SIGTERM), "handled");
        assert!(has_default_action(status, signal_hook::consts::SIGHUP));
        assert!(has_default_action("", SIGTERM), "not to be known");
    }
}
