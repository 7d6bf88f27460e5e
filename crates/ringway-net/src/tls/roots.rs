//! The roots that this machine trusts.
//!
//! They are read from where the system keeps them, not built in: an administrator's own authority
//! counts, a distrusted one goes with the next system update, and no list ages in our binary.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::RootCertStore;

use crate::error::{Error, Kind, Result};

/// The machine's roots, read once for the process. Blocks on files the first time.
///
/// # Errors
/// When there is not one usable root; asked again, it looks again.
pub(super) fn system() -> Result<Arc<RootCertStore>> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = &*known {
        return Ok(Arc::clone(store));
    }
    let store = Arc::new(load()?);
    Ok(Arc::clone(known.insert(store)))
}

fn load() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    let (added, ignored) = store.add_parsable_certificates(found.certs);
    if added == 0 {
        let reason = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(Error::new(
            Kind::Tls,
            format!(
                "this machine has no usable root certificates{reason}: install them (the package \
                 is usually called ca-certificates) or name your own with `roots_pem`"
            ),
        ));
    }
    tracing::debug!(added, ignored, "system root certificates loaded");
    Ok(store)
}

static KNOWN: Mutex<Option<Arc<RootCertStore>>> = Mutex::new(None);
