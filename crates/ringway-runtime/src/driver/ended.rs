//! The driver of a core that has failed: it opens nothing and knows no key.

use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

use socket2::SockAddr;

use super::files::{FileEnd, FileOp};
use super::{
    BindOptions, Driver, DriverCounters, Event, Key, RecvClass, SendBatch, Wait, not_open, sockets,
};

/// The driver that replaces that of a core which has failed.
#[derive(Default)]
pub(crate) struct Ended {
    /// Descriptors registered too late to be used, kept open so that nobody else gets their
    /// numbers.
    late: Vec<RawFd>,
    /// Answers to sends and to operations on files.
    refused: Vec<Event>,
}

impl Driver for Ended {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn listen(&mut self, _: &SockAddr, _: BindOptions) -> io::Result<(RawFd, SockAddr)> {
        Err(not_open())
    }

    fn bind_datagram(&mut self, _: &SockAddr, _: BindOptions) -> io::Result<(RawFd, SockAddr)> {
        Err(not_open())
    }

    fn open_stream(&mut self, _: &SockAddr) -> io::Result<RawFd> {
        Err(not_open())
    }

    fn adopt(&mut self, _: RawFd) -> io::Result<()> {
        Err(not_open())
    }

    fn register(&mut self, _: Key, fd: RawFd) {
        self.late.push(fd);
    }

    fn connect(&mut self, _: Key, _: &SockAddr) {}

    fn accept_start(&mut self, _: Key) {}

    fn accept_stop(&mut self, _: Key) {}

    fn recv_start(&mut self, _: Key, _: RecvClass) {}

    fn recv_stop(&mut self, _: Key) {}

    fn send(&mut self, key: Key, batch: SendBatch) {
        self.refused.push(batch.refused(key));
    }

    fn shutdown_write(&mut self, _: Key) -> io::Result<()> {
        Err(not_open())
    }

    fn close(&mut self, _: Key, _: bool) {}

    fn close_unregistered(&mut self, fd: RawFd) {
        sockets::close(fd);
    }

    fn start_file_op(&mut self, name: Key, op: FileOp) -> Option<FileOp> {
        let end = FileEnd::failed(op, libc::EBADF);
        self.refused.push(Event::FileEnded { name, end });
        None
    }

    fn cancel_file_op(&mut self, _: Key) {}

    fn peek(&mut self) -> bool {
        !self.refused.is_empty()
    }

    fn turn(&mut self, _: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        events.append(&mut self.refused);
        Ok(())
    }

    fn counters(&self) -> DriverCounters {
        DriverCounters::default()
    }

    fn describe(&self) -> String {
        "none: the core has failed".to_owned()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.late.drain(..).for_each(sockets::close);
        std::mem::take(&mut self.refused).into_iter().for_each(Event::retire);
    }
}
