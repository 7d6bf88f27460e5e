//! The life of sockets at random: they are opened, accepted, handed over, half-closed, dropped with bytes queued,
//! reset
//! and opened again under the same number, over every driver, on one core and on two.
//!
//! `RINGWAY_SEED` repeats the choices of a run, `RINGWAY_STEPS` makes it longer, and `RINGWAY_ROUND` selects one of
//! its rounds.

#[path = "../suite/support/held.rs"]
mod held;

mod callbacks;
mod canary;
mod conduct;
mod datagrams;
mod elsewhere;
mod ends;
mod foreign;
mod ledger;
mod pattern;
mod program;
mod random;
mod scarcity;
mod watch;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use held::Held;
use ledger::{Network, Total, Want, World};
use program::{Finale, Script};
use random::Random;
use ringway_runtime::sim::{Faults, SimConfig};
use ringway_runtime::{Backend, Builder, CoreHandle, Runtime};
use watch::Watch;

#[test]
fn every_byte_arrives_where_it_belongs_whatever_becomes_of_the_sockets() {
    let seed = number("RINGWAY_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let steps = number("RINGWAY_STEPS").unwrap_or(STEPS);
    println!("RINGWAY_SEED={seed} RINGWAY_STEPS={steps}");
    let mut total = Total::default();
    if let Some(number) = number("RINGWAY_ROUND") {
        Round::random(seed, number).run(&mut total);
        return println!("{total:?}");
    }
    let (mut done, mut told) = (0, Instant::now());
    for number in 0.. {
        if done >= steps {
            return println!("{done} steps, {number} rounds, {total:?}");
        }
        let round = Round::random(seed, number);
        done += round.steps as u64;
        round.run(&mut total);
        if told.elapsed() > TELL_EVERY {
            eprintln!("socket life, seed {seed}: {done} of {steps} steps, {number} rounds");
            told = Instant::now();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Driver {
    Uring,
    Epoll,
    Sim,
}

/// One runtime from its start to its end.
#[derive(Clone, Copy, Debug)]
struct Round {
    seed: u64,
    number: u64,
    driver: Driver,
    cores: usize,
    steps: usize,
    outcome: Outcome,
    /// The simulated network resets connections.
    is_faulty: bool,
    /// The number of descriptors, if they are scarce.
    descriptors_max: Option<usize>,
    /// The bytes that each core may hold, if memory is scarce.
    held_bytes_max: Option<usize>,
    bytes_max: usize,
}

/// How a round ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Whole,
    CutShort,
    /// Another thread shuts the runtime down after this many steps, in the middle of one.
    ShutDown(usize),
}

impl Round {
    fn random(seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed, number);
        let driver = [Driver::Uring, Driver::Epoll, Driver::Sim][number as usize % 3];
        Self {
            seed: random.next(),
            number,
            driver,
            cores: if driver == Driver::Sim { 1 } else { random.within(1..=2) },
            steps: 10 + random.of_any_size(1_500),
            outcome: match random.within(0..=9) {
                0..=1 => Outcome::CutShort,
                2 if driver != Driver::Sim => Outcome::ShutDown(random.within(5..=100)),
                _ => Outcome::Whole,
            },
            is_faulty: driver == Driver::Sim && random.chance(30),
            descriptors_max: random.chance(15).then(|| random.within(8..=40)),
            bytes_max: random.pick(&[200, 200, 20_000, 20_000, 300_000, 3_000_000]),
            held_bytes_max: (driver != Driver::Sim && random.chance(25))
                .then(|| random.of_any_size(4_000_000)),
        }
    }

    fn run(self, total: &mut Total) {
        let network = match self.driver {
            Driver::Uring | Driver::Epoll => Network::Kernel,
            Driver::Sim if self.is_faulty => Network::Faulty,
            Driver::Sim => Network::Simulated,
        };
        let want = Want {
            of_descriptors: self.descriptors_max.is_some(),
            of_memory: self.held_bytes_max.is_some(),
        };
        let world = World::new(self.number as u32, network, want);
        let before = Held::now();
        let watch = Watch::begin(Arc::clone(&world), format!("{self:?}"));
        let ran = self.run_program(&world);
        drop(watch);
        if self.outcome == Outcome::Whole {
            world.close_the_books();
        }
        world.is_given_back();
        world.add_to(total);
        let found = match ran {
            Err(error) => Some(error.to_string()),
            Ok(()) => world.fault().or_else(|| before.is_left().err()),
        };
        if let Some(what) = found {
            panic!("RINGWAY_ROUND={} ({self:?}): {what}", self.number);
        }
    }

    fn run_program(self, world: &Arc<World>) -> io::Result<()> {
        let (tell, is_time) = channel();
        let script = Script {
            world: Arc::clone(world),
            seed: self.seed,
            steps: self.steps,
            end: match self.outcome {
                Outcome::Whole => Finale::WindUp,
                Outcome::CutShort => Finale::CutShort,
                Outcome::ShutDown(after) => Finale::Shutdown { after, tell },
            },
            descriptors_max: self.descriptors_max,
            bytes_max: self.bytes_max,
        };
        let is_shut_down = matches!(self.outcome, Outcome::ShutDown(_));
        match (self.backend(), self.cores) {
            (None, _) => Builder::simulate(self.simulation(), alone(script))?,
            (Some(backend), 1) if !is_shut_down => {
                self.builder(backend).block_on(alone(script))?;
            }
            (Some(backend), _) => on_cores(self.builder(backend), script, &is_time)?,
        }
        world.end_threads()
    }

    fn builder(self, backend: Backend) -> Builder {
        let builder = Runtime::builder().threads(self.cores).backend(backend);
        match self.held_bytes_max {
            Some(bytes) => builder.held_bytes_max(bytes),
            None => builder,
        }
    }

    fn backend(self) -> Option<Backend> {
        match self.driver {
            Driver::Uring => Some(Backend::Uring),
            Driver::Epoll => Some(Backend::Epoll),
            Driver::Sim => None,
        }
    }

    fn simulation(self) -> SimConfig {
        let mut random = Random::new(self.seed, 1);
        let faults = match random.within(0..=2) {
            0 => Faults::none(),
            _ => Faults::harsh(),
        };
        let resets = if self.is_faulty { 200 } else { 0 };
        // A failing accept gives up the streams that only receive, as a lack of descriptors does.
        let accept_errors = if self.descriptors_max.is_some() { faults.accept_errors } else { 0 };
        let usual = SimConfig::new(self.seed);
        SimConfig {
            faults: Faults { resets, lossy_resets: 500, accept_errors, ..faults },
            descriptors_max: self.descriptors_max.unwrap_or(usual.descriptors_max),
            socket_buffer_bytes: random.pick(&[1_000, 8_000, 64 * 1024]),
            ..usual
        }
    }
}

async fn alone(script: Script) {
    program::run(script, vec![CoreHandle::current()]).await;
}

/// Runs a script, and shuts the cores down at its chosen step or when it has ended.
fn on_cores(builder: Builder, script: Script, is_time: &Receiver<()>) -> io::Result<()> {
    let runtime = builder.start()?;
    let handles = runtime.cores().to_vec();
    let is_shut_down = matches!(script.end, Finale::Shutdown { .. });
    let running = runtime.cores()[0].spawn(async move || program::run(script, handles).await);
    let running = running.map_err(io::Error::other)?;
    if is_shut_down {
        // The channel fails if the program has ended before that step.
        _ = is_time.recv();
        return runtime.shutdown();
    }
    running.wait().map_err(io::Error::other)?;
    runtime.shutdown()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

/// The rounds of the gate, which take some seconds over each driver.
const STEPS: u64 = 4_000;
const TELL_EVERY: Duration = Duration::from_secs(5);
