//! The flags of `bench codec`, which has neither connections nor a server.

use super::flags::BenchFlags;
use crate::args::choices::Backend;
use crate::args::values::ValueError;

/// # Errors
/// A flag has no meaning for this suite.
pub(super) fn check(common: &BenchFlags) -> Result<(), ValueError> {
    let given = [
        ("-c", !common.connections.is_empty()),
        ("-s", !common.size.is_empty()),
        ("-i", common.threads.is_some()),
        ("--addr", common.addr.is_some()),
        ("--spin", common.spin.is_some()),
        ("--client-spin", common.client_spin.is_some()),
        ("--server-cores", common.server_cores.is_some()),
        ("--backend", common.backend != Backend::Auto),
        ("--peers", common.peers),
        ("--transport", !common.transport.is_empty()),
        ("--unix", common.unix),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(ValueError::new(format!(
            "{flag} has no meaning for codec, which works in one thread and connects to nothing"
        ))),
        None => Ok(()),
    }
}
