//! An end of a connection outside of the runtime: a thread with a plain socket. It may be slow, vanish or reset.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::conduct::pause;
use crate::ledger::{Act, Doing, End};
use crate::random::Random;

/// The behaviour of a thread with a plain socket.
#[derive(Clone, Copy, Debug)]
struct Habits {
    bytes: usize,
    /// The most bytes of one write or read.
    write_max: usize,
    read_max: usize,
    pause: Duration,
    leaving: Leaving,
}

#[derive(Clone, Copy, Debug)]
enum Leaving {
    /// Finishes sending, and reads to the end.
    Finishes,
    /// Reads to the end, then finishes sending.
    Answers,
    /// Closes after this many bytes, or at the end. The kernel then resets the connection if bytes are unread.
    Vanishes(usize),
    /// Closes in the same way, and always resets.
    Resets(usize),
}

/// Starts a thread that plays the first end over its own socket.
pub(crate) fn connects(to: SockAddr, end: End, mut random: Random) -> JoinHandle<()> {
    start(move || {
        let habits = Habits::random(&mut random, false);
        let socket = socket_for(&to)?;
        if let Err(error) = socket.connect(&to) {
            end.sees_error(&error);
            end.does(Act::Left);
            return Ok(());
        }
        converse(&socket, &end, habits)
    })
}

/// Opens a listening socket, and starts a thread that will play the second end of the next connection.
pub(crate) fn accepts(
    at: &SockAddr,
    end: End,
    mut random: Random,
) -> io::Result<(SockAddr, JoinHandle<()>)> {
    let listener = socket_for(at)?;
    listener.bind(at)?;
    listener.listen(1)?;
    let bound = listener.local_addr()?;
    let thread = start(move || {
        let habits = Habits::random(&mut random, true);
        end.is_doing(Doing::Connecting);
        while !wait_for(&listener, PollFlags::IN)? {
            if end.world.has_ended.load(SeqCst) {
                // The connecting end was gone before it began.
                end.does(Act::Left);
                return Ok(());
            }
        }
        let (socket, _) = listener.accept()?;
        drop(listener);
        converse(&socket, &end, habits)
    });
    Ok((bound, thread))
}

/// Starts a thread that plays the second end over `socket`.
pub(crate) fn adopts(socket: Socket, end: End, mut random: Random) -> JoinHandle<()> {
    start(move || {
        let habits = Habits::random(&mut random, true);
        converse(&socket, &end, habits)
    })
}

fn start(play: impl FnOnce() -> io::Result<()> + Send + 'static) -> JoinHandle<()> {
    let body = move || play().expect("a foreign socket works");
    thread::Builder::new().name("foreign".to_owned()).spawn(body).expect("a thread")
}

fn socket_for(addr: &SockAddr) -> io::Result<Socket> {
    let domain = if addr.is_unix() { Domain::UNIX } else { addr.domain() };
    Socket::new(domain, Type::STREAM, None)
}

impl Habits {
    /// The second end may wait for the first one to finish.
    fn random(random: &mut Random, may_wait: bool) -> Self {
        let after = random.of_any_size(100_000);
        let bytes = random.of_any_size(500_000);
        Self {
            bytes,
            write_max: random.of_any_size(100_000).max(bytes / CALLS_ABOUT + 1),
            read_max: random.of_any_size(100_000).max(1_000),
            pause: if random.chance(30) { pause(random) } else { Duration::ZERO },
            leaving: match random.within(0..=6) {
                0 => Leaving::Vanishes(after),
                1 => Leaving::Resets(after),
                2..=3 if may_wait => Leaving::Answers,
                _ => Leaving::Finishes,
            },
        }
    }
}

fn converse(socket: &Socket, end: &End, habits: Habits) -> io::Result<()> {
    end.behaves(&habits);
    socket.set_nonblocking(true)?;
    let mut talk = Talk {
        socket,
        end,
        left: habits.bytes,
        unsent: Vec::new(),
        taken: 0,
        is_finished: false,
        has_ended: false,
        failure: None,
        buffer: vec![0; habits.read_max],
    };
    let mut pauses = PAUSES_MAX;
    while !talk.is_over(habits.leaving) {
        talk.finish_if_due(habits.leaving);
        if !talk.wait()? {
            continue;
        }
        talk.write(habits.write_max);
        talk.read();
        if !habits.pause.is_zero() && pauses > 0 {
            pauses -= 1;
            thread::park_timeout(habits.pause); // a slow peer, not a wait for something
        }
    }
    match habits.leaving {
        Leaving::Resets(_) => {
            end.does(Act::Aborted);
            socket.set_linger(Some(Duration::ZERO))?;
        }
        // Closing ends cleanly if nothing is unread, and resets otherwise.
        Leaving::Vanishes(_) => {
            talk.takes_back_unsent();
            end.does(Act::Aborted);
            end.does(Act::Finished);
        }
        Leaving::Finishes | Leaving::Answers => end.does(Act::Finished),
    }
    end.does(Act::Dropped);
    end.does(Act::Left);
    Ok(())
}

struct Talk<'a> {
    socket: &'a Socket,
    end: &'a End,
    left: usize,
    unsent: Vec<u8>,
    taken: usize,
    is_finished: bool,
    has_ended: bool,
    /// Why the socket takes no more bytes.
    failure: Option<io::Error>,
    buffer: Vec<u8>,
}

impl Talk<'_> {
    fn has_sent(&self) -> bool {
        self.left == 0 && self.unsent.is_empty()
    }

    /// Bytes that were not written do not count as given.
    fn takes_back_unsent(&mut self) {
        self.end.takes_back(self.unsent.len());
        self.unsent.clear();
    }

    fn is_over(&self, leaving: Leaving) -> bool {
        match leaving {
            Leaving::Finishes => self.has_ended && self.is_finished,
            Leaving::Answers => self.has_ended && self.has_sent(),
            Leaving::Vanishes(at) | Leaving::Resets(at) => self.has_ended || self.taken >= at,
        }
    }

    fn finish_if_due(&mut self, leaving: Leaving) {
        if self.has_sent() && !self.is_finished && !matches!(leaving, Leaving::Answers) {
            self.end.does(Act::Finished);
            self.is_finished = true;
            // The other end may have reset the connection.
            _ = self.socket.shutdown(std::net::Shutdown::Write);
        }
    }

    fn wait(&mut self) -> io::Result<bool> {
        let doing = if self.has_ended { Doing::Sending } else { Doing::Receiving };
        self.end.is_doing(doing);
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::OUT, !self.has_sent());
        wanted.set(PollFlags::IN, !self.has_ended);
        wait_for(self.socket, wanted)
    }

    fn write(&mut self, most: usize) {
        if self.unsent.is_empty() && self.left > 0 {
            let len = self.left.min(most);
            self.unsent = self.end.next_bytes(len);
            self.left -= len;
        }
        if self.unsent.is_empty() {
            return;
        }
        match (&*self.socket).write(&self.unsent) {
            Ok(len) => _ = self.unsent.drain(..len),
            Err(error) if is_later(&error) => {}
            Err(error) => {
                self.takes_back_unsent();
                self.left = 0;
                self.end.sees_send_error(&error);
                self.failure = Some(error);
            }
        }
    }

    fn read(&mut self) {
        if self.has_ended {
            return;
        }
        match (&*self.socket).read(&mut self.buffer) {
            Ok(0) => {
                self.has_ended = true;
                match self.failure.take() {
                    // The kernel reports a reset once, and an end afterwards.
                    Some(error) => self.end.sees_error(&error),
                    None => self.end.sees_end(),
                }
            }
            Ok(len) => {
                self.taken += len;
                self.end.takes(&self.buffer[..len]);
            }
            Err(error) if is_later(&error) => {}
            Err(error) => {
                self.has_ended = true;
                self.end.sees_error(&error);
            }
        }
    }
}

/// Waits a moment until the socket is ready. Returns false if it is not.
fn wait_for(socket: &Socket, wanted: PollFlags) -> io::Result<bool> {
    let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut [PollFd::new(socket, wanted)], Some(&moment)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Bound of writes: at least as many as sending everything takes.
const CALLS_ABOUT: usize = 100;

/// Bound of the pauses of a slow thread, so that a run ends in time.
const PAUSES_MAX: usize = 40;
