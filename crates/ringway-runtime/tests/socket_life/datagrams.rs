//! Datagram sockets: each datagram names its sender and its destination, and carries a piece of the sender's bytes.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use ringway_runtime::io::{DatagramSocket, ListenOptions, Pressure};
use ringway_runtime::{sleep, timeout, yield_now};
use socket2::SockAddr;

use crate::canary;
use crate::ledger::World;
use crate::pattern::Source;
use crate::random::{Random, mix};

/// The addresses of live sockets, and of some closed ones. Datagrams go to any of them.
#[derive(Clone, Default)]
pub(crate) struct Directory(Arc<Mutex<VecDeque<SockAddr>>>);

impl Directory {
    fn add(&self, address: SockAddr) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back(address);
        if known.len() > KNOWN_MAX {
            known.pop_front();
        }
    }

    fn any(&self, random: &mut Random) -> Option<SockAddr> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!known.is_empty()).then(|| known[random.within(0..=known.len() - 1)].clone())
    }
}

/// Plays a socket at `bind` for a while: sends, receives, and is dropped with datagrams queued.
pub(crate) async fn live(
    world: Arc<World>,
    bind: SockAddr,
    directory: Directory,
    mut random: Random,
) {
    let socket = match DatagramSocket::bind(&bind, ListenOptions::default()) {
        Ok(socket) => socket,
        Err(_) if world.is_scarce => return,
        Err(error) => {
            return world.complain(format_args!("no datagram socket at {bind:?}: {error}"));
        }
    };
    let number = world.next_datagram_socket();
    let name = Name { source: Source::of_datagrams(world.run, number), number };
    let own = socket.local_addr().clone();
    directory.add(own.clone());
    let mut sent = 0;
    for _ in 0..random.within(1..=6) {
        for _ in 0..random.of_any_size(40) {
            let Some(to) = directory.any(&mut random).filter(|to| to.is_unix() == own.is_unix())
            else {
                continue;
            };
            let datagram = name.datagram(sent, &to, random.of_any_size(LENGTH_MAX));
            sent += 1;
            if socket.send_to(datagram, &to) == Pressure::High {
                socket.drained().await;
            }
        }
        match random.within(0..=2) {
            0 => yield_now().await,
            1 => {
                take_for(&world, &socket, Duration::from_micros(random.of_any_size(3_000) as u64))
                    .await
            }
            _ => take_what_is_there(&world, &socket).await,
        }
        world.moves();
    }
    if let Some(to) = directory.any(&mut random).filter(|to| to.is_unix() == own.is_unix()) {
        (0..random.of_any_size(20))
            .for_each(|i| _ = socket.send_to(name.datagram(sent + i as u64, &to, 100), &to));
    }
    drop(socket);
    canary::watch_for_a_while(&world).await;
}

async fn take_for(world: &World, socket: &DatagramSocket, time: Duration) {
    let take = async {
        loop {
            take_one(world, socket).await;
        }
    };
    _ = timeout(time, take).await;
    sleep(Duration::ZERO).await;
}

async fn take_what_is_there(world: &World, socket: &DatagramSocket) {
    let mut take = pin!(async {
        loop {
            take_one(world, socket).await;
        }
    });
    poll_fn(|cx| Poll::Ready(_ = take.as_mut().poll(cx))).await;
}

async fn take_one(world: &World, socket: &DatagramSocket) {
    // The error belongs to an earlier datagram, sent to an address that has no socket.
    let Ok((found, from)) = socket.recv_from().await else {
        return;
    };
    let sender = from.as_ref().map(place);
    if let Err(what) = Name::check(world.run, &found, place(socket.local_addr()), sender) {
        let whose = world.attribute(&found);
        world.complain(format_args!("a datagram of {} bytes: {what}; it is {whose}", found.len()));
    }
}

/// The sender of a datagram.
struct Name {
    source: Source,
    number: u32,
}

impl Name {
    /// Sender's number (4 bytes), number of the datagram (8), destination (8), and bytes of the sender.
    fn datagram(&self, sequence: u64, to: &SockAddr, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + len);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&sequence.to_le_bytes());
        bytes.extend_from_slice(&place(to).to_le_bytes());
        bytes.extend_from_slice(&self.source.bytes(sequence << 20, len));
        bytes
    }

    fn check(run: u32, found: &[u8], here: u64, sender: Option<u64>) -> Result<(), String> {
        let Some((header, body)) = found.split_first_chunk::<HEADER_BYTES>() else {
            return Err("it is too short".to_owned());
        };
        let number = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
        let sequence = u64::from_le_bytes(header[4..12].try_into().expect("eight bytes"));
        let to = u64::from_le_bytes(header[12..].try_into().expect("eight bytes"));
        let source = Source::of_datagrams(run, number);
        match source.first_wrong(sequence << 20, body) {
            Some(at) => Err(format!("byte {at} of number {sequence} of socket {number} is wrong")),
            None if to != here => {
                Err(format!("number {sequence} of socket {number} went elsewhere"))
            }
            None if sender.is_none() => Err(format!("number {sequence} of {number} has no sender")),
            None => Ok(()),
        }
    }
}

/// The number that stands for an address in a datagram.
fn place(address: &SockAddr) -> u64 {
    match address.as_socket() {
        Some(inet) => u64::from(inet.port()),
        None => address
            .as_abstract_namespace()
            .unwrap_or(b"?")
            .iter()
            .fold(1, |sum, byte| mix(sum ^ u64::from(*byte))),
    }
}

const HEADER_BYTES: usize = 20;
const LENGTH_MAX: usize = 30_000;
const KNOWN_MAX: usize = 12;
