//! TLS options, whose combinations the specification "URI Options" restricts.

use std::fmt;

use super::InvalidUri;

/// The options about TLS. Printing them for debugging hides the password.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Whether connections use TLS; if not set, those of `mongodb+srv://` do and others do not.
    pub enabled: Option<bool>,
    /// A PEM file with the authorities to trust; by default the machine's.
    pub ca_file: Option<String>,
    /// A PEM file with the client's certificate and its key.
    pub certificate_key_file: Option<String>,
    /// The password of that key.
    pub certificate_key_file_password: Option<String>,
    /// Whether nothing of the server's certificate is checked.
    pub insecure: Option<bool>,
    /// Whether any certificate is accepted.
    pub allow_invalid_certificates: Option<bool>,
    /// Whether the certificate may be of another host.
    pub allow_invalid_hostnames: Option<bool>,
    /// Whether the responders that certificates name are not asked about their revocation.
    pub disable_ocsp_endpoint_check: Option<bool>,
    /// Whether the revocation of certificates is not checked at all.
    pub disable_certificate_revocation_check: Option<bool>,
    /// Whether TLS is asked for or not in words that are ignored.
    pub(crate) is_unclear: bool,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.certificate_key_file_password.as_ref().map(|_| "…");
        let mut f = f.debug_struct("TlsOptions");
        f.field("enabled", &self.enabled).field("ca_file", &self.ca_file);
        f.field("certificate_key_file", &self.certificate_key_file);
        f.field("certificate_key_file_password", &password);
        f.field("insecure", &self.insecure);
        f.field("allow_invalid_certificates", &self.allow_invalid_certificates);
        f.field("allow_invalid_hostnames", &self.allow_invalid_hostnames);
        f.field("disable_ocsp_endpoint_check", &self.disable_ocsp_endpoint_check);
        f.field("disable_certificate_revocation_check", &self.disable_certificate_revocation_check);
        f.finish()
    }
}

impl TlsOptions {
    /// Turns TLS on or off; `tls` and `ssl` are the same option.
    pub(super) fn enable(&mut self, enabled: bool) -> Result<(), InvalidUri> {
        match self.enabled.replace(enabled) {
            Some(before) if before != enabled => {
                Err(InvalidUri::new("tls and ssl contradict each other"))
            }
            _ => Ok(()),
        }
    }

    /// Whether any option is set that means something with TLS only.
    pub(crate) fn has_more(&self) -> bool {
        let flags = [
            self.insecure,
            self.allow_invalid_certificates,
            self.allow_invalid_hostnames,
            self.disable_ocsp_endpoint_check,
            self.disable_certificate_revocation_check,
        ];
        flags.iter().any(Option::is_some)
            || self.ca_file.is_some()
            || self.certificate_key_file.is_some()
            || self.certificate_key_file_password.is_some()
    }

    /// Refuses two options of which one says all that the other does.
    pub(super) fn check(&self) -> Result<(), InvalidUri> {
        let insecure = ("tlsInsecure", self.insecure);
        let certificates = ("tlsAllowInvalidCertificates", self.allow_invalid_certificates);
        let hostnames = ("tlsAllowInvalidHostnames", self.allow_invalid_hostnames);
        let ocsp = ("tlsDisableOCSPEndpointCheck", self.disable_ocsp_endpoint_check);
        let revocation =
            ("tlsDisableCertificateRevocationCheck", self.disable_certificate_revocation_check);
        let pairs = [
            (insecure, certificates),
            (insecure, hostnames),
            (insecure, ocsp),
            (insecure, revocation),
            (certificates, ocsp),
            (certificates, revocation),
            (ocsp, revocation),
        ];
        match pairs.iter().find(|(one, other)| one.1.is_some() && other.1.is_some()) {
            Some(((one, _), (other, _))) => Err(InvalidUri::new(format!(
                "{one} and {other} cannot be set together: leave one of them out"
            ))),
            None => Ok(()),
        }
    }
}
