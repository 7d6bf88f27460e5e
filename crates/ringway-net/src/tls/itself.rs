//! Certificates that are trusted themselves, without a chain.
//!
//! `openssl req -x509` makes a CA certificate, and many servers use it as their own certificate.
//! Chain verification rejects a CA certificate at the end of a chain. If exactly this certificate
//! was given as a root, it is trusted, so it is accepted if everything else is right: its dates,
//! the key, and for a server the name.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};

/// The trusted certificates: the roots of chains, and the same certificates to be accepted
/// themselves.
#[derive(Clone)]
pub(super) struct Roots {
    pub(super) store: Arc<RootCertStore>,
    pub(super) themselves: Arc<[CertificateDer<'static>]>,
}

/// A verifier that accepts chains, and these certificates themselves.
#[derive(Debug)]
pub(super) struct OrItself<V: ?Sized> {
    pub(super) themselves: Arc<[CertificateDer<'static>]>,
    pub(super) chains: Arc<V>,
}

impl<V: ?Sized> OrItself<V> {
    /// Whether `end` is one of the certificates, and `refusal` is only about its being a CA. Chain
    /// verification checks the dates before it reports that.
    fn is_trusted(&self, end: &CertificateDer<'_>, refusal: &Error) -> bool {
        is_authority(refusal) && self.themselves.iter().any(|root| root == end)
    }
}

/// Whether a certificate was rejected because it is a CA certificate.
fn is_authority(refusal: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(why))) = refusal else {
        return false;
    };
    matches!(why.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

impl ServerCertVerifier for OrItself<dyn ServerCertVerifier> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.chains.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(refusal) if self.is_trusted(end_entity, &refusal) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

impl ClientCertVerifier for OrItself<dyn ClientCertVerifier> {
    fn offer_client_auth(&self) -> bool {
        self.chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.chains.verify_client_cert(end_entity, intermediates, now) {
            Err(refusal) if self.is_trusted(end_entity, &refusal) => {
                Ok(ClientCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
