//! The behaviour of one end of a connection, decided before the connection begins.

use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::StreamLimits;

use crate::random::Random;

/// Everything that an end does in its life.
#[derive(Clone, Debug)]
pub(crate) struct Conduct {
    pub(crate) gives: Vec<Give>,
    pub(crate) pace: Pace,
    pub(crate) ending: Ending,
    pub(crate) manner: Manner,
    pub(crate) is_paced: bool,
    /// Another thread keeps some of the received bytes.
    pub(crate) shares: bool,
    pub(crate) expiry: Option<Expiry>,
    pub(crate) recv_high_water: usize,
    pub(crate) send_high_water: usize,
}

/// One step of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Give {
    /// Sends a copy of this many bytes.
    Written(usize),
    /// Sends a vector of this many bytes.
    Moved(usize),
    /// Sends this many bytes of foreign memory, whose destructor uses the runtime.
    Lent(usize),
    Drained,
    Flushed,
    Yield,
    Pause(Duration),
    /// From now on, reading waits for room, or stops to do so.
    Paced(bool),
    /// Sets other marks for the outbox.
    Limits {
        recv_high_water: usize,
        send_high_water: usize,
    },
}

/// How an end reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    Steady,
    /// Pauses after every so many bytes, and keeps a few views for a while.
    Slow {
        bytes: usize,
        pause: Duration,
    },
    /// Reads only after the end has sent everything.
    AfterSending,
}

/// What an end does after it has sent everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Finishes sending, reads to the end, and then drops the stream.
    Finish,
    /// Reads to the end, then drops the stream, which finishes sending.
    Answer,
    /// Drops the stream with everything that is queued.
    Drop,
    /// Finishes sending and drops the stream at once.
    FinishAndDrop,
    /// Drops the stream when the kernel has taken everything.
    FlushAndDrop,
    /// Ends receiving, takes what has arrived, then finishes sending.
    EndReceiving,
    Abort,
}

/// When a stream ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry {
    Lifetime(Duration),
    Idle(Duration),
}

/// Who receives: a task or a callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    Tasks,
    /// A callback that owns the stream.
    Callback,
    /// A callback that another one replaces after this many calls.
    Replaced(usize),
    /// A callback that drops its stream within this call.
    DropsWithin(usize),
    /// A callback that panics in this call.
    Panics(usize),
}

impl Conduct {
    /// Chooses the conduct of the first end, or of the second end of a connection that may be an echo.
    pub(crate) fn random(random: &mut Random, bytes_max: usize) -> Self {
        let manner = match random.within(0..=15) {
            0..=9 => Manner::Tasks,
            10..=11 => Manner::Callback,
            12..=13 => Manner::Replaced(random.within(1..=4)),
            14 => Manner::DropsWithin(random.within(1..=4)),
            _ => Manner::Panics(random.within(1..=4)),
        };
        let pace = match random.within(0..=7) {
            0..=3 => Pace::Steady,
            4..=5 => Pace::Slow { bytes: random.of_any_size(200_000), pause: pause(random) },
            _ => Pace::AfterSending,
        };
        let ending = random.pick(&[
            Ending::Finish,
            Ending::Finish,
            Ending::Answer,
            Ending::Drop,
            Ending::Drop,
            Ending::FinishAndDrop,
            Ending::FlushAndDrop,
            Ending::EndReceiving,
            Ending::Abort,
        ]);
        Self {
            gives: gives(random, bytes_max, pace),
            pace,
            ending,
            manner,
            is_paced: false,
            shares: random.chance(25),
            expiry: match random.within(0..=39) {
                0 => Some(Expiry::Lifetime(pause(random) * 4)),
                1 => Some(Expiry::Idle(pause(random) * 2)),
                _ => None,
            },
            recv_high_water: random.pick(&RECV_HIGH_WATERS),
            send_high_water: random.pick(&SEND_HIGH_WATERS),
        }
    }

    pub(crate) fn limits(&self) -> Rc<StreamLimits> {
        self.limits_with(self.recv_high_water, self.send_high_water)
    }

    /// The marks that a step of sending sets.
    pub(crate) fn limits_from(&self, give: Give) -> Rc<StreamLimits> {
        match give {
            Give::Limits { recv_high_water, send_high_water } => {
                self.limits_with(recv_high_water, send_high_water)
            }
            _ => self.limits(),
        }
    }

    fn limits_with(&self, recv_high_water: usize, send_high_water: usize) -> Rc<StreamLimits> {
        Rc::new(StreamLimits {
            recv_high_water,
            send_high_water,
            send_low_water: send_high_water / 3,
            lifetime: match self.expiry {
                Some(Expiry::Lifetime(time)) => Some(time),
                _ => None,
            },
            idle_timeout: match self.expiry {
                Some(Expiry::Idle(time)) => Some(time),
                _ => None,
            },
            ..StreamLimits::default()
        })
    }

    /// Whether this end may finish only after the other end has finished.
    pub(crate) fn waits(&self) -> bool {
        let finishes = [Ending::Finish, Ending::FinishAndDrop, Ending::EndReceiving];
        self.ending == Ending::Answer
            || self.manner != Manner::Tasks && !finishes.contains(&self.ending)
    }

    /// Makes reading wait for room, in some steps only.
    pub(crate) fn is_paced_now_and_then(&mut self, random: &mut Random) {
        self.is_paced = random.chance(70);
        for _ in 0..random.of_any_size(8) {
            let at = random.within(0..=self.gives.len());
            self.gives.insert(at, Give::Paced(random.chance(50)));
        }
    }

    /// Changes the conduct into one that finishes by itself.
    pub(crate) fn does_not_wait(&mut self) {
        if self.waits() {
            self.ending = Ending::Finish;
        }
    }
}

fn gives(random: &mut Random, bytes_max: usize, pace: Pace) -> Vec<Give> {
    let mut gives = Vec::new();
    let mut left = random.of_any_size(bytes_max);
    while left > 0 {
        let len = random.of_any_size(left).max(1);
        left -= len;
        gives.push(match random.within(0..=2) {
            0 => Give::Written(len),
            1 => Give::Moved(len),
            _ => Give::Lent(len),
        });
        // An end that does not read meanwhile must not wait for another end that does the same.
        let waits = pace != Pace::AfterSending;
        match random.within(0..=9) {
            0..=1 => gives.push(Give::Yield),
            2 => gives.push(Give::Pause(pause(random))),
            3 if waits => gives.push(Give::Drained),
            4 if waits => gives.push(Give::Flushed),
            5 => gives.push(Give::Limits {
                recv_high_water: random.pick(&RECV_HIGH_WATERS),
                send_high_water: random.pick(&SEND_HIGH_WATERS),
            }),
            _ => {}
        }
        if gives.len() > GIVES_MAX {
            break;
        }
    }
    gives
}

pub(crate) fn pause(random: &mut Random) -> Duration {
    Duration::from_micros(random.of_any_size(4_000) as u64)
}

const RECV_HIGH_WATERS: [usize; 4] = [1, 1_000, 20_000, 256 * 1024];
const SEND_HIGH_WATERS: [usize; 4] = [1, 10_000, 100_000, 1024 * 1024];
/// Steps of sending of one end.
const GIVES_MAX: usize = 40;
