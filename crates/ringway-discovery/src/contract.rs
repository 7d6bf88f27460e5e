//! What every registry does, wherever it is: in this process, a registry server, or a cluster of etcd.
//!
//! No failure ends what was begun here. A registration whose registry is away is made again when that is back, and a
//! watch whose registry is away keeps its list.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::endpoint::{Endpoint, Error};
use crate::store::Revision;

/// A future of the contract. It may be polled on any thread.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A registry: servers register in it, clients watch it.
///
/// ```
/// use std::time::Duration;
/// use ringway_discovery::{Discovery, Endpoint, Local};
///
/// # ringway_runtime::block_on(async {
/// let registry: Box<dyn Discovery> = Box::new(Local::new());
/// let mut watch = registry.watch("market", None)?;
/// let endpoint = Endpoint::new("tcp://10.0.0.1:9000");
/// let registration = registry.register("market", endpoint, Duration::from_secs(10))?;
/// watch.changed().await;
/// assert_eq!(watch.endpoints()[0].address(), "tcp://10.0.0.1:9000");
/// registration.deregister().await?;
/// # Ok::<(), ringway_discovery::Error>(())
/// # })?.expect("a registry of this process");
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Discovery: Send + Sync {
    /// Checks what can be known without the registry: whether [`register`](Self::register) would take these.
    ///
    /// # Errors
    /// Fails if the service has no valid name, the endpoint cannot be a value of the registry, or `ttl` is out of range.
    fn check(&self, service: &str, endpoint: &Endpoint, ttl: Duration) -> Result<(), Error>;

    /// Registers an endpoint of a service, until its registration is ended or dropped. It returns at once; the
    /// registration's [state](Registration::state) tells when the endpoint is registered.
    ///
    /// One that is registered at the same address is replaced, and its registration has no effect any more. `ttl`
    /// is how long the endpoint outlives a server that died; a registry in the same process needs none.
    ///
    /// # Errors
    /// Fails if the service has no valid name, the endpoint cannot be a value of the registry, or `ttl` is out of range.
    fn register(
        &self,
        service: &str,
        endpoint: Endpoint,
        ttl: Duration,
    ) -> Result<Box<dyn Registration>, Error>;

    /// The endpoints of a service at this moment.
    ///
    /// # Errors
    /// Fails if the service has no valid name, and if the registry cannot be reached or tells nonsense.
    fn snapshot(&self, service: &str) -> Answer<'_, Result<ServiceSnapshot, Error>>;

    /// Watches the endpoints of a service. It returns at once.
    ///
    /// The watch begins with the endpoints of `from`, and tells what leads from them to those that there are.
    /// Without, it begins with none, or with those that are known at once.
    ///
    /// # Errors
    /// Fails if the service has no valid name.
    fn watch(
        &self,
        service: &str,
        from: Option<ServiceSnapshot>,
    ) -> Result<Box<dyn ServiceWatch>, Error>;
}

/// Keeps an endpoint registered. Dropping it deregisters the endpoint without waiting for that.
pub trait Registration: Send {
    /// Whether the endpoint is registered.
    fn state(&self) -> RegistrationState;

    /// Waits until the state is another than the last one that this function has returned; the first call returns at
    /// once. Only the last waker is woken.
    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<RegistrationState>;

    /// Replaces what is known of the endpoint, such as its weight or health. Its address stays what it was.
    ///
    /// It returns at once. Nothing happens if another registration has replaced this one.
    fn update(&mut self, endpoint: Endpoint);

    /// Deregisters the endpoint, and waits until it is done.
    ///
    /// # Errors
    /// Fails if the registry cannot be reached. The endpoint is then gone after the TTL of its registration.
    fn deregister(self: Box<Self>) -> Answer<'static, Result<(), Error>>;
}

impl dyn Registration {
    /// Waits until the endpoint is registered.
    ///
    /// # Errors
    /// Fails if another registration has replaced this one.
    pub async fn registered(&mut self) -> Result<(), Error> {
        let mut state = self.state();
        loop {
            match state {
                RegistrationState::Registered => return Ok(()),
                RegistrationState::Registering(_) => {
                    state = poll_fn(|cx| self.poll_state(cx)).await;
                }
                RegistrationState::Replaced => {
                    return Err(Error::new("another registration has replaced this one"));
                }
            }
        }
    }
}

/// Whether an endpoint is registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistrationState {
    /// It is not registered, or this is not known, and it is being tried. This is why the last try failed.
    Registering(Option<Error>),
    /// It is registered, as far as is known: on etcd and a registry server, one that was replaced or removed there by
    /// hand learns it at its next update, or when its lease ends.
    Registered,
    /// Another registration of the same address has taken its place. It stays so.
    Replaced,
}

impl fmt::Display for RegistrationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registering(None) => f.write_str("registering"),
            Self::Registering(Some(error)) => write!(f, "registering: {error}"),
            Self::Registered => f.write_str("registered"),
            Self::Replaced => f.write_str("replaced by another registration"),
        }
    }
}

/// Sees the endpoints of a service and their changes.
///
/// A watch that is not asked for long misses changes in between, and makes up for them: what it tells always leads from
/// the endpoints that it has told of to those that there are.
pub trait ServiceWatch: Send {
    /// The endpoints that the watch has told of, or begun with, in the order of their addresses.
    fn endpoints(&self) -> &[Arc<Endpoint>];

    /// The revision of the list.
    fn revision(&self) -> Revision;

    /// Whether the list has lost most of its endpoints at once, and the registry has said so twice. Nobody need ask again
    /// before believing it.
    fn is_confirmed(&self) -> bool {
        false
    }

    /// Whether the list is what the registry has.
    fn freshness(&self) -> Freshness;

    /// Waits until the list or its freshness is another. Returns the changes of the list in their order, or none if only
    /// its freshness has changed. Only the last waker is woken.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Vec<EndpointChange>>;

    /// The list and its revision, with which another watch may begin.
    fn snapshot(&self) -> ServiceSnapshot {
        ServiceSnapshot { revision: self.revision(), endpoints: self.endpoints().to_vec() }
    }
}

impl dyn ServiceWatch {
    /// Waits for the next changes, as [`poll_changed`](ServiceWatch::poll_changed) does.
    pub async fn changed(&mut self) -> Vec<EndpointChange> {
        poll_fn(|cx| self.poll_changed(cx)).await
    }
}

/// Whether a list of endpoints is what the registry has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// The registry has not told its list yet. This is why the last try failed.
    Unknown(Option<Error>),
    /// It is.
    Current,
    /// It was, and the registry cannot be reached, or tells nonsense. This is why.
    Stale(Error),
}

/// A change of a service's endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EndpointChange {
    /// An endpoint was registered.
    Added(Arc<Endpoint>),
    /// An endpoint has changed.
    Updated(Arc<Endpoint>),
    /// An endpoint was deregistered. This is what it was.
    Removed(Arc<Endpoint>),
}

/// The endpoints of a service at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSnapshot {
    /// The revision of the registry, which grows with each change.
    pub revision: Revision,
    /// The endpoints, in the order of their addresses, each address once.
    pub endpoints: Vec<Arc<Endpoint>>,
}

/// The changes that lead from one list to another, both in the order of their addresses.
pub(crate) fn difference(before: &[Arc<Endpoint>], now: &[Arc<Endpoint>]) -> Vec<EndpointChange> {
    let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let next = match (before.peek(), now.peek()) {
            (None, None) => return changes,
            (Some(old), Some(new)) if old.address() == new.address() => {
                let change = (old != new).then(|| EndpointChange::Updated(Arc::clone(new)));
                before.next();
                now.next();
                change
            }
            (Some(old), new) if new.is_none_or(|new| old.address() < new.address()) => {
                before.next().map(|old| EndpointChange::Removed(Arc::clone(old)))
            }
            _ => now.next().map(|new| EndpointChange::Added(Arc::clone(new))),
        };
        changes.extend(next);
    }
}
