//! Certificates for tests, made at run time.

use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// The name of the tests' server.
pub(crate) const NAME: &str = "server.test";

/// A CA and its certificate as PEM text.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key as PEM text.
pub(crate) struct Identity {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        // Each CA has its own name: an issuer of the same name would be a known one with a bad
        // signature.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, new_key()).expect("signed by itself");
        Self { issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for `name` that is valid now.
    pub(crate) fn sign(&self, name: &str) -> Identity {
        self.sign_params(params_for(name))
    }

    /// Issues an expired certificate for `name`.
    pub(crate) fn sign_expired(&self, name: &str) -> Identity {
        let mut params = params_for(name);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign_params(params)
    }

    /// Issues a certificate that holds `name` only as its common name, a common mistake.
    pub(crate) fn sign_common_name(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign_params(params)
    }

    fn sign_params(&self, params: CertificateParams) -> Identity {
        let key = new_key();
        let certificate = params.signed_by(&key, &self.issuer).expect("a valid request");
        Identity { chain: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Makes a certificate like `openssl req -x509 -addext subjectAltName=…`: self-signed, and marked
/// as a CA.
pub(crate) fn self_signed(name: &str) -> Identity {
    self_signed_until(name, 2999)
}

/// Makes such a certificate that is valid from 2001 to `year`.
pub(crate) fn self_signed_until(name: &str, year: i32) -> Identity {
    let (mut params, key) = (params_for(name), new_key());
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2001, 1, 1);
    params.not_after = date_time_ymd(year, 1, 1);
    let certificate = params.self_signed(&key).expect("signed by itself");
    Identity { chain: certificate.pem(), key: key.serialize_pem() }
}

fn params_for(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).expect("a valid name")
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system has randomness")
}
