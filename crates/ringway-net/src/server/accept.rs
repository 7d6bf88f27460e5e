//! Accepting: takes connections from a listener and brings them to the cores that serve them.

use std::io;
use std::net::{IpAddr, Shutdown};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use ringway_runtime::io::Listener;
use ringway_runtime::{contain, sleep, spawn_named, yield_now};
use socket2::{SockFilter, SockRef, Socket};

use super::arrival::Arrival;
use super::context::CoreContext;
use super::handshakes::shake_hands;
use super::hung::MayBeStopped;
use super::log::log;
use super::log_throttle::LogThrottle;
use super::shared::{Permit, Refusal};
use super::unix_path::UnixPath;
use super::until::until;
use crate::error::is_out_of_descriptors;
use crate::limits;
use crate::transport::Transport;

/// The kind of a listener, which decides how its connections are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListenerKind {
    pub(crate) tls: bool,
    pub(crate) unix: bool,
}

/// A listener of a server on one core.
pub(crate) struct ServerListener {
    pub(crate) listener: Listener,
    pub(crate) kind: ListenerKind,
    /// The file of a Unix socket, if it has one.
    pub(crate) path: Option<Arc<UnixPath>>,
}

impl ServerListener {
    /// Accepts until the server stops, then takes the connections that are already queued. When
    /// descriptors run out, the runtime pauses and continues by itself.
    pub(crate) async fn serve(self, context: Rc<CoreContext>) {
        let _until_closed = context.listeners.begin();
        let may_be_stopped = match self.kind.unix {
            true => None, // the cores share it
            false => MayBeStopped::new(&context.shared, context.number, &self.listener),
        };
        let throttle = LogThrottle::default();
        while let Some(accepted) = until(context.stopping.cancelled(), self.listener.accept()).await
        {
            match accepted {
                Ok(accepted) => let_in(&context, accepted.into(), self.kind),
                Err(error) if is_stopped(&error) && self.listens_again(&context) => {}
                Err(error) => self.cannot_accept(&context, &error, &throttle),
            }
        }
        drop(may_be_stopped);
        let _not_let_in =
            until(context.aborting.cancelled(), self.let_in_who_is_here(&context)).await;
        drop(self);
    }

    /// Whether a socket that was stopped listens again, as all sockets of this core do once the first of them has
    /// noticed that it was.
    fn listens_again(&self, context: &CoreContext) -> bool {
        let hung = &context.shared.hung;
        let mut listens = false;
        hung.let_in_again(context.number)
            || self
                .listener
                .with_socket(|socket| socket.is_listener().map(|it| listens = it))
                .is_ok_and(|()| listens)
    }

    fn cannot_accept(&self, context: &CoreContext, error: &io::Error, throttle: &LogThrottle) {
        context.count(|share| &share.accept_errors);
        if let Some(before) = throttle.admit() {
            let open = context.shared.open();
            log(
                || tracing::warn!(%error, open, before, "cannot accept a connection; retrying soon"),
            );
        }
    }

    /// Takes all queued connections before the listener closes: the kernel has completed their
    /// handshake, and closing the listener would reset them. First the queue is closed to new
    /// clients, then it is emptied, then new clients are refused.
    async fn let_in_who_is_here(&self, context: &Rc<CoreContext>) {
        if let Some(path) = &self.path {
            path.remove();
        }
        let kept_out = self.listener.with_socket(|socket| self.kind.keep_others_out(&socket));
        kept_out.unwrap_or_else(|error| {
            log(|| tracing::debug!(%error, "clients that connect while a listener closes may be reset"));
        });
        if !self.kind.unix {
            // TCP handshakes that are half done complete now, or never.
            let settled = sleep(limits::LAST_CONNECTS_WAIT);
            self.admit_while(context, settled).await;
        }
        while self.look_for_the_last(context) == LastLook::NoDescriptor {
            context.lacks_descriptors.cancel();
            self.admit_while(context, sleep(limits::LAST_LOOK_PAUSE)).await;
        }
        // An accept of the listener may have taken a connection first; it is delivered within a
        // turn.
        for _ in 0..limits::LAST_ACCEPT_TURNS {
            self.admit_while(context, yield_now()).await;
        }
    }

    /// Accepts all that the kernel has queued, then lets the kernel refuse new clients.
    fn look_for_the_last(&self, context: &Rc<CoreContext>) -> LastLook {
        let mut last_look = LastLook::All;
        let looked = self.listener.with_socket(|socket| {
            socket.set_nonblocking(true)?;
            last_look = take_all(&socket, |taken| let_in(context, taken.into(), self.kind));
            match last_look {
                LastLook::All => self.kind.refuse_others(&socket),
                LastLook::NoDescriptor => Ok(()),
            }
        });
        looked.unwrap_or_else(|error| {
            log(|| tracing::debug!(%error, "a listener closes without accepting its queued connections"));
        });
        last_look
    }

    /// Accepts until `end` is ready.
    async fn admit_while(&self, context: &Rc<CoreContext>, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        while let Some(accepted) = until(end.as_mut(), self.listener.accept()).await {
            match accepted {
                Ok(accepted) => let_in(context, accepted.into(), self.kind),
                Err(_told_again_by_the_last_look) => return end.await,
            }
        }
    }
}

impl ListenerKind {
    /// Keeps new clients out of the kernel's queue. A Unix socket refuses them. An internet socket
    /// drops their SYNs, which they repeat after a second: it cannot refuse clients and keep its
    /// queue.
    fn keep_others_out(self, socket: &SockRef<'_>) -> io::Result<()> {
        match self.unix {
            true => socket.shutdown(Shutdown::Read),
            false => socket.attach_filter(&no_syn()),
        }
    }

    /// Stops listening before the descriptor is closed. This would reset connections in the queue,
    /// so the queue must be empty.
    fn refuse_others(self, socket: &SockRef<'_>) -> io::Result<()> {
        match self.unix {
            true => Ok(()),
            false => socket.shutdown(Shutdown::Read),
        }
    }
}

/// A classic BPF program that drops SYN segments and accepts all others. The opcodes are those of
/// `linux/bpf_common.h`.
fn no_syn() -> [SockFilter; 5] {
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    [
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
}

/// The result of emptying the kernel's queue.
#[derive(PartialEq)]
enum LastLook {
    /// The queue is empty.
    All,
    /// Connections are left in the queue, but no descriptor is free. Connections that end free
    /// some.
    NoDescriptor,
}

/// Accepts connections until the kernel's queue is empty or an accept fails.
fn take_all(socket: &SockRef<'_>, mut take: impl FnMut(Socket)) -> LastLook {
    for _ in 0..limits::LAST_ACCEPTS_MAX {
        match socket.accept() {
            Ok((taken, _)) => take(taken),
            Err(error) if is_of_that_client_only(&error) => {}
            Err(error) if is_out_of_descriptors(&error) => return LastLook::NoDescriptor,
            Err(_) => return LastLook::All,
        }
    }
    LastLook::All
}

/// Whether the socket does not listen any more.
fn is_stopped(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

fn is_of_that_client_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Admits a connection. A panic of the code that makes its handler, or of a log subscriber, ends
/// that connection and not the listener.
fn let_in(context: &Rc<CoreContext>, arrival: Arrival, kind: ListenerKind) {
    contain("the start of serving a connection", || admit(context, arrival, kind));
}

fn admit(context: &Rc<CoreContext>, arrival: Arrival, kind: ListenerKind) {
    let shared = &context.shared;
    let own = context.number;
    context.count(|share| &share.accepted);
    let address = match shared.settings.connections_per_address_max {
        Some(_) if !kind.unix => match arrival.ip() {
            None => return refuse(context, Refusal::Gone, None),
            known => known,
        },
        _ => None,
    };
    let permit = match shared.admit(own, address) {
        Ok(permit) => permit,
        Err(refusal) => return refuse(context, refusal, address),
    };
    // A Unix path has one listener with all connections, so it spreads them evenly.
    match shared.core_for(own, kind.unix) {
        target if target == own => arrive(context, arrival, permit, kind),
        target => hand_over(context, target, arrival, permit, kind),
    }
}

fn refuse(context: &CoreContext, refusal: Refusal, address: Option<IpAddr>) {
    context.count(|share| &share.refused);
    let what = match refusal {
        Refusal::ConnectionsMax => "the server has reached connections_max",
        Refusal::PerAddressMax => "the address has reached connections_per_address_max",
        Refusal::Gone => "the peer has already left, and its address with it",
    };
    tracing::debug!(?address, "connection refused: {what}");
}

/// Moves a connection to another core; it stays here if that core's mailbox is full.
fn hand_over(
    context: &Rc<CoreContext>,
    target: usize,
    arrival: Arrival,
    mut permit: Permit,
    kind: ListenerKind,
) {
    permit.move_to(target);
    let parcel = Arc::new(Mutex::new(Some((arrival, permit))));
    let unpack = |parcel: &Mutex<Option<(Arrival, Permit)>>| {
        parcel.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let (shared, sent) = (Arc::clone(&context.shared), Arc::clone(&parcel));
    let there = async move || {
        let Some((arrival, permit)) = unpack(&sent) else { return };
        // Counted first, so that statistics never show the connection without its handover.
        shared.core(target).handed_off.fetch_add(1, Ordering::Relaxed);
        let Some(context) = CoreContext::current() else {
            // The server was aborted meanwhile.
            shared.core(target).refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        arrive(&context, arrival, permit, kind);
    };
    if context.shared.handles()[target].spawn(there).is_ok() {
        return;
    }
    if let Some((arrival, mut permit)) = unpack(&parcel) {
        permit.move_to(context.number);
        arrive(context, arrival, permit, kind);
    }
}

/// Opens a connection on the core that serves it.
fn arrive(context: &Rc<CoreContext>, arrival: Arrival, permit: Permit, kind: ListenerKind) {
    let stream = match arrival.into_stream(&context.limits) {
        Ok(stream) => stream,
        Err(error) => {
            context.count(|share| &share.refused);
            return tracing::debug!(%error, "an accepted connection cannot be opened");
        }
    };
    // The permit covers the handshake, the handler and the remaining sends: it is dropped when the
    // descriptor is closed.
    stream.hold_until_closed(permit);
    match context.shared.settings.tls.clone() {
        Some(tls) if kind.tls => {
            spawn_named("TLS handshake", shake_hands(Rc::clone(context), stream, tls));
        }
        _ => context.open(Transport::Plain(stream)),
    }
}
