//! A record of what the ends of connections have done, and of what each may therefore observe.
//!
//! Every byte is attributed: it is the next one of the other end's pattern, or it is wrong. A clean end is right only
//! if the other end has finished and everything that it gave has arrived. An error needs an excuse: an action of one
//! of the
//! ends that breaks a connection.

use std::fmt;
use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ringway_runtime::{CoreHandle, now_exact};

use crate::elsewhere::{Elsewhere, Shared};
use crate::pattern::Source;

/// One run of a program: its connections, and what went wrong.
pub(crate) struct World {
    pub(crate) run: u32,
    /// The core or the network may break any connection. Bytes that arrive must still be right.
    pub(crate) is_ending: AtomicBool,
    /// All cores have ended.
    pub(crate) has_ended: AtomicBool,
    connections: Mutex<Vec<Arc<Connection>>>,
    faults: Mutex<Vec<String>>,
    /// A counter that moves as long as anything happens.
    pub(crate) progress: AtomicU64,
    /// Foreign memory in the runtime's queues, and guards of open descriptors.
    pub(crate) lent: AtomicUsize,
    /// The next number of a datagram socket.
    datagram_sockets: AtomicU32,
    pub(crate) network: Network,
    /// Descriptors run out now and then.
    pub(crate) is_scarce: bool,
    /// Cores reach their bound of memory now and then.
    is_full: bool,
    /// The threads with plain sockets.
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    elsewhere: Elsewhere,
    tally: Tally,
}

/// Counts of what happened in a run.
#[derive(Default)]
struct Tally {
    clean_ends: AtomicU64,
    /// Connections that broke because one end was dropped and its wait for the peer was over.
    given_up: AtomicU64,
    /// Streams that failed because their core held too much.
    too_slow: AtomicU64,
    shared: AtomicU64,
}

/// The counts of several runs, added up.
#[derive(Default, Debug)]
#[allow(dead_code)] // it is there to be printed
pub(crate) struct Total {
    connections: u64,
    bytes: u64,
    clean_ends: u64,
    given_up: u64,
    too_slow: u64,
    shared: u64,
}

/// The network between the ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Network {
    Kernel,
    Simulated,
    /// A simulated network that resets connections.
    Faulty,
}

/// A resource that is scarce in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) of_descriptors: bool,
    pub(crate) of_memory: bool,
}

/// A connection's two ends. The first one connected.
pub(crate) struct Connection {
    number: u32,
    pub(crate) is_unix: bool,
    /// The second end returns the bytes that it receives.
    pub(crate) is_echo: bool,
    sides: [Side; 2],
}

#[derive(Default)]
struct Side {
    given: AtomicU64,
    taken: AtomicU64,
    acts: AtomicU32,
    /// What the end waits for, as a `Doing`.
    doing: AtomicU8,
    /// The time at which the end got its stream.
    opened: OnceLock<Instant>,
    /// The conduct of the end.
    conduct: OnceLock<String>,
}

/// One end of a connection, held by its player.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) world: Arc<World>,
    pub(crate) connection: Arc<Connection>,
    index: usize,
}

/// What an end has done. It is recorded before the action.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// The end sends no more, and everything that it gave must arrive.
    Finished = 1,
    /// The handle is dropped, and everything given must still be sent.
    Dropped = 2,
    /// The end has reset the connection, or accepts a reset.
    Aborted = 4,
    /// The end has ended its receiving.
    EndedReceiving = 8,
    SawEnd = 16,
    SawError = 32,
    /// The end has no player any more.
    Left = 64,
    /// The end's stream ends by itself at an unknown moment.
    Expires = 128,
}

/// What an end waits for. The report of a hang shows it.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Doing {
    Connecting,
    Receiving,
    Sending,
    Draining,
    Pausing,
    Calling,
    Nothing,
}

impl World {
    pub(crate) fn new(run: u32, network: Network, want: Want) -> Arc<Self> {
        Arc::new(Self {
            run,
            is_ending: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            connections: Mutex::default(),
            faults: Mutex::default(),
            progress: AtomicU64::new(0),
            lent: AtomicUsize::new(0),
            datagram_sockets: AtomicU32::new(0),
            network,
            is_scarce: want.of_descriptors,
            is_full: want.of_memory,
            threads: Mutex::default(),
            elsewhere: Elsewhere::default(),
            tally: Tally::default(),
        })
    }

    /// Adds the counts of this run.
    pub(crate) fn add_to(&self, total: &mut Total) {
        let connections = lock(&self.connections);
        total.connections += connections.len() as u64;
        let sides = connections.iter().flat_map(|connection| &connection.sides);
        total.bytes += sides.map(|side| side.taken.load(SeqCst)).sum::<u64>();
        total.clean_ends += self.tally.clean_ends.load(SeqCst);
        total.given_up += self.tally.given_up.load(SeqCst);
        total.too_slow += self.tally.too_slow.load(SeqCst);
        total.shared += self.tally.shared.load(SeqCst);
    }

    /// Records that a thread with a plain socket has begun.
    pub(crate) fn has_thread(&self, thread: thread::JoinHandle<()>) {
        lock(&self.threads).push(thread);
    }

    /// The number of running threads with plain sockets.
    pub(crate) fn threads_at_work(&self) -> usize {
        lock(&self.threads).iter().filter(|thread| !thread.is_finished()).count()
    }

    /// Waits for all threads. No core is left that could start another.
    pub(crate) fn end_threads(&self) -> io::Result<()> {
        self.has_ended.store(true, SeqCst);
        let threads = std::mem::take(&mut *lock(&self.threads));
        let failed = |_| io::Error::other("a thread with a plain socket has panicked");
        threads.into_iter().try_for_each(|thread| thread.join().map_err(failed))?;
        self.elsewhere.end();
        Ok(())
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(SeqCst)
    }

    /// Creates the two ends of a new connection.
    pub(crate) fn connect(self: &Arc<Self>, is_unix: bool, is_echo: bool) -> [End; 2] {
        let mut connections = lock(&self.connections);
        let number = connections.len() as u32;
        let sides = Default::default();
        let connection = Arc::new(Connection { number, is_unix, is_echo, sides });
        connections.push(Arc::clone(&connection));
        [0, 1].map(|index| {
            let (world, connection) = (Arc::clone(self), Arc::clone(&connection));
            End { world, connection, index }
        })
    }

    /// The next number for a datagram socket.
    pub(crate) fn next_datagram_socket(&self) -> u32 {
        self.datagram_sockets.fetch_add(1, SeqCst)
    }

    /// Records a violation. The program stops at its next step.
    pub(crate) fn complain(&self, what: impl fmt::Display) {
        eprintln!("socket life: {what}");
        lock(&self.faults).push(what.to_string());
    }

    pub(crate) fn moves(&self) {
        self.progress.fetch_add(1, SeqCst);
    }

    /// The first violation, if there is one.
    pub(crate) fn fault(&self) -> Option<String> {
        lock(&self.faults).first().cloned()
    }

    /// What each end that is still active waits for.
    pub(crate) fn describe(&self) -> String {
        let connections = lock(&self.connections);
        let alive =
            connections.iter().filter(|one| !one.sides.iter().all(|side| side.has(Act::Left)));
        alive.map(|connection| format!("\n  {connection:?}")).collect()
    }

    /// Checks all connections after all players have left: bytes of an end that finished without a reset
    /// have reached every end that was still receiving.
    pub(crate) fn close_the_books(&self) {
        for connection in lock(&self.connections).iter() {
            for (giver, taker) in [(0, 1), (1, 0)] {
                let (giver, taker) = (&connection.sides[giver], &connection.sides[taker]);
                let is_owed = giver.has(Act::Finished)
                    && !giver.may_reset()
                    && !taker.may_reset()
                    && [Act::Dropped, Act::EndedReceiving].iter().all(|&act| !taker.has(act));
                if is_owed && giver.given.load(SeqCst) != taker.taken.load(SeqCst) {
                    self.complain(format_args!("not all has arrived: {connection:?}"));
                }
            }
        }
    }

    /// Checks that nothing is held any more, after everything that could be returned has been.
    pub(crate) fn is_given_back(&self) {
        match self.lent.load(SeqCst) {
            0 => {}
            lent => {
                self.complain(format_args!("{lent} pieces of lent memory were never given back"))
            }
        }
    }

    /// Names the sender of these bytes, wherever they were found.
    pub(crate) fn attribute(&self, found: &[u8]) -> String {
        for connection in lock(&self.connections).iter() {
            for index in [0, 1] {
                if let Some(place) = connection.source(self.run, index).place_of(found) {
                    let number = connection.number;
                    return format!(
                        "byte {place} that end {index} of connection {number} has sent"
                    );
                }
            }
        }
        for number in 0..self.datagram_sockets.load(SeqCst) {
            let source = Source::of_datagrams(self.run, number);
            if let Some(place) = source.place_of(found) {
                return format!("byte {place} that datagram socket {number} has sent");
            }
        }
        "of nobody in this run".to_owned()
    }
}

impl Connection {
    /// The pattern that an end sends: its own, or that of the other end if it is an echo.
    fn source(&self, run: u32, index: usize) -> Source {
        Source::new(run, self.number, if self.is_echo { 0 } else { index })
    }
}

impl End {
    /// Whether this end returns what it receives.
    pub(crate) fn is_echo(&self) -> bool {
        self.connection.is_echo && self.index == 1
    }

    /// Records what this end is about to do.
    pub(crate) fn does(&self, act: Act) {
        self.own().acts.fetch_or(act as u32, SeqCst);
        self.world.moves();
    }

    /// Records the conduct of this end, for the report of a violation.
    pub(crate) fn behaves(&self, conduct: &impl fmt::Debug) {
        _ = self.own().conduct.set(format!("{conduct:?}"));
        _ = self.own().opened.set(moment());
    }

    /// Whether this end never got a stream.
    pub(crate) fn has_failed_to_begin(&self) -> bool {
        self.own().has(Act::Left) && self.own().opened.get().is_none()
    }

    /// Lets another thread keep the bytes that this end took last.
    pub(crate) fn shares(&self, bytes: bytes::Bytes) {
        let from = self.own().taken.load(SeqCst) - bytes.len() as u64;
        let source = self.connection.source(self.world.run, 1 - self.index);
        self.world.tally.shared.fetch_add(1, SeqCst);
        self.world.elsewhere.keep(&self.world, Shared { bytes, source, from });
    }

    pub(crate) fn is_doing(&self, doing: Doing) {
        self.own().doing.store(doing as u8, SeqCst);
    }

    /// The next `len` bytes of this end, which count as given.
    pub(crate) fn next_bytes(&self, len: usize) -> Vec<u8> {
        let from = self.gives(len);
        self.connection.source(self.world.run, self.index).bytes(from, len)
    }

    /// Records that this end gives `len` bytes. Returns how many it had given before.
    pub(crate) fn gives(&self, len: usize) -> u64 {
        self.own().given.fetch_add(len as u64, SeqCst)
    }

    /// Takes back `len` given bytes, because the stream has failed or takes no more.
    pub(crate) fn was_refused(&self, len: usize, failure: Option<io::Error>, what: &str) {
        self.takes_back(len);
        let is_want = failure.is_some_and(|error| error.kind() == io::ErrorKind::OutOfMemory);
        if is_want && self.world.is_full {
            self.world.tally.too_slow.fetch_add(1, SeqCst);
            self.does(Act::Aborted); // it is reset when the turn ends
        }
        self.may_break(what, true);
    }

    /// Takes back `len` given bytes that were never sent.
    pub(crate) fn takes_back(&self, len: usize) {
        self.own().given.fetch_sub(len as u64, SeqCst);
    }

    /// Checks bytes that have arrived.
    pub(crate) fn takes(&self, found: &[u8]) {
        let from = self.own().taken.fetch_add(found.len() as u64, SeqCst);
        self.world.moves();
        let source = self.connection.source(self.world.run, 1 - self.index);
        if let Some(at) = source.first_wrong(from, found) {
            let place = from + at as u64;
            let whose = self.world.attribute(&found[at..]);
            self.complain(format_args!("byte {place} is wrong, it is {whose}"));
        }
    }

    /// Checks that the other end has finished.
    pub(crate) fn sees_end(&self) {
        self.does(Act::SawEnd);
        let (own, other) = (self.own(), self.other());
        let is_all = other.has(Act::Finished) && own.taken.load(SeqCst) == other.given.load(SeqCst);
        if is_all {
            self.world.tally.clean_ends.fetch_add(1, SeqCst);
            return;
        }
        // A reset of a Unix socket may look like a clean end.
        let is_reset = self.connection.is_unix && other.may_reset();
        if !(is_reset || own.has(Act::EndedReceiving) || self.anything_goes()) {
            self.complain("a clean end, but not after all that was given");
        }
    }

    /// Checks that the connection had a reason to fail.
    pub(crate) fn sees_error(&self, error: &io::Error) {
        self.does(Act::SawError);
        self.may_break(&format!("receiving failed ({error})"), false);
    }

    /// Checks that sending had a reason to fail.
    pub(crate) fn sees_send_error(&self, error: &io::Error) {
        self.may_break(&format!("sending failed ({error})"), true);
    }

    fn may_break(&self, what: &str, is_sending: bool) {
        let (own, other) = (self.own(), self.other());
        // An end that is gone takes no more bytes, but the bytes that it gave arrive first.
        let is_all = own.taken.load(SeqCst) == other.given.load(SeqCst);
        let is_gone = other.has(Act::Dropped) && (is_sending || is_all);
        if is_gone || own.may_reset() || other.may_reset() || self.anything_goes() {
            return;
        }
        if other.has(Act::Dropped) && (self.world.is_scarce || other.has_lingered()) {
            self.world.tally.given_up.fetch_add(1, SeqCst);
            return;
        }
        self.complain(what);
    }

    fn anything_goes(&self) -> bool {
        self.world.network == Network::Faulty || self.world.is_ending()
    }

    pub(crate) fn complain(&self, what: impl fmt::Display) {
        let (index, connection) = (self.index, &self.connection);
        self.world.complain(format_args!("end {index}: {what}: {connection:?}"));
    }

    fn own(&self) -> &Side {
        &self.connection.sides[self.index]
    }

    fn other(&self) -> &Side {
        &self.connection.sides[1 - self.index]
    }
}

impl Side {
    fn has(&self, act: Act) -> bool {
        self.acts.load(SeqCst) & act as u32 != 0
    }

    fn may_reset(&self) -> bool {
        self.has(Act::Aborted) || self.has(Act::Expires)
    }

    /// Whether this end is old enough for its peer to have been silent for the whole time that a dropped stream
    /// waits for more of it. Only the runtime knows when bytes arrived last.
    fn has_lingered(&self) -> bool {
        let opened = self.opened.get();
        opened.is_some_and(|&opened| moment().saturating_duration_since(opened) >= LINGER_QUIET)
    }
}

/// The current time: that of the simulation on its core, and the kernel's elsewhere.
fn moment() -> Instant {
    if CoreHandle::is_here() { now_exact() } else { Instant::now() }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_unix { "unix" } else { "tcp" };
        let echo = if self.is_echo { ", echo" } else { "" };
        write!(f, "connection {} ({kind}{echo})", self.number)?;
        self.sides
            .iter()
            .enumerate()
            .try_for_each(|(index, side)| write!(f, "; end {index} {side:?}"))
    }
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (given, taken) = (self.given.load(SeqCst), self.taken.load(SeqCst));
        write!(f, "gave {given}, took {taken}")?;
        let acts = [
            (Act::Finished, "finished"),
            (Act::Dropped, "dropped"),
            (Act::Aborted, "aborted"),
            (Act::EndedReceiving, "ended receiving"),
            (Act::SawEnd, "saw the end"),
            (Act::SawError, "saw an error"),
            (Act::Expires, "expires"),
        ];
        let done = acts.iter().filter(|(act, _)| self.has(*act));
        done.clone().try_for_each(|(_, name)| write!(f, ", {name}"))?;
        let doing = self.doing.load(SeqCst);
        let all = [
            Doing::Connecting,
            Doing::Receiving,
            Doing::Sending,
            Doing::Draining,
            Doing::Pausing,
            Doing::Calling,
            Doing::Nothing,
        ];
        match all.into_iter().find(|one| *one as u8 == doing && !self.has(Act::Left)) {
            Some(doing) => write!(f, ", is {doing:?}")?,
            None => write!(f, ", left")?,
        }
        self.conduct.get().map_or(Ok(()), |conduct| write!(f, "\n    {conduct}"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the runtime waits for a silent peer of a dropped stream.
const LINGER_QUIET: Duration = Duration::from_secs(1);
