//! Resolvers by the scheme of an address.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Resolver, scheme_names};
use crate::call::status::Status;

/// Makes the resolver for an address of its scheme.
type MakeResolver = fn(&str) -> Result<Box<dyn Resolver>, Status>;

static SCHEMES: Mutex<BTreeMap<&'static str, MakeResolver>> = Mutex::new(BTreeMap::new());

/// Has `make` called for addresses of a scheme such as `consul`, in every client of the process. It gets the whole
/// address. A scheme that is registered already is replaced.
///
/// ```
/// use ringway_rpc::{Client, Host, HostUpdates, Resolver, Resolving, register_scheme};
///
/// struct Fixed(String);
///
/// impl Resolver for Fixed {
///     fn name(&self) -> String {
///         self.0.clone()
///     }
///
///     fn run(self: Box<Self>, updates: HostUpdates) -> Resolving {
///         Box::pin(async move { drop(updates.set([Host::new("tcp://10.0.0.1:9000")])) })
///     }
/// }
///
/// register_scheme("fixed", |address| Ok(Box::new(Fixed(address.to_owned()))));
/// let client = Client::connect("fixed://market")?;
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
pub fn register_scheme(scheme: &'static str, make: MakeResolver) {
    scheme_names::add(scheme);
    schemes().insert(scheme, make);
}

/// Makes the resolver for an address.
///
/// # Errors
/// INVALID_ARGUMENT when nobody has registered its scheme, or when the address is malformed.
pub(crate) fn resolver_of(address: &str) -> Result<Box<dyn Resolver>, Status> {
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
    let make = schemes().get(scheme).copied();
    if let Some(make) = make {
        return make(address);
    }
    let why = match scheme_names::is_of_discovery(scheme) {
        true => "call `ringway_discovery::install()` once, before the program makes its clients",
        false => "give a resolver of its scheme to `ringway_rpc::register_scheme` first",
    };
    Err(Status::invalid_argument(format!("`{address}` cannot be resolved: {why}")))
}

/// No code of a user runs under the lock, so the content of a poisoned one is sound.
fn schemes() -> MutexGuard<'static, BTreeMap<&'static str, MakeResolver>> {
    SCHEMES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_that_nobody_has_registered_says_what_to_call() {
        for (address, said) in [
            ("local://market", "call `ringway_discovery::install()`"),
            ("etcd://10.0.0.1:2379/market", "call `ringway_discovery::install()`"),
            ("consul://market", "`ringway_rpc::register_scheme`"),
        ] {
            let status = resolver_of(address).map(drop).expect_err("nobody resolves it");
            assert!(status.is_invalid_argument() && status.message().contains(said), "{status}");
            assert!(status.message().contains(address), "{status}");
        }
    }
}
