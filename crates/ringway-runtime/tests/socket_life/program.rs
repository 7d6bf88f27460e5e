//! The program of one run: random steps, each of which starts the life of a socket.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ringway_runtime::io::{Accepted, ListenOptions, Listener, Stream};
use ringway_runtime::{CoreHandle, JoinHandle, RemoteHandle, sleep, spawn, timeout, yield_now};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::conduct::{Conduct, Ending, Manner};
use crate::datagrams::{self, Directory};
use crate::ends;
use crate::foreign;
use crate::held::open_descriptors;
use crate::ledger::{Act, Doing, End, Network, World};
use crate::random::Random;
use crate::scarcity::Scarcity;

/// The size of a program and the choices that it may make.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) world: Arc<World>,
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    pub(crate) end: Finale,
    /// The number of descriptors that the steps may use, if they are scarce.
    pub(crate) descriptors_max: Option<usize>,
    /// The most bytes that one end sends.
    pub(crate) bytes_max: usize,
}

/// How a program ends.
#[derive(Clone)]
pub(crate) enum Finale {
    /// All players come to their end.
    WindUp,
    /// The program ends while its players are still active.
    CutShort,
    /// A thread that shuts the cores down receives a message after this many steps.
    Shutdown { after: usize, tell: Sender<()> },
}

/// Runs the script on the current core, the first of `cores`.
pub(crate) async fn run(script: Script, cores: Vec<CoreHandle>) {
    let held = (script.world.network == Network::Kernel).then(open_descriptors);
    let mut random = Random::new(script.seed, 0);
    let mut program = Program {
        players_max: random.pick(&PLAYERS_MAX),
        random,
        script,
        cores,
        posts: Vec::new(),
        players: VecDeque::new(),
        directory: Directory::default(),
        names: 0,
    };
    program.play().await;
    if matches!(program.script.end, Finale::WindUp) {
        program.wind_up(held).await;
    }
    // From here on, every player may lose its stream.
    program.script.world.is_ending.store(true, SeqCst);
}

struct Program {
    script: Script,
    random: Random,
    cores: Vec<CoreHandle>,
    posts: Vec<Post>,
    /// The players of ends and datagram sockets.
    players: VecDeque<Player>,
    players_max: usize,
    directory: Directory,
    /// The number of Unix names in use so far.
    names: usize,
}

/// A listener and its address.
struct Post {
    listener: Listener,
    is_unix: bool,
}

enum Player {
    Here(JoinHandle<()>),
    There(RemoteHandle<()>),
}

impl Program {
    async fn play(&mut self) {
        let is_kernel = self.script.world.network == Network::Kernel;
        let few = self.script.descriptors_max.filter(|_| is_kernel);
        let _scarcity = few.map(Scarcity::begin);
        for step in 0..self.script.steps {
            if let Finale::Shutdown { after, tell } = &self.script.end
                && step == *after
            {
                self.script.world.is_ending.store(true, SeqCst);
                // A failed listener has reported its failure itself.
                _ = tell.send(());
            }
            self.step().await;
            self.script.world.moves();
            if self.script.world.fault().is_some() {
                return;
            }
        }
    }

    async fn step(&mut self) {
        while self.players.len() >= self.players_max {
            self.wait_for_oldest().await;
        }
        let world = &self.script.world;
        let has_plain_sockets = world.network == Network::Kernel && !world.is_scarce;
        match self.random.within(0..=19) {
            0..=8 => self.pair().await,
            9..=11 if has_plain_sockets => self.foreign_pair().await,
            12..=14 => self.datagram_socket(),
            15 => self.rebind().await,
            16 => self.give_up_connecting().await,
            17 => self.let_go_of_accepted().await,
            18 => sleep(Duration::from_micros(self.random.of_any_size(3_000) as u64)).await,
            _ => yield_now().await,
        }
    }

    /// Starts two ends of the runtime, on any cores.
    async fn pair(&mut self) {
        let Some(at) = self.any_post() else { return };
        let is_echo = self.random.chance(30);
        let (one, other) = self.two_conducts(is_echo);
        let [first, second] = self.script.world.connect(self.posts[at].is_unix, is_echo);
        self.connect(self.posts[at].listener.local_addr().clone(), first.clone(), one);
        if let Some(accepted) = self.accept(at, &first).await {
            self.play_accepted(accepted, second, other);
        }
    }

    /// Starts one end of the runtime and one of a thread with a plain socket.
    async fn foreign_pair(&mut self) {
        let world = Arc::clone(&self.script.world);
        if world.threads_at_work() >= THREADS_MAX {
            return;
        }
        let mut random = Random::new(self.random.next(), 1);
        let mut conduct = Conduct::random(&mut random, self.script.bytes_max);
        match self.random.within(0..=2) {
            0 => {
                let Some(at) = self.any_post() else { return };
                let [first, second] = self.script.world.connect(self.posts[at].is_unix, false);
                let address = self.posts[at].listener.local_addr().clone();
                world.has_thread(foreign::connects(address, first.clone(), random));
                if let Some(accepted) = self.accept(at, &first).await {
                    self.play_accepted(accepted, second, conduct);
                }
            }
            1 => {
                conduct.does_not_wait();
                let is_unix = self.random.chance(40);
                let [first, second] = self.script.world.connect(is_unix, false);
                let at = self.free_address(is_unix);
                let (at, thread) = foreign::accepts(&at, second, random).expect("a free address");
                world.has_thread(thread);
                self.connect(at, first, conduct);
            }
            _ => {
                conduct.does_not_wait();
                let [first, second] = self.script.world.connect(true, false);
                let pair = Socket::pair(Domain::UNIX, Type::STREAM, None);
                let (own, theirs) = pair.expect("a pair of descriptors");
                world.has_thread(foreign::adopts(theirs, second, random));
                let stream = Stream::adopt(own.into(), &Rc::default()).expect("a connected socket");
                self.players.push_back(Player::Here(spawn(ends::live(stream, first, conduct))));
            }
        }
    }

    fn datagram_socket(&mut self) {
        let is_unix = self.random.chance(30);
        let bind = self.free_address(is_unix);
        let (world, directory) = (Arc::clone(&self.script.world), self.directory.clone());
        let random = Random::new(self.random.next(), 2);
        self.start(async move || datagrams::live(world, bind, directory, random).await);
    }

    /// Drops a listener and binds its address at once.
    async fn rebind(&mut self) {
        if self.posts.is_empty() {
            return;
        }
        let at = self.random.within(0..=self.posts.len() - 1);
        let Post { listener, is_unix } = self.posts.swap_remove(at);
        let address = listener.local_addr().clone();
        drop(listener);
        for _ in 0..REBINDS_MAX {
            match Listener::bind(&address, ListenOptions::default()) {
                Ok(listener) => return self.posts.push(Post { listener, is_unix }),
                // The kernel closes the former listener after its accept has been cancelled.
                Err(error) if self.may_be_rebound(&error) => {
                    sleep(Duration::from_millis(1)).await;
                }
                Err(error) => return self.complain(format_args!("no rebind: {error}")),
            }
        }
        self.complain(format_args!("{address:?} stays in use"));
    }

    fn may_be_rebound(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::AddrInUse || self.script.world.is_scarce
    }

    /// Begins to connect, and drops the future after a poll or two.
    async fn give_up_connecting(&mut self) {
        let is_unix = self.random.chance(40);
        let Some(post) = self.new_post(is_unix) else { return };
        let connect = Stream::connect(post.listener.local_addr());
        _ = timeout(Duration::ZERO, connect).await;
        if self.random.chance(50) {
            let moment = Duration::from_micros(self.random.of_any_size(500) as u64);
            drop(timeout(moment, post.listener.accept()).await);
        }
    }

    /// Accepts a connection and drops it at once.
    async fn let_go_of_accepted(&mut self) {
        let Some(at) = self.any_post() else { return };
        let (one, _) = self.two_conducts(false);
        let [first, second] = self.script.world.connect(self.posts[at].is_unix, false);
        self.connect(self.posts[at].listener.local_addr().clone(), first.clone(), one);
        let accepted = self.accept(at, &first).await;
        // The connection has given nothing, so its end is clean.
        [Act::Finished, Act::Dropped, Act::Left].iter().for_each(|&act| second.does(act));
        drop(accepted);
    }

    fn two_conducts(&mut self, is_echo: bool) -> (Conduct, Conduct) {
        let mut conduct = || {
            let mut random = Random::new(self.random.next(), 3);
            Conduct::random(&mut random, self.script.bytes_max)
        };
        let (mut one, mut other) = (conduct(), conduct());
        if is_echo {
            other.gives.clear();
            other.manner = match other.manner {
                Manner::DropsWithin(_) | Manner::Panics(_) => Manner::Tasks,
                manner => manner,
            };
            other.ending = Ending::Answer;
        }
        if one.waits() && other.waits() {
            one.does_not_wait();
        }
        match self.random.within(0..=4) {
            0 => one.is_paced_now_and_then(&mut self.random),
            1..=2 => other.is_paced_now_and_then(&mut self.random),
            _ => {}
        }
        (one, other)
    }

    /// Connects a first end and plays it.
    fn connect(&mut self, to: SockAddr, end: End, conduct: Conduct) {
        self.start(async move || {
            end.is_doing(Doing::Connecting);
            match Stream::connect(&to).await {
                Ok(stream) => ends::live(stream, end, conduct).await,
                Err(error) => {
                    let is_want = error.raw_os_error() == Some(libc::EMFILE);
                    if !(is_want && end.world.is_scarce) {
                        end.sees_error(&error);
                    }
                    end.does(Act::Left);
                }
            }
        });
    }

    fn play_accepted(&mut self, accepted: Accepted, end: End, conduct: Conduct) {
        self.start(async move || match accepted.into_stream(&Rc::default()) {
            Ok(stream) => ends::live(stream, end, conduct).await,
            Err(error) => end.complain(format_args!("not a stream of this core: {error}")),
        });
    }

    /// Starts a player on any core.
    fn start(&mut self, play: impl AsyncFnOnce() + Send + 'static) {
        let core = self.random.within(0..=self.cores.len() - 1);
        self.players.push_back(match core {
            0 => Player::Here(spawn(async move { play().await })),
            core => match self.cores[core].spawn(play) {
                Ok(handle) => Player::There(handle),
                Err(error) => return self.complain(format_args!("no core: {error}")),
            },
        });
    }

    /// Returns the connection that `first` makes, unless it fails. If this waits for ever, the watch reports
    /// a hang.
    async fn accept(&mut self, at: usize, first: &End) -> Option<Accepted> {
        loop {
            match timeout(LOOK_EVERY, self.posts[at].listener.accept()).await {
                Ok(Ok(accepted)) => return Some(accepted),
                Ok(Err(_)) if self.script.world.is_scarce => {}
                Ok(Err(error)) => {
                    self.complain(format_args!("nothing accepted: {error}"));
                    return None;
                }
                Err(_) if first.has_failed_to_begin() => return None,
                Err(_) => {}
            }
        }
    }

    fn any_post(&mut self) -> Option<usize> {
        if self.posts.len() < POSTS_MAX && self.random.chance(30) || self.posts.is_empty() {
            let is_unix = self.random.chance(40);
            let post = self.new_post(is_unix)?;
            self.posts.push(post);
        }
        Some(self.random.within(0..=self.posts.len() - 1))
    }

    fn new_post(&mut self, is_unix: bool) -> Option<Post> {
        let address = self.free_address(is_unix);
        match Listener::bind(&address, ListenOptions::default()) {
            Ok(listener) => Some(Post { listener, is_unix }),
            Err(_) if self.script.world.is_scarce => None,
            Err(error) => {
                self.complain(format_args!("no listener at {address:?}: {error}"));
                None
            }
        }
    }

    /// Records a violation, unless the cores may be ending: then every failure is allowed.
    fn complain(&self, what: impl fmt::Display) {
        if !self.script.world.is_ending() {
            self.script.world.complain(what);
        }
    }

    fn free_address(&mut self, is_unix: bool) -> SockAddr {
        if !is_unix {
            return SocketAddr::from((own_loopback(), 0)).into();
        }
        self.names += 1;
        let (process, run) = (std::process::id(), self.script.world.run);
        let name = format!("\0ringway-socket-life-{process}-{run}-{}", self.names);
        SockAddr::unix(name).expect("a short name")
    }

    async fn wait_for_oldest(&mut self) {
        let ended = match self.players.pop_front() {
            None => return,
            Some(Player::Here(handle)) => handle.await,
            Some(Player::There(handle)) => handle.await,
        };
        if let Err(error) = ended {
            self.complain(format_args!("a player has ended: {error}"));
        }
    }

    /// Waits until all players have left and every descriptor is closed, while the core still runs.
    async fn wind_up(&mut self, held: Option<usize>) {
        while !self.players.is_empty() {
            self.wait_for_oldest().await;
        }
        self.posts.clear();
        while self.script.world.threads_at_work() > 0 {
            sleep(LOOK_EVERY).await;
        }
        for core in &self.cores {
            let mut looks = 0..LOOKS_MAX;
            while core.counters().held_bytes > 0 && looks.next().is_some() {
                sleep(LOOK_EVERY).await;
            }
            let bytes = core.counters().held_bytes;
            if bytes > 0 {
                self.script.world.complain(format_args!("{bytes} bytes are held for nobody"));
            }
        }
        let Some(held) = held else { return };
        let mut now = open_descriptors();
        for _ in 0..LOOKS_MAX {
            if now <= held {
                return;
            }
            sleep(LOOK_EVERY).await;
            now = open_descriptors();
        }
        self.script.world.complain(format_args!("{now} descriptors are open, {held} were before"));
    }
}

/// A loopback address of this process alone. A datagram to the port of a closed socket must not reach another
/// process that was given the same port.
fn own_loopback() -> [u8; 4] {
    let [.., high, middle, low] = std::process::id().to_be_bytes();
    [127, 1 + high % 100, middle, low]
}

/// Ends and datagram sockets that live at the same time: enough to use descriptors again all the time.
const PLAYERS_MAX: [usize; 4] = [6, 24, 24, 80];
const POSTS_MAX: usize = 4;
const THREADS_MAX: usize = 6;
const REBINDS_MAX: usize = 5_000;
const LOOK_EVERY: Duration = Duration::from_millis(2);
const LOOKS_MAX: usize = 15_000;
