//! SIGINT and SIGTERM.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::thread;

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

use super::handle::ServerHandle;
use crate::error::{Error, Result};

/// Catches the signals that ask a process to end, until it is dropped.
pub(crate) struct Signals {
    caught: Option<UnixStream>,
    ids: Vec<SigId>,
}

impl Signals {
    /// Begins to catch: a signal that comes before [`shut_down`](Self::shut_down) is kept.
    pub(crate) fn catch() -> Result<Self> {
        let cannot = |error| Error::io("cannot catch signals", error);
        let (caught, tell) = UnixStream::pair().map_err(cannot)?;
        let mut signals = Self { caught: Some(caught), ids: Vec::new() };
        for signal in [SIGINT, SIGTERM] {
            let tell = tell.try_clone().map_err(cannot)?;
            signals.ids.push(pipe::register(signal, tell).map_err(cannot)?);
        }
        Ok(signals)
    }

    /// From now on the first signal drains the server and the second aborts it.
    pub(crate) fn shut_down(mut self, handle: &ServerHandle) -> Watching {
        let watching =
            Watching { _signals: Self { caught: None, ids: std::mem::take(&mut self.ids) } };
        let Some(caught) = self.caught.take() else { return watching };
        let handle = handle.clone();
        let watch = move || watch(caught, &handle);
        if let Err(error) = thread::Builder::new().name("ringway-signals".into()).spawn(watch) {
            tracing::error!(%error, "signals are ignored: their thread could not be started");
        }
        watching
    }
}

/// Signals go to a server until this is dropped, which also ends their thread.
pub(crate) struct Watching {
    _signals: Signals,
}

fn watch(mut caught: UnixStream, handle: &ServerHandle) {
    let mut byte = [0];
    if !next(&mut caught, &mut byte) {
        return;
    }
    tracing::info!("asked to end by a signal: draining");
    handle.shutdown();
    if next(&mut caught, &mut byte) {
        tracing::warn!("asked again: connections are cut off");
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

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
    }
}
