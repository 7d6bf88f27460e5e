//! The plainest io_uring echo server: one-shot receive, then one-shot send.
//!
//! One thread, one buffer a connection, and at any moment exactly one operation in the kernel for
//! each connection. A receive waits for readiness before its first attempt (POLL_FIRST), which
//! saves the attempt that would find nothing after each reply.

#![allow(unsafe_code)] // submitting an entry is unsafe: the kernel uses its buffer later

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use io_uring::squeue::Entry;
use io_uring::types::Fd;
use io_uring::{IoUring, SubmissionQueue, Submitter, cqueue, opcode};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};

use crate::limits::{READ_BYTES, RING_COMPLETIONS, RING_SUBMISSIONS};
use crate::listener::{Listener, is_transient};
use crate::stop::Stop;

/// Echoes until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    // Some kernels answer EAGAIN at once for a non-blocking listener instead of waiting.
    rustix::io::ioctl_fionbio(&listener, false)?;
    let mut ring = ring()?;
    let (submitter, queue, mut completions) = ring.split();
    let mut server = UringServer { submitter, queue, listener, connections: Vec::new() };
    server.watch_stop(&stop)?;
    server.accept()?;
    server.listener.announce()?;
    loop {
        server.queue.sync();
        match server.submitter.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return server.leave(Err(error)),
        }
        server.queue.sync();
        completions.sync();
        for completion in &mut completions {
            match server.on_completion(&completion) {
                Ok(Turn::Go) => {}
                Ok(Turn::Stop) => return server.leave(Ok(())),
                Err(error) => return server.leave(Err(error)),
            }
        }
    }
}

/// IORING_RECVSEND_POLL_FIRST of the kernel's interface, which the crate does not export.
const POLL_FIRST: u16 = 1;

fn ring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_cqsize(RING_COMPLETIONS)
        .build(RING_SUBMISSIONS)
}

struct UringServer<'ring> {
    submitter: Submitter<'ring>,
    queue: SubmissionQueue<'ring>,
    listener: Listener,
    /// Indexed by descriptor: the kernel gives out the lowest free one, so this stays dense.
    connections: Vec<Option<UringConnection>>,
}

struct UringConnection {
    socket: OwnedFd,
    /// Lent to the kernel while an operation of this connection is in flight, which is always,
    /// except between a completion and the next operation. Only its capacity is used, so it is not
    /// zeroed, and the pages that no message reaches are never touched.
    buffer: Vec<u8>,
    received: usize,
    sent: usize,
}

enum Turn {
    Go,
    Stop,
}

/// What an operation was, in the low bits of its user data; the descriptor is above.
const ACCEPT: u64 = 0;
const STOP: u64 = 1;
const RECV: u64 = 2;
const SEND: u64 = 3;
const KIND_BITS: u32 = 2;

impl UringServer<'_> {
    fn on_completion(&mut self, completion: &cqueue::Entry) -> io::Result<Turn> {
        let slot = (completion.user_data() >> KIND_BITS) as usize;
        let result = match completion.result() {
            negative @ ..0 => Err(io::Error::from_raw_os_error(-negative)),
            bytes => Ok(bytes as usize),
        };
        match completion.user_data() & ((1 << KIND_BITS) - 1) {
            RECV => self.on_received(slot, result)?,
            SEND => self.on_sent(slot, result)?,
            ACCEPT => self.on_accepted(result, cqueue::more(completion.flags()))?,
            _ => return Ok(Turn::Stop),
        }
        Ok(Turn::Go)
    }

    fn on_received(&mut self, slot: usize, result: io::Result<usize>) -> io::Result<()> {
        match result {
            Ok(received @ 1..) => {
                let connection = self.connection(slot);
                connection.received = received;
                connection.sent = 0;
                self.send(slot)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.receive(slot),
            Ok(_) | Err(_) => {
                self.close(slot);
                Ok(())
            }
        }
    }

    fn on_sent(&mut self, slot: usize, result: io::Result<usize>) -> io::Result<()> {
        match result {
            Ok(sent) => {
                let connection = self.connection(slot);
                connection.sent += sent;
                if connection.sent < connection.received {
                    self.send(slot)
                } else {
                    self.receive(slot)
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.send(slot),
            Err(_) => {
                self.close(slot);
                Ok(())
            }
        }
    }

    fn on_accepted(&mut self, result: io::Result<usize>, more: bool) -> io::Result<()> {
        match result {
            // SAFETY: the kernel made this descriptor for this completion; nobody else knows it.
            Ok(fd) => self.add(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })?,
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
        if more { Ok(()) } else { self.accept() }
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        self.listener.tune(&socket)?;
        let slot = socket.as_raw_fd() as usize;
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        let buffer = Vec::with_capacity(READ_BYTES);
        self.connections[slot] = Some(UringConnection { socket, buffer, received: 0, sent: 0 });
        self.receive(slot)
    }

    fn receive(&mut self, slot: usize) -> io::Result<()> {
        let connection = self.connection(slot);
        let fd = Fd(connection.socket.as_raw_fd());
        let entry = opcode::Recv::new(fd, connection.buffer.as_mut_ptr(), READ_BYTES as u32)
            .ioprio(POLL_FIRST)
            .build();
        self.push(entry, slot, RECV)
    }

    /// Sends what is left of the last receive. With WAITALL the kernel itself finishes short sends,
    /// as long as no error comes between.
    fn send(&mut self, slot: usize) -> io::Result<()> {
        let connection = self.connection(slot);
        let fd = Fd(connection.socket.as_raw_fd());
        let rest = connection.buffer.as_ptr().wrapping_add(connection.sent);
        let rest_bytes = connection.received - connection.sent;
        let entry = opcode::Send::new(fd, rest, rest_bytes as u32)
            .flags(MSG_WAITALL | SendFlags::NOSIGNAL.bits() as i32)
            .build();
        self.push(entry, slot, SEND)
    }

    fn accept(&mut self) -> io::Result<()> {
        let entry = opcode::AcceptMulti::new(Fd(self.listener.as_fd().as_raw_fd()))
            .flags(SocketFlags::CLOEXEC.bits() as i32)
            .build();
        self.push(entry, 0, ACCEPT)
    }

    fn watch_stop(&mut self, stop: &Stop) -> io::Result<()> {
        const POLLIN: u32 = 1;
        let entry = opcode::PollAdd::new(Fd(stop.as_fd().as_raw_fd()), POLLIN).build();
        self.push(entry, 0, STOP)
    }

    fn push(&mut self, entry: Entry, slot: usize, kind: u64) -> io::Result<()> {
        let entry = entry.user_data((slot as u64) << KIND_BITS | kind);
        // SAFETY: the descriptor and the buffer belong to `connections[slot]`, the listener or the
        // caller's `Stop`. A connection is dropped only by `close`, after its only operation has
        // completed; `leave` gives connections up without dropping any. The buffer is never grown,
        // so its memory stays in place; a receive writes within its capacity, and a send reads only
        // what the receive before it has written.
        while unsafe { self.queue.push(&entry) }.is_err() {
            self.queue.sync();
            match self.submitter.submit() {
                Err(error) if Errno::from_io_error(&error) != Some(Errno::INTR) => {
                    return Err(error);
                }
                _ => self.queue.sync(),
            }
        }
        Ok(())
    }

    fn connection(&mut self, slot: usize) -> &mut UringConnection {
        self.connections[slot].as_mut().expect("closed only when no operation is in flight")
    }

    /// Forgets a connection of which no operation is in flight.
    fn close(&mut self, slot: usize) {
        self.connections[slot] = None;
    }

    /// Gives up all buffers unfreed, since the kernel may still write into them; the process ends.
    fn leave(&mut self, outcome: io::Result<()>) -> io::Result<()> {
        std::mem::forget(std::mem::take(&mut self.connections));
        outcome
    }
}

/// MSG_WAITALL, which rustix offers for receiving only.
const MSG_WAITALL: i32 = 0x100;
