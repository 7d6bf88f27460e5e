//! SIGINT and SIGTERM: caught while a server runs, and given back when it has ended.
//!
//! `signal_hook` never takes its handler out of the kernel again, so a signal that was caught once
//! would be ignored for good. An action of ours stays behind and does what the kernel would have
//! done, whenever no server catches. Another one ends the process on a third signal, also where the
//! process was started with the signal ignored, as shells without job control start what is to run beside
//! them.

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

/// The signals that ask a process to end.
const ASK_TO_END: [i32; 2] = [SIGINT, SIGTERM];

/// Signals go to a server until this is dropped: the first drains it, the second aborts it, and a
/// third ends the process.
pub(crate) struct Signals {
    ids: Vec<SigId>,
}

impl Signals {
    /// Begins to catch.
    pub(crate) fn catch(handle: &ServerHandle) -> Result<Self> {
        let cannot = |error| Error::io("cannot catch signals", error);
        let (caught, tell) = UnixStream::pair().map_err(cannot)?;
        let handle = handle.clone();
        let watch = move || watch(caught, &handle);
        thread::Builder::new().name("ringway-signals".into()).spawn(watch).map_err(cannot)?;
        process().begin().map_err(cannot)?;
        let mut signals = Self { ids: Vec::new() };
        for signal in ASK_TO_END {
            let tell = tell.try_clone().map_err(cannot)?;
            signals.ids.push(pipe::register(signal, tell).map_err(cannot)?);
        }
        process().is_heard();
        Ok(signals)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        process().end();
        // This closes the pipe's writing ends, which ends the thread.
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
    log(|| tracing::info!("asked to end by a signal: draining"));
    handle.shutdown();
    if next(&mut caught, &mut byte) {
        let what = "asked again: connections are cut off; a third signal ends the process";
        log(|| tracing::warn!("{what}"));
        process().insisted.store(true, Ordering::SeqCst);
        handle.abort();
    }
}

/// Waits for a signal; false when they are not caught any more.
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
    /// Servers that catch them now.
    catching: usize,
    /// Whether the actions below are there.
    has_actions: bool,
    /// Nobody catches signals: each does what the kernel would have done.
    unheard: Arc<AtomicBool>,
    /// A server was asked twice: the next signal ends the process.
    insisted: Arc<AtomicBool>,
}

fn process() -> MutexGuard<'static, Process> {
    static PROCESS: LazyLock<Mutex<Process>> = LazyLock::new(Mutex::default);
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// One more server catches.
    fn begin(&mut self) -> io::Result<()> {
        if !self.has_actions {
            self.unheard.store(true, Ordering::SeqCst);
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            for signal in ASK_TO_END {
                register_conditional_default(signal, Arc::clone(&self.insisted))?;
                // Whoever else handles or ignores it decides what it does at other times.
                if has_default_action(&status, signal) {
                    register_conditional_default(signal, Arc::clone(&self.unheard))?;
                }
            }
            self.has_actions = true;
        }
        self.catching += 1;
        Ok(())
    }

    /// A server has begun to catch.
    fn is_heard(&self) {
        self.unheard.store(false, Ordering::SeqCst);
        self.insisted.store(false, Ordering::SeqCst);
    }

    fn end(&mut self) {
        self.catching -= 1;
        if self.catching == 0 {
            self.unheard.store(true, Ordering::SeqCst);
            self.insisted.store(false, Ordering::SeqCst);
        }
    }
}

/// Whether the process, of which `status` is the kernel's account, neither handles nor ignores a
/// signal.
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
    fn what_others_handle_or_ignore_is_left_to_them() {
        let status = "Name:\tx\nSigIgn:\t0000000000000002\nSigCgt:\t0000000000004000\n";
        assert!(!has_default_action(status, SIGINT), "ignored");
        assert!(!has_default_action(status, SIGTERM), "handled");
        assert!(has_default_action(status, signal_hook::consts::SIGHUP));
        assert!(has_default_action("", SIGTERM), "not to be known");
    }
}
