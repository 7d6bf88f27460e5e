//! The names in a certificate.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Returns the DNS names of a certificate: its subject alternative names, not the common name. If a
/// connection has verified the certificate, its issuer vouches for these names.
///
/// The list is empty if there are none, or the bytes are not a certificate.
pub fn certificate_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let parsed = EndEntityCert::try_from(certificate);
    parsed
        .map_or_else(|_| Vec::new(), |parsed| parsed.valid_dns_names().map(str::to_owned).collect())
}
