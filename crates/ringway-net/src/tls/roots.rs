//! The roots that this machine trusts.
//!
//! They are read from the system and not built in: an administrator's own CA counts, a distrusted
//! one disappears with the next system update, and no list becomes outdated in the binary.

use std::sync::{Arc, Mutex, PoisonError};

use ringway_runtime::contain;
use rustls::RootCertStore;

use crate::error::{Error, Kind, Result};

/// Returns the machine's roots, read once per process. Blocks on files the first time.
///
/// # Errors
/// Fails when there is no usable root; the next call tries again.
pub(super) fn system() -> Result<Arc<RootCertStore>> {
    static KNOWN: Known = Known::new(None);
    once(&KNOWN, load)
}

type Known = Mutex<Option<Arc<RootCertStore>>>;

/// Loaded roots, and the number of certificates that were unusable.
struct Loaded {
    store: RootCertStore,
    ignored: usize,
}

fn once(known: &Known, load: impl FnOnce() -> Result<Loaded>) -> Result<Arc<RootCertStore>> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = &*known {
        return Ok(Arc::clone(store));
    }
    let Loaded { store, ignored } = load()?;
    let store = Arc::clone(known.insert(Arc::new(store)));
    drop(known);
    let added = store.len();
    contain("a log subscriber", || {
        tracing::debug!(added, ignored, "system root certificates loaded");
    });
    Ok(store)
}

fn load() -> Result<Loaded> {
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
    Ok(Loaded { store, ignored })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    static KNOWN: Known = Known::new(None);

    static FOUND_LOCKED: AtomicBool = AtomicBool::new(false);

    /// Notes whether the lock is held during an event, then panics.
    struct Panics;

    impl Subscriber for Panics {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            FOUND_LOCKED.fetch_or(KNOWN.try_lock().is_err(), Ordering::SeqCst);
            panic!("as the test asked for");
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn log_subscriber_runs_outside_the_lock_and_its_panic_loses_no_roots() {
        let loaded = Loaded { store: RootCertStore::empty(), ignored: 1 };
        let read = tracing::subscriber::with_default(Panics, || once(&KNOWN, || Ok(loaded)));
        assert!(read.expect("roots").is_empty());
        assert!(!FOUND_LOCKED.load(Ordering::SeqCst));
        once(&KNOWN, || unreachable!("they are known")).expect("roots");
    }
}
