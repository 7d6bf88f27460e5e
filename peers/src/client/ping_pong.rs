//! The plain ping-pong client: one thread, level-triggered epoll, one message in flight on each
//! connection, asleep in `epoll_wait` when there is nothing to do.
//!
//! Every reply is compared byte by byte with what was sent. All connections are up before the
//! warm-up begins; replies of the warm-up are verified but not counted.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::connection::{Connection, Event as Happened};
use super::cpu::cpu_time;
use super::report::Report;
use crate::args::Load;
use crate::limits::{DRAIN_SECONDS_MAX, EVENTS_PER_WAIT, READ_BYTES};
use crate::message::Messages;

/// Runs the workload and reports what was measured.
///
/// # Errors
/// If a connection cannot be made or epoll fails. What happens to a connection later is counted
/// in the report instead.
pub(crate) fn ping_pong(options: &Load) -> io::Result<Report> {
    let mut client = Client::connect(options)?;
    client.start();
    client.run(options.warmup)?;

    options.tell_begin();
    client.recording = true;
    let cpu_before = cpu_time();
    let begin = Instant::now();
    client.began = Some(begin);
    client.run(options.duration)?;
    client.report.elapsed = begin.elapsed();
    client.report.cpu = cpu_time() - cpu_before;
    client.recording = false;
    options.tell_end();

    client.issuing = false;
    client.run(Duration::from_secs(DRAIN_SECONDS_MAX))?;
    client.report.errors += client.in_flight as u64;
    Ok(client.report)
}

struct Client {
    epoll: OwnedFd,
    /// Ends a phase. As a descriptor in the set it costs nothing on each wait, unlike a timeout.
    timer: OwnedFd,
    connections: Vec<Connection>,
    messages: Messages,
    buffer: Vec<u8>,
    in_flight: usize,
    /// Whether a reply is followed by the next request.
    issuing: bool,
    /// Whether replies are counted.
    recording: bool,
    /// When they began to be. What is sent from then on is timed, be its reply in the drain.
    began: Option<Instant>,
    report: Report,
}

/// `EventData` of the timer; connections are numbered from zero.
const TIMER: u64 = u64::MAX;

impl Client {
    fn connect(options: &Load) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let mut connections = Vec::with_capacity(options.connections);
        for number in 0..options.connections as u32 {
            let connection = Connection::open(&options.address, number)?;
            connection.register(&epoll)?;
            connections.push(connection);
        }
        Ok(Self {
            epoll,
            timer,
            connections,
            messages: Messages::new(options.message_bytes),
            buffer: vec![0; READ_BYTES],
            in_flight: 0,
            issuing: true,
            recording: false,
            began: None,
            report: Report::new(options.message_bytes),
        })
    }

    fn start(&mut self) {
        let now = Instant::now();
        for number in 0..self.connections.len() {
            self.in_flight += 1;
            let connection = &mut self.connections[number];
            if connection.send_next(&self.epoll, &self.messages, now).is_err() {
                self.fail(number);
            }
        }
    }

    /// Serves events for `duration`, or until nothing is in flight: then the drain is done, or each
    /// connection has failed.
    fn run(&mut self, duration: Duration) -> io::Result<()> {
        if duration.is_zero() {
            return Ok(());
        }
        self.arm_timer(duration)?;
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_WAIT);
        let mut time_is_up = false;
        while !time_is_up && self.in_flight > 0 {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    TIMER => time_is_up = true,
                    number => self.on_ready(number as usize, event.flags),
                }
            }
        }
        Ok(())
    }

    fn on_ready(&mut self, number: usize, flags: EventFlags) {
        let connection = &mut self.connections[number];
        let outcome = connection.on_ready(&self.epoll, flags, &self.messages, &mut self.buffer);
        match outcome {
            Ok(Happened::Nothing) => {}
            Ok(Happened::Reply { intact }) => self.on_reply(number, intact),
            Err(_) => self.fail(number),
        }
    }

    /// One reading of the clock ends this reply and begins the next request.
    fn on_reply(&mut self, number: usize, intact: bool) {
        let now = Instant::now();
        let connection = &mut self.connections[number];
        if !intact {
            self.report.mismatches += 1;
        } else {
            self.report.messages += u64::from(self.recording);
            if self.began.is_some_and(|began| connection.sent_at() >= began) {
                self.report.time(now - connection.sent_at());
            }
        }
        if !self.issuing {
            self.in_flight -= 1;
        } else if connection.send_next(&self.epoll, &self.messages, now).is_err() {
            self.fail(number);
        }
    }

    /// Counts an error and closes the connection, whose request is thereby no longer in flight.
    fn fail(&mut self, number: usize) {
        self.report.errors += 1;
        if self.connections[number].close() {
            self.in_flight -= 1;
        }
    }

    fn arm_timer(&self, duration: Duration) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: duration.as_secs() as i64,
                tv_nsec: i64::from(duration.subsec_nanos()),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}
