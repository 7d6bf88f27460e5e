//! Connecting and accepting in a simulation.

use std::os::fd::RawFd;
use std::time::Duration;

use socket2::SockAddr;

use super::handle::Armed;
use super::network::{SimStream, SocketKind};
use super::{Action, Sim};
use crate::driver::{Event, Key};
use crate::limits;

impl Sim {
    pub(super) fn start_connect(&mut self, key: Key, fd: RawFd, addr: &SockAddr) {
        let errno = match self.network.socket_mut(fd).map(|socket| &mut socket.kind) {
            None => libc::EBADF,
            Some(SocketKind::Unconnected) => return self.send_syn(fd, addr),
            Some(SocketKind::Datagram(socket)) => {
                socket.remote = Some(addr.clone());
                0
            }
            Some(SocketKind::Listener(_) | SocketKind::Stream(_)) => libc::EISCONN,
        };
        self.schedule.after(Duration::ZERO, Action::Connected { key, errno });
    }

    fn send_syn(&mut self, client: RawFd, to: &SockAddr) {
        let lost = self.chance(self.config.faults.connects_lost);
        let latency = self.latency();
        let syn = Action::Syn { client, to: Box::new(to.clone()), attempt: 0 };
        if lost {
            self.answer_connect(client, libc::ETIMEDOUT, limits::SIM_CONNECT_TIMEOUT);
        } else {
            self.schedule.after(latency, syn);
        }
    }

    fn answer_connect(&mut self, client: RawFd, errno: i32, delay: Duration) {
        if let Some(key) = self.network.key(client) {
            self.schedule.after(delay, Action::Connected { key, errno });
        }
    }

    pub(super) fn on_connected(&mut self, key: Key, errno: i32) {
        if let Some(handle) = self.live(key).filter(|handle| handle.connecting) {
            handle.connecting = false;
            self.ready.push_back(Event::Connected { key, errno });
        }
    }

    /// Delivers a connect to its destination, which refuses it, drops it or puts it into the
    /// backlog.
    pub(super) fn on_syn(&mut self, client: RawFd, to: Box<SockAddr>, attempt: u32) {
        if self.network.socket(client).is_none() {
            return;
        }
        let refused = self.chance(self.config.faults.connects_refused);
        let latency = self.latency();
        let Some(fd) = self.pick_listener(&to).filter(|_| !refused) else {
            return self.answer_connect(client, libc::ECONNREFUSED, latency);
        };
        let Some(listener) = self.network.listener_mut(fd) else {
            return;
        };
        if listener.backlog.len() >= listener.backlog_max {
            return self.retry_syn(client, to, attempt);
        }
        let Ok(server) = self.network.insert_accepted(client, &to) else {
            return self.answer_connect(client, libc::EADDRNOTAVAIL, latency);
        };
        if let Some(listener) = self.network.listener_mut(fd) {
            listener.backlog.push_back(server);
        }
        self.establish(client, server);
        if let Some(key) = self.network.key(fd) {
            self.step_accept(key);
        }
    }

    /// Retries a connect that a full backlog dropped, until the client gives up.
    fn retry_syn(&mut self, client: RawFd, to: Box<SockAddr>, attempt: u32) {
        if attempt >= limits::SIM_CONNECT_RETRIES_MAX {
            return self.answer_connect(client, libc::ETIMEDOUT, Duration::ZERO);
        }
        let wait = limits::SIM_CONNECT_RETRY_FIRST * (1 << attempt);
        self.schedule.after(wait, Action::Syn { client, to, attempt: attempt + 1 });
    }

    fn pick_listener(&mut self, to: &SockAddr) -> Option<RawFd> {
        match self.network.listeners.reached_by(to) {
            [] => None,
            [only] => Some(*only),
            several => Some(several[self.rng.below(several.len())]),
        }
    }

    /// Joins both ends. The client is a stream from now on, but its program is told later.
    fn establish(&mut self, client: RawFd, server: RawFd) {
        let ends =
            self.network.stream_mut(server).map(|end| (end.remote.clone(), end.local.clone()));
        let Some((local, remote)) = ends else { return };
        let at = self.arrival(server);
        if let Some(socket) = self.network.socket_mut(client) {
            let mut stream = SimStream::new(server, local, remote);
            stream.arrives_at = at;
            socket.kind = SocketKind::Stream(stream);
        }
        self.answer_connect(client, 0, at - self.schedule.now());
        if self.chance(self.config.faults.resets) {
            let after = self.rng.between(Duration::ZERO, self.config.faults.reset_within);
            self.schedule.after(after, Action::Reset { to: client });
            self.schedule.after(after, Action::Reset { to: server });
        }
    }

    /// Continues an accept that was started or whose pause is over.
    pub(super) fn on_accept(&mut self, key: Key) {
        if let Some(handle) = self.live(key) {
            handle.accept.paused = false;
            self.step_accept(key);
        }
    }

    pub(super) fn on_accept_stopped(&mut self, key: Key) {
        if self.live(key).is_some_and(|handle| handle.accept.state == Armed::Stopping) {
            self.end_accept(key, libc::ECANCELED);
        }
    }

    /// Accepts all waiting connections, unless a fault or a lack of descriptors interrupts.
    pub(super) fn step_accept(&mut self, key: Key) {
        while self.accept_one(key) {}
    }

    /// Makes one completion; whether the next may follow at once.
    fn accept_one(&mut self, key: Key) -> bool {
        let Some(handle) = self.live(key).filter(|handle| handle.accept.runs()) else {
            return false;
        };
        let fd = handle.fd;
        let Some(listener) = self.network.listener_mut(fd) else {
            self.end_accept(key, libc::EINVAL);
            return false;
        };
        let Some(&accepted) = listener.backlog.front() else {
            return false;
        };
        let fails = self.chance(self.config.faults.accept_errors);
        if fails || self.network.check_room().is_err() {
            self.end_accept(key, libc::EMFILE);
            return false;
        }
        self.hold(fd, accepted);
        self.ready.push_back(Event::Accepted { key, fd: accepted });
        if self.chance(self.config.faults.rearms) {
            self.counters.rearms += 1;
            self.pause_accept(key);
            return false;
        }
        true
    }

    /// Moves a connection from the backlog to the program.
    fn hold(&mut self, listener: RawFd, accepted: RawFd) {
        if let Some(listener) = self.network.listener_mut(listener) {
            listener.backlog.pop_front();
        }
        self.network.hold(accepted);
    }

    fn pause_accept(&mut self, key: Key) {
        if let Some(handle) = self.live(key) {
            handle.accept.paused = true;
            let pause = self.pause();
            self.schedule.after(pause, Action::Accept(key));
        }
    }

    fn end_accept(&mut self, key: Key, errno: i32) {
        if let Some(handle) = self.live(key) {
            handle.accept.state = Armed::Off;
            self.ready.push_back(Event::AcceptEnded { key, errno });
        }
    }
}
