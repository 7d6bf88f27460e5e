//! A server's certificate and key, which can be replaced while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The certificate and key for new handshakes.
#[derive(Debug)]
pub(super) struct Identity(RwLock<Arc<CertifiedKey>>);

impl Identity {
    pub(super) fn new(certified: Arc<CertifiedKey>) -> Self {
        Self(RwLock::new(certified))
    }

    pub(super) fn replace(&self, certified: Arc<CertifiedKey>) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::replace(&mut *current, certified);
        drop(current);
        drop(former);
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}
