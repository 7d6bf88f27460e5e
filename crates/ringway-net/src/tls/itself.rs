//! Certificates that are trusted themselves.
//!
//! `openssl req -x509` and most who make a first certificate make that of an authority, and serve with it.
//! The rules for chains refuse an authority at their end. Whoever was given exactly this certificate as a
//! root has said that they trust it, so it is accepted where all else is right: its dates, the key, and for a
//! server the name.

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

/// Who is trusted: roots of chains, and those among them that are trusted as they are.
#[derive(Clone)]
pub(super) struct Roots {
    pub(super) store: Arc<RootCertStore>,
    pub(super) themselves: Arc<[CertificateDer<'static>]>,
}

/// A verifier of chains that accepts these certificates besides.
#[derive(Debug)]
pub(super) struct OrItself<V: ?Sized> {
    pub(super) themselves: Arc<[CertificateDer<'static>]>,
    pub(super) chains: Arc<V>,
}

impl<V: ?Sized> OrItself<V> {
    /// The rules for chains look at the dates before they look for an authority at the end.
    fn is_trusted(&self, end: &CertificateDer<'_>, refusal: &Error) -> bool {
        is_authority(refusal) && self.themselves.iter().any(|root| root == end)
    }
}

/// Whether a certificate was refused, for nothing that was looked at before, as that of an authority.
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
