//! Resolvers: sources that tell a client its hosts, and go on telling it.
//!
//! ```text
//! source ──► resolver ──► host updates ──► guard ──► rules ──► registry ──► pools of all cores
//!                                            ▲                                   │
//!                                            └── hosts that cannot be reached ◄──┘
//! ```
//!
//! A client's resolver is a task of the background core. Calls know nothing of it: they use the list of their core's
//! pool, which is replaced between two turns.
//!
//! - `keeper`: the tasks of one resolver.
//! - `updates`: what a resolver tells, and what becomes of it.
//! - `schemes`: resolvers by the scheme of an address.
//! - `guard`, `last_known`: whether to believe a list, and the list on disk.
//! - `state`, `scheme_names`: what all threads may see.

mod guard;
mod keeper;
mod last_known;
mod scheme_names;
mod schemes;
mod state;
mod updates;

use std::pin::Pin;

pub(super) use keeper::{KeeperArgs, start};
pub(super) use scheme_names::source_of;
pub use schemes::register_scheme;
pub(super) use schemes::resolver_of;
pub(super) use state::SharedState;
pub use state::{ResolverState, ResolverStats};
pub use updates::{HostUpdates, Verdict};

/// What [`Resolver::run`] returns.
pub type Resolving = Pin<Box<dyn Future<Output = ()>>>;

/// A source of a client's hosts, which follows their changes.
///
/// It is given to a client by [`ClientBuilder::resolver`](crate::ClientBuilder::resolver), or found by the
/// [scheme](register_scheme) of an address. The crate `ringway-discovery` has resolvers for registries, DNS and
/// files.
///
/// ```
/// use std::time::Duration;
/// use ringway_rpc::{Client, Host, HostUpdates, Resolver, Resolving};
///
/// /// Reads the hosts from a variable of the environment.
/// struct Environment(&'static str);
///
/// impl Resolver for Environment {
///     fn name(&self) -> String {
///         format!("${}", self.0)
///     }
///
///     fn run(self: Box<Self>, updates: HostUpdates) -> Resolving {
///         Box::pin(async move {
///             match std::env::var(self.0) {
///                 Ok(list) => drop(updates.set(list.split(',').map(Host::new))),
///                 Err(error) => updates.failed(error.to_string()),
///             }
///         })
///     }
/// }
///
/// let client = Client::builder().resolver(Environment("SERVERS")).build()?;
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
pub trait Resolver: Send + 'static {
    /// The name of the source in messages, such as `dns://market:9000`. It must not have secrets.
    fn name(&self) -> String;

    /// Tells `updates` of the hosts, now and whenever they change, and of failures. It tries again after failures, and
    /// returns only if there is nothing more to tell.
    ///
    /// It runs on a core in the background, which it must not block, and is dropped when the last handle of the client
    /// is.
    fn run(self: Box<Self>, updates: HostUpdates) -> Resolving;
}
