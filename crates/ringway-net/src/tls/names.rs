//! Who a certificate is for.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The DNS names that a certificate holds (its subject alternative names; the common name does not count).
/// Of one that a connection has verified, they are whom its authority vouches for.
///
/// Empty where there are none, and for what is no certificate.
pub fn certificate_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let parsed = EndEntityCert::try_from(certificate);
    parsed
        .map_or_else(|_| Vec::new(), |parsed| parsed.valid_dns_names().map(str::to_owned).collect())
}
