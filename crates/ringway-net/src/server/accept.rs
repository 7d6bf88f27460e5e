//! From a listening socket to a connection on the core that should have it.

use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use ringway_runtime::io::{Accepted, Listener, Stream};
use ringway_runtime::spawn_named;

use super::context::CoreContext;
use super::shared::{Permit, Refusal};
use crate::tls::{ServerTls, TlsStream};
use crate::transport::Transport;

/// How the connections of a listener are to be treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub(crate) tls: bool,
    /// It is the only listener of its address, so connections are spread evenly.
    pub(crate) spreads: bool,
}

/// Accepts until the server stops. Out of descriptors, the runtime pauses and goes on by itself.
pub(crate) async fn accept_all(context: Rc<CoreContext>, listener: Listener, kind: Kind) {
    let share = context.shared.core(context.number);
    while let Some(accepted) = next(&context, &listener).await {
        match accepted {
            Ok(accepted) => {
                share.accepted.fetch_add(1, Ordering::Relaxed);
                admit(&context, accepted, kind);
            }
            Err(error) => {
                share.accept_errors.fetch_add(1, Ordering::Relaxed);
                let open = context.shared.open();
                tracing::warn!(%error, open, "cannot accept; trying again in a moment");
            }
        }
    }
}

/// The next connection; `None` when the server stops.
async fn next(context: &CoreContext, listener: &Listener) -> Option<std::io::Result<Accepted>> {
    let mut stopping = pin!(context.stopping.cancelled());
    std::future::poll_fn(|cx| {
        if stopping.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        listener.poll_accept(cx).map(Some)
    })
    .await
}

fn admit(context: &Rc<CoreContext>, accepted: Accepted, kind: Kind) {
    let shared = &context.shared;
    let address = match shared.settings.connections_per_address_max {
        Some(_) => address_of(&accepted),
        None => None,
    };
    let own = context.number;
    let mut permit = match shared.admit(own, address) {
        Ok(permit) => permit,
        Err(refusal) => return refuse(context, refusal, address),
    };
    let target = shared.core_for(own, kind.spreads);
    if target == own {
        return arrive(context, accepted, permit, kind);
    }
    permit.move_to(target);
    let there = async move || {
        if let Some(context) = CoreContext::current() {
            arrive(&context, accepted, permit, kind);
        }
    };
    match shared.handles()[target].spawn(there) {
        Ok(_runs_on_its_own) => shared.core(own).handed_off.fetch_add(1, Ordering::Relaxed),
        Err(_closed) => shared.core(own).refused.fetch_add(1, Ordering::Relaxed),
    };
}

fn address_of(accepted: &Accepted) -> Option<IpAddr> {
    let address = accepted.peer_addr().ok()?.as_socket()?;
    Some(address.ip().to_canonical())
}

fn refuse(context: &CoreContext, refusal: Refusal, address: Option<IpAddr>) {
    context.shared.core(context.number).refused.fetch_add(1, Ordering::Relaxed);
    let what = match refusal {
        Refusal::ConnectionsMax => "the server has as many connections as it may",
        Refusal::PerAddressMax => "the address has as many connections as it may",
    };
    tracing::debug!(?address, "{what}: one more is closed at once");
}

/// A connection has reached the core where it will live.
fn arrive(context: &Rc<CoreContext>, accepted: Accepted, permit: Permit, kind: Kind) {
    let stream = match accepted.into_stream(&context.limits) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "an accepted connection cannot be opened"),
    };
    match context.shared.settings.tls.clone() {
        Some(tls) if kind.tls => {
            spawn_named("TLS handshake", shake_hands(Rc::clone(context), stream, permit, tls));
        }
        _ => context.open(Transport::Plain(stream), permit),
    }
}

/// Opens a connection once its handshake is done; an abort of the server ends the handshake.
async fn shake_hands(context: Rc<CoreContext>, stream: Stream, permit: Permit, tls: ServerTls) {
    let arriving = Arriving::begin(&context);
    let mut aborted = pin!(context.aborting.cancelled());
    let mut handshake = pin!(TlsStream::accept(stream, &tls));
    let done = std::future::poll_fn(|cx| {
        if aborted.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        handshake.as_mut().poll(cx).map(Some)
    });
    match done.await {
        Some(Ok(stream)) => context.open(Transport::Tls(Box::new(stream)), permit),
        Some(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        None => {}
    }
    drop(arriving);
}

/// Counts a connection that has no place in the table yet, so that a drain waits for it.
struct Arriving<'a>(&'a CoreContext);

impl<'a> Arriving<'a> {
    fn begin(context: &'a CoreContext) -> Self {
        context.arriving.set(context.arriving.get() + 1);
        Self(context)
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.0.arriving.set(self.0.arriving.get() - 1);
        self.0.tell_if_empty();
    }
}
