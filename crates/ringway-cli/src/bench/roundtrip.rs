//! The client of the roundtrip suite: one exchange of clocks in flight on each connection.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_runtime::io::{DatagramSocket, ListenOptions, Stream, StreamLimits};
use ringway_runtime::{sleep, spawn, timeout};
use socket2::SockAddr;

use super::connect::{self, connect_all};
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::args::Scheme;
use crate::clock::{self, ClockReading, EXCHANGE_BYTES};
use crate::limits;
use crate::report::Errors;

/// Exchanges clocks over the connections of `part`, with a `pause` after each answer.
pub(super) async fn run(part: Part, pause: Duration) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let mut errors = Errors::default();
    let lines = lines(&part, &mut errors).await;
    part.wait_for_all(1).await;
    let best = Rc::new(Cell::new(None));
    let exchange = |line| {
        let prober = Prober { line, pause, best: Rc::clone(&best), last: Cell::new(0) };
        spawn(prober.run(Rc::clone(&score)))
    };
    let lanes = lines.into_iter().map(exchange).collect();
    let mut outcome = score.keep(&part, lanes).await?;
    outcome.errors.add(&errors);
    outcome.clock = best.get();
    Ok(outcome)
}

async fn lines(part: &Part, errors: &mut Errors) -> Vec<Line> {
    let address = part.address.as_ref().expect("only calls take a source of servers");
    if part.uri.scheme() != Scheme::Udp {
        let bounds = Rc::new(StreamLimits::default());
        let streams = connect_all(address, part.connections.clone(), &bounds, errors).await;
        return streams.into_iter().map(|(_, stream)| Line::Stream(stream)).collect();
    }
    let mut lines = Vec::new();
    for _ in part.connections.clone() {
        match datagrams(address) {
            Ok(socket) => lines.push(Line::Datagrams(Box::new((socket, address.clone())))),
            Err(error) => connect::count(errors, &error),
        }
    }
    lines
}

/// Makes a socket that receives from nobody but `address`.
fn datagrams(address: &SockAddr) -> io::Result<DatagramSocket> {
    let any = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let any: std::net::SocketAddr = any.parse().expect("an address");
    let socket = DatagramSocket::bind(&any.into(), ListenOptions::default())?;
    socket.with_socket(|socket| socket.connect(address))?;
    Ok(socket)
}

/// What carries the exchanges of one connection.
enum Line {
    Stream(Stream),
    Datagrams(Box<(DatagramSocket, SockAddr)>),
}

/// One connection with one exchange in flight.
struct Prober {
    line: Line,
    pause: Duration,
    /// The best of all connections of this core within the measured interval.
    best: Rc<Cell<Option<ClockReading>>>,
    /// The time in the last request; no two have the same.
    last: Cell<u64>,
}

impl Prober {
    async fn run(self, score: Rc<Score>) {
        while !score.is_over() {
            match self.exchange(&score).await {
                Ok(true) => {}
                Ok(false) => return,
                // A datagram is lost, and the next one may not be.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => score.broken(&error),
                Err(error) => return score.broken(&error),
            }
            if !self.pause.is_zero() {
                sleep(self.pause).await;
            }
        }
    }

    /// Makes one exchange. Returns whether its answer was right.
    async fn exchange(&self, score: &Score) -> io::Result<bool> {
        // The clock is read within the time of the exchange, which is what bounds the error of the offset.
        let begun = Instant::now();
        let mine = clock::now_us().max(self.last.get() + 1);
        self.last.set(mine);
        self.line.send(clock::request(mine));
        let answered = timeout(limits::EXCHANGE_MAX, self.line.answer_to(mine)).await;
        let answer = answered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let now = Instant::now();
        // An echo has no time in the place of the server's.
        let theirs = clock::times(&answer).filter(|times| times.0 == mine && times.1 != 0);
        score.settle(theirs.is_some(), begun, now, || {
            format!("the answer to the exchange of {mine} is {answer:?}, which is not its own with a time")
        });
        let Some((_, theirs)) = theirs else { return Ok(false) };
        if score.is_timed(begun) {
            let reading = ClockReading::of(mine, theirs, now - begun);
            let best = self.best.get().map_or(reading, |best| best.better(reading));
            self.best.set(Some(best));
        }
        Ok(true)
    }
}

impl Line {
    fn send(&self, request: [u8; EXCHANGE_BYTES]) {
        match self {
            Self::Stream(stream) => _ = stream.write(&request),
            Self::Datagrams(to) => _ = to.0.send_to(request.to_vec(), &to.1),
        }
    }

    /// Receives the answer to the request of `mine`, or what is there in its place.
    async fn answer_to(&self, mine: u64) -> io::Result<Vec<u8>> {
        let mut answer = Vec::with_capacity(EXCHANGE_BYTES + 1);
        match self {
            Self::Stream(stream) => {
                while answer.len() < EXCHANGE_BYTES {
                    let view = stream.recv().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
                    // One byte more than was awaited shows that it is wrong.
                    answer.extend_from_slice(&view[..view.len().min(EXCHANGE_BYTES + 1)]);
                }
            }
            Self::Datagrams(from) => loop {
                let (view, _) = from.0.recv_from().await?;
                // One that was given up is late, and was counted.
                if clock::times(&view).is_none_or(|(sent, _)| sent >= mine) {
                    answer.extend_from_slice(&view);
                    break;
                }
            },
        }
        Ok(answer)
    }
}
