//! The events that end a server: SIGINT, SIGTERM, or the end of the control input.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use ringway_net::ServerHandle;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// The waiting end of a pair of sockets, into which each reason to stop writes a byte.
pub(super) struct Stop {
    reader: UnixStream,
    writer: UnixStream,
}

/// A further reason to stop, for another thread.
pub(super) struct Trigger(UnixStream);

impl Stop {
    /// From now on SIGINT and SIGTERM no longer end the process by themselves.
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

    /// The next reason cuts connections off instead of waiting for them.
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
    pub(super) fn pull(mut self) {
        // Full or closed: the server is stopping already.
        _ = self.0.write(&[0]);
    }
}
