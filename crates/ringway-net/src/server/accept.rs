//! From a listening socket to a connection on the core that should have it.

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
use super::log::log;
use super::seldom::Seldom;
use super::shared::{Permit, Refusal};
use super::unix_path::UnixPath;
use super::until::until;
use crate::error::is_out_of_descriptors;
use crate::limits;
use crate::transport::Transport;

/// How the connections of a listener are to be treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DoorKind {
    pub(crate) tls: bool,
    pub(crate) unix: bool,
}

/// A listener with what it does to its connections.
pub(crate) struct Door {
    pub(crate) listener: Listener,
    pub(crate) kind: DoorKind,
    /// The file that leads here.
    pub(crate) path: Option<Arc<UnixPath>>,
}

impl Door {
    /// Accepts until the server stops, and then whoever has come before. Out of descriptors, the
    /// runtime pauses and goes on by itself.
    pub(crate) async fn serve(self, context: Rc<CoreContext>) {
        let _until_closed = context.listeners.begin();
        let troubles = Seldom::default();
        while let Some(accepted) = until(context.stopping.cancelled(), self.listener.accept()).await
        {
            match accepted {
                Ok(accepted) => let_in(&context, accepted.into(), self.kind),
                Err(error) => self.cannot_accept(&context, &error, &troubles),
            }
        }
        let _not_let_in =
            until(context.aborting.cancelled(), self.let_in_who_is_here(&context)).await;
        drop(self);
    }

    fn cannot_accept(&self, context: &CoreContext, error: &io::Error, troubles: &Seldom) {
        context.count(|share| &share.accept_errors);
        if let Some(before) = troubles.says() {
            let open = context.shared.open();
            log(|| tracing::warn!(%error, open, before, "cannot accept; trying again in a moment"));
        }
    }

    /// A client that the kernel has connected has been promised service: closing the listener on them would
    /// reset their connections. So nobody else is let in, all of them are taken, and only then
    /// whoever comes is refused.
    async fn let_in_who_is_here(&self, context: &Rc<CoreContext>) {
        if let Some(path) = &self.path {
            path.remove();
        }
        let kept_out = self.listener.with_socket(|socket| self.kind.keep_others_out(&socket));
        kept_out.unwrap_or_else(|error| {
            log(|| tracing::debug!(%error, "who connects while a listener closes may be reset"));
        });
        if !self.kind.unix {
            // Those who are half in come in, or do not.
            let settled = sleep(limits::LAST_CONNECTS_WAIT);
            self.admit_while(context, settled).await;
        }
        while self.look_for_the_last(context) == LastLook::NoDescriptor {
            context.lacks_descriptors.cancel();
            self.admit_while(context, sleep(limits::LAST_LOOK_PAUSE)).await;
        }
        // The listener's own accepts may have been faster; what they took comes within a turn.
        for _ in 0..limits::LAST_ACCEPT_TURNS {
            self.admit_while(context, yield_now()).await;
        }
    }

    /// Takes all that the kernel has, and then lets it refuse whoever comes.
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
            log(|| tracing::debug!(%error, "a listener is closed without a look at who waits there"));
        });
        last_look
    }

    /// Lets in who comes until `end`.
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

impl DoorKind {
    /// Lets nobody else into the kernel's queue. A Unix socket refuses them. An internet socket drops
    /// their SYNs, which they repeat after a second: it cannot refuse anybody and keep its queue.
    fn keep_others_out(self, socket: &SockRef<'_>) -> io::Result<()> {
        match self.unix {
            true => socket.shutdown(Shutdown::Read),
            false => socket.attach_filter(&no_syn()),
        }
    }

    /// Ends the listening, before the descriptor is closed. It would reset whoever is in the queue.
    fn refuse_others(self, socket: &SockRef<'_>) -> io::Result<()> {
        match self.unix {
            true => Ok(()),
            false => socket.shutdown(Shutdown::Read),
        }
    }
}

/// A program for the kernel's packet filter: takes every segment but one that opens a connection.
/// Its opcodes are those of `linux/bpf_common.h`.
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

/// What the kernel had when a listener was about to close.
#[derive(PartialEq)]
enum LastLook {
    /// Nobody is left there.
    All,
    /// There is no descriptor for who is left. Connections that end make room.
    NoDescriptor,
}

/// Takes connections until the kernel has none, or gives none.
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

fn is_of_that_client_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Whoever panics at a new connection, what makes its handler or what listens to the log, costs that
/// connection and not the listener.
fn let_in(context: &Rc<CoreContext>, arrival: Arrival, kind: DoorKind) {
    contain("what was to serve a connection", || admit(context, arrival, kind));
}

fn admit(context: &Rc<CoreContext>, arrival: Arrival, kind: DoorKind) {
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
    // The one listener of a Unix path has all connections, so it spreads them evenly.
    match shared.core_for(own, kind.unix) {
        target if target == own => arrive(context, arrival, permit, kind),
        target => hand_over(context, target, arrival, permit, kind),
    }
}

fn refuse(context: &CoreContext, refusal: Refusal, address: Option<IpAddr>) {
    context.count(|share| &share.refused);
    let what = match refusal {
        Refusal::ConnectionsMax => "the server has as many connections as it may",
        Refusal::PerAddressMax => "the address has as many connections as it may",
        Refusal::Gone => "it has left again, so it cannot be told whose it was",
    };
    tracing::debug!(?address, "{what}: one more is closed at once");
}

/// Gives a connection to another core; one that does not take it is behind, so it stays here.
fn hand_over(
    context: &Rc<CoreContext>,
    target: usize,
    arrival: Arrival,
    mut permit: Permit,
    kind: DoorKind,
) {
    permit.move_to(target);
    let parcel = Arc::new(Mutex::new(Some((arrival, permit))));
    let unpack = |parcel: &Mutex<Option<(Arrival, Permit)>>| {
        parcel.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let (shared, sent) = (Arc::clone(&context.shared), Arc::clone(&parcel));
    let there = async move || {
        let Some((arrival, permit)) = unpack(&sent) else { return };
        // Before anybody can see that it has arrived.
        shared.core(target).handed_off.fetch_add(1, Ordering::Relaxed);
        let Some(context) = CoreContext::current() else {
            // It was aborted in the meantime.
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

/// A connection has reached the core where it will live.
fn arrive(context: &Rc<CoreContext>, arrival: Arrival, permit: Permit, kind: DoorKind) {
    let stream = match arrival.into_stream(&context.limits) {
        Ok(stream) => stream,
        Err(error) => {
            context.count(|share| &share.refused);
            return tracing::debug!(%error, "an accepted connection cannot be opened");
        }
    };
    // Whatever becomes of it from here on, its handshake, its handler or what is left to send: it
    // counts until its descriptor is closed.
    stream.hold_until_closed(permit);
    match context.shared.settings.tls.clone() {
        Some(tls) if kind.tls => {
            spawn_named("TLS handshake", shake_hands(Rc::clone(context), stream, tls));
        }
        _ => context.open(Transport::Plain(stream)),
    }
}
