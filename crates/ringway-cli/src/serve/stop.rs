//! The events that end a server: SIGINT, SIGTERM, or the end of the control input.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use ringway_net::ServerHandle;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// The reading end of a socket pair, into which each reason to stop writes a byte.
pub(super) struct Stop {
    reader: UnixStream,
    writer: UnixStream,
}

/// Returns a handle by which another thread may stop the server.
pub(super) struct Trigger(UnixStream);

impl Stop {
    /// Catches SIGINT and SIGTERM from now on.
    pub(super) fn on_signals() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self { reader, writer })
    }

    pub(super) fn trigger(&self) -> io::Result<Trigger> {
        self.writer.try_clone().map(Trigger)
    }

    /// Blocks until there is a reason to stop.
    pub(super) fn wait(&self) -> io::Result<()> {
        (&self.reader).read_exact(&mut [0])
    }

    /// From now on the next reason cuts connections off instead of waiting for them.
    pub(super) fn abort_on_next(self, server: ServerHandle) -> io::Result<()> {
        let wait = move || {
            if self.wait().is_ok() {
                server.abort();
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
    }
}

impl Trigger {
    pub(super) fn pull(&self) {
        // Full or closed means that the server is already stopping.
        _ = (&self.0).write(&[0]);
    }
}
