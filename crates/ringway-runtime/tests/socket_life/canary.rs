//! Descriptors that no other code uses, opened where others have just been closed. An operation that reaches them was
//! meant for the descriptor that had their number before.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use ringway_runtime::yield_now;

use crate::ledger::{Network, World};

/// Opens a pair of descriptors and checks it during the next turns of the core.
pub(crate) async fn watch_for_a_while(world: &Arc<World>) {
    // The simulated network does not use descriptors of the kernel.
    let is_of_use = world.network == Network::Kernel && !world.is_scarce;
    if !is_of_use || ALIVE.load(SeqCst) >= ALIVE_MAX {
        return;
    }
    let canary = Canary::open(world);
    for _ in 0..TURNS_WATCHED {
        yield_now().await;
        canary.look();
    }
}

struct Canary {
    world: Arc<World>,
    ends: Option<[UnixStream; 2]>,
    identities: [(u64, u64); 2],
}

impl Canary {
    fn open(world: &Arc<World>) -> Self {
        ALIVE.fetch_add(1, SeqCst);
        let (one, other) = UnixStream::pair().expect("a pair of descriptors");
        let ends = [one, other];
        ends.iter().for_each(|end| end.set_nonblocking(true).expect("a mode of every socket"));
        let identities = ends.each_ref().map(identity);
        Self { world: Arc::clone(world), ends: Some(ends), identities }
    }

    /// Checks that nothing has arrived, that both descriptors are unchanged, and that one reaches the other.
    fn look(&self) {
        let ends = self.ends.as_ref().expect("present until the drop");
        for (end, due) in ends.iter().zip(self.identities) {
            if identity(end) != due {
                self.world
                    .complain(format_args!("a foreign descriptor was closed: {}", end.as_raw_fd()));
            }
        }
        let mut found = [0; 64];
        for mut end in ends {
            match end.read(&mut found) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(len) => {
                    let whose = self.world.attribute(&found[..len]);
                    self.world
                        .complain(format_args!("in a foreign descriptor: {len} bytes, {whose}"));
                }
                Err(error) => self.world.complain(format_args!("a foreign descriptor: {error}")),
            }
        }
        let [mut one, mut other] = ends.each_ref();
        let crossed = one.write(b"!").and_then(|_| other.read(&mut found));
        if !matches!(crossed, Ok(1)) {
            self.world.complain(format_args!("a foreign descriptor is cut off: {crossed:?}"));
        }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, SeqCst);
        let ends = self.ends.take().expect("taken once");
        for (end, due) in ends.into_iter().zip(self.identities) {
            if identity(&end) != due {
                // The number now belongs to another file, and closing it would repeat the defect.
                _ = end.into_raw_fd();
            }
        }
    }
}

/// The kernel's description of the descriptor.
fn identity(end: &UnixStream) -> (u64, u64) {
    rustix::fs::fstat(end).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino))
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Enough canaries to sit where descriptors are closed, and few enough to leave numbers to sockets.
const ALIVE_MAX: usize = 8;
/// The last operation on a closed descriptor comes within this many turns.
const TURNS_WATCHED: usize = 6;
