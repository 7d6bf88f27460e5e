//! Certificates and keys from PEM text.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::error::unusable;
use super::itself::Roots;
use super::provider;
use crate::error::Result;

/// Parses all certificates of a text, in order.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| unusable("a PEM certificate", error.to_string()))?;
    if found.is_empty() {
        return Err(unusable("PEM certificates", "there is no CERTIFICATE section"));
    }
    Ok(found)
}

/// Parses all certificates of a text as roots, which are also trusted themselves.
pub(super) fn roots(pem: &[u8]) -> Result<Roots> {
    let mut store = RootCertStore::empty();
    let themselves = certificates(pem)?;
    for certificate in &themselves {
        let added = store.add(certificate.clone());
        added.map_err(|error| unusable("a root certificate", error))?;
    }
    Ok(Roots { store: Arc::new(store), themselves: themselves.into() })
}

/// Parses a certificate chain and the private key of its first certificate.
pub(super) fn certified_key(chain_pem: &[u8], key_pem: &[u8]) -> Result<Arc<CertifiedKey>> {
    let chain = certificates(chain_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem)
        .map_err(|error| unusable("the PEM private key", error.to_string()))?;
    let certified = CertifiedKey::from_der(chain, key, &provider());
    let certified = certified.map_err(|error| unusable("the certificate and its key", error))?;
    Ok(Arc::new(certified))
}
