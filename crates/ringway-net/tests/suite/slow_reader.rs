//! A peer that never reads while 1 GiB is sent to it: memory stays bounded, and other connections
//! of the core are served as before.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use ringway_net::{Backend, Connection, Error, Group, Result, ServerHandle, SlowReader};

use crate::support::alone::alone;
use crate::support::server;
use crate::support::server::{connect, end, eventually, server};

/// Bytes sent to the slow reader.
const SENT: usize = 1 << 30;
const MESSAGE: usize = 64 * 1024;
const HIGH_WATER: usize = 1 << 20;
const SEND_QUEUE_MAX: usize = 4 << 20;

/// Memory outside of the queue: receive buffers that come into use, memory that the allocator
/// keeps.
const SLACK: usize = 8 << 20;

/// Connections that are served at the same time.
const OTHERS: usize = 4;

/// Partial sends for other reasons than slow readers: the first ones of each other connection,
/// while the kernel has yet to enlarge its buffers.
const OTHERS_SHORT_SENDS: u64 = 4 * OTHERS as u64;

/// Echoes between two samples of the memory.
const ECHOES_PER_SAMPLE: usize = 64;

/// How bytes are sent to the slow reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sending {
    /// Its own handler sends them and waits for room.
    Awaited,
    /// Everything that the other connections send is also pushed to it.
    Pushed(SlowReader),
}

#[test]
fn slow_reader_whose_handler_waits() {
    alone(|| check_all(Sending::Awaited));
}

#[test]
fn slow_reader_whose_messages_are_queued() {
    alone(|| check_all(Sending::Pushed(SlowReader::Pause)));
}

#[test]
fn slow_reader_whose_messages_are_dropped() {
    alone(|| check_all(Sending::Pushed(SlowReader::Drop)));
}

#[test]
fn slow_reader_that_is_closed() {
    alone(|| check_all(Sending::Pushed(SlowReader::Close)));
}

fn check_all(sending: Sending) {
    for backend in server::BACKENDS {
        check(backend, sending);
    }
}

/// Runs the same echoes without and with a slow reader.
fn check(backend: Backend, sending: Sending) {
    let mut service = Service::start(backend, sending);
    let mut others: Vec<_> = (0..OTHERS).map(|_| service.join(ECHOES)).collect();
    let alone = service.run(&mut others, false);
    let before = resident_bytes();
    let beside = service.run(&mut others, true);
    let grown = beside.resident_max.saturating_sub(before);
    println!(
        "{backend} {sending:?}: {:.0} MiB/s of echoes alone, {:.0} beside slow readers ({:.1} %); \
         {} slow readers; {} sends cut short; {} KiB of memory more",
        alone.mib_per_s,
        beside.mib_per_s,
        100.0 * beside.mib_per_s / alone.mib_per_s,
        beside.slow_readers,
        beside.short_sends,
        grown / 1_024
    );
    drop(others);
    service.end(beside.slow_readers);
    let bound = if sending == Sending::Awaited { HIGH_WATER + MESSAGE } else { SEND_QUEUE_MAX };
    assert!(grown <= bound + SLACK, "{grown} bytes of memory more");
    // A slow reader costs the others only the making and copying of its bytes. One partial send
    // then waits in the kernel; retrying it would cost the others more.
    let short_sends_max = 2 * beside.slow_readers as u64 + OTHERS_SHORT_SENDS;
    assert!(beside.short_sends <= short_sends_max, "{} sends cut short", beside.short_sends);
}

/// The first byte of a connection selects its role.
const ECHOES: u8 = b'e';
const IS_PUSHED_TO: u8 = b'p';
const DOWNLOADS: u8 = b'd';

/// One core that serves all connections, and the results of its handlers.
struct Service {
    handle: ServerHandle,
    group: Group,
    sending: Sending,
    /// How each download ended.
    downloads: Receiver<Result>,
}

/// Measurements while 1 GiB went through the other connections.
struct Seen {
    mib_per_s: f64,
    resident_max: usize,
    slow_readers: usize,
    short_sends: u64,
}

impl Service {
    fn start(backend: Backend, sending: Sending) -> Self {
        let policy = match sending {
            Sending::Pushed(policy) => policy,
            Sending::Awaited => SlowReader::Pause,
        };
        let server = server(backend).threads(1).slow_reader(policy).high_water(HIGH_WATER);
        let server = server.low_water(HIGH_WATER / 4).send_queue_max(SEND_QUEUE_MAX);
        let server = server.write_stall_timeout(None);
        let group = Group::new();
        let (tell, downloads) = mpsc::channel();
        let of_handlers = (group.clone(), tell);
        let handler =
            async move |conn: Connection| serve(conn, &of_handlers.0, &of_handlers.1).await;
        let handle = server.start(handler).expect("the server starts");
        Self { handle, group, sending, downloads }
    }

    /// Connects a client and waits until its role is set.
    fn join(&self, role: u8) -> TcpStream {
        let mut client = connect(&self.handle);
        client.set_nodelay(true).expect("a socket option");
        client.write_all(&[role]).expect("written");
        client.read_exact(&mut [0]).expect("it is taken");
        client
    }

    /// Echoes 1 GiB over all of `others`, with a slow reader at all times if wanted.
    fn run(&mut self, others: &mut [TcpStream], with_slow_reader: bool) -> Seen {
        let message = vec![7; MESSAGE];
        let mut slow = Vec::new();
        let mut resident_max = 0;
        let short_before = self.short_sends();
        let began = Instant::now();
        for round in 0..SENT / MESSAGE / others.len() {
            if with_slow_reader && self.needs_slow_reader(slow.len()) {
                slow.push(self.join(self.slow_role()));
            }
            echo_one_each(others, &message);
            if (round * others.len()).is_multiple_of(ECHOES_PER_SAMPLE) {
                resident_max = resident_max.max(resident_bytes());
            }
        }
        let mib_per_s = (SENT >> 20) as f64 / began.elapsed().as_secs_f64();
        let slow_readers = slow.len();
        let short_sends = self.short_sends() - short_before;
        self.leave(slow);
        Seen { mib_per_s, resident_max, slow_readers, short_sends }
    }

    /// Returns the number of sends that the kernel has accepted only in part.
    fn short_sends(&self) -> u64 {
        self.handle.stats().cores.iter().map(|core| core.counters.short_sends).sum()
    }

    fn slow_role(&self) -> u8 {
        if self.sending == Sending::Awaited { DOWNLOADS } else { IS_PUSHED_TO }
    }

    /// Whether a new slow reader is needed, because some policies close it.
    fn needs_slow_reader(&self, until_now: usize) -> bool {
        match self.sending {
            Sending::Awaited => until_now == 0,
            Sending::Pushed(_) => self.group.is_empty(),
        }
    }

    /// Closes the slow readers without reading.
    fn leave(&self, slow: Vec<TcpStream>) {
        drop(slow);
        let others = OTHERS;
        eventually("the slow readers are gone", || self.handle.stats().open == others);
    }

    fn end(self, slow_readers: usize) {
        end(&self.handle);
        match self.sending {
            Sending::Awaited => {
                let outcome = self.downloads.try_recv().expect("the download has ended");
                assert!(outcome.is_err_and(|error| error.is_closed()), "nobody has read 1 GiB");
            }
            Sending::Pushed(SlowReader::Drop) => assert_eq!(slow_readers, 1, "it is kept"),
            Sending::Pushed(_) => assert!(slow_readers > 1, "{slow_readers}: none was closed"),
        }
    }
}

/// Sends one message to each, then reads all echoes.
fn echo_one_each(clients: &mut [TcpStream], message: &[u8]) {
    for client in clients.iter_mut() {
        client.write_all(message).expect("the server reads");
    }
    let mut echoed = vec![0; message.len()];
    for client in clients {
        client.read_exact(&mut echoed).expect("it is served while the slow reader is not");
        assert!(echoed == message, "the echo differs");
    }
}

async fn serve(mut conn: Connection, group: &Group, tell: &Sender<Result>) -> Result {
    let role = conn.recv().await?.map(|view| view[0]);
    conn.write(b"!");
    match role {
        Some(IS_PUSHED_TO) => {
            let _member = group.join(&conn);
            while conn.recv().await?.is_some() {}
        }
        Some(DOWNLOADS) => tell.send(download(&conn).await).map_err(Error::other)?,
        _ => echo_and_push(conn, group).await?,
    }
    Ok(())
}

/// Allocates every message, so that queued bytes cost their own memory.
async fn download(conn: &Connection) -> Result {
    for _ in 0..SENT / MESSAGE {
        conn.send(bytes::Bytes::from(vec![3; MESSAGE])).await?;
    }
    Ok(())
}

async fn echo_and_push(mut conn: Connection, group: &Group) -> Result {
    while let Some(view) = conn.recv().await? {
        drop(group.send(bytes::Bytes::copy_from_slice(&view)));
        conn.send(view);
    }
    Ok(())
}

/// Returns the resident memory of this process.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let resident = pages.split(' ').nth(1).expect("Linux tells it");
    resident.parse::<usize>().expect("a number") * rustix::param::page_size()
}
