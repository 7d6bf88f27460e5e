//! Why TLS failed, in words that say what to do.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, OtherError};

use crate::error::{Error, Kind};

/// A failure of TLS itself, kept by its session and told again to everyone who asks. Carried inside
/// an [`io::Error`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TlsError {
    /// The peer broke the protocol, was refused by us, or refused us.
    Protocol(rustls::Error),
    /// The byte stream ended before the handshake did; whether the peer had said anything.
    HandshakeCut { heard: bool },
    /// The byte stream ended without the peer's `close_notify`.
    Truncated,
    /// So much was sent that the session's keys must not encrypt more.
    KeysUsedUp,
}

impl TlsError {
    /// The TLS error that an I/O error carries.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Whether `error` carries a breach of TLS, other than a stream that was merely cut.
    pub(crate) fn broke_protocol(error: &io::Error) -> bool {
        matches!(Self::of(error), Some(Self::Protocol(_)))
    }

    /// Whether another handshake would end the same: one of the two sides refuses what the other one
    /// is or offers. A stream that was cut may be whole the next time, and a server that is
    /// overloaded or in trouble says so by an alert, too.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Protocol(rustls::Error::AlertReceived(alert)) => is_refusal(*alert),
            Self::Protocol(_) => true,
            Self::HandshakeCut { .. } | Self::Truncated | Self::KeysUsedUp => false,
        }
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Protocol(rustls::Error::AlertReceived(_)) => io::ErrorKind::ConnectionAborted,
            Self::Protocol(_) => io::ErrorKind::InvalidData,
            Self::HandshakeCut { .. } | Self::Truncated => io::ErrorKind::UnexpectedEof,
            Self::KeysUsedUp => io::ErrorKind::QuotaExceeded,
        }
    }

    fn advice(&self) -> Option<&'static str> {
        let error = match self {
            Self::Protocol(error) => error,
            Self::HandshakeCut { heard: false } => {
                return Some("if it does not speak TLS, connect to it by a tcp:// address");
            }
            _ => return None,
        };
        match error {
            rustls::Error::InvalidCertificate(certificate) => certificate_advice(certificate),
            rustls::Error::AlertReceived(alert) => alert_advice(*alert),
            rustls::Error::InvalidMessage(_) => Some("is the peer speaking TLS at all?"),
            rustls::Error::NoCertificatesPresented => {
                Some("this server asks for a client certificate")
            }
            _ => None,
        }
    }
}

/// Whether an alert is about what we are or offer, not about the state of its sender.
fn is_refusal(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::HandshakeFailure
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::IllegalParameter
            | A::ProtocolVersion
            | A::InsufficientSecurity
            | A::InappropriateFallback
            | A::MissingExtension
            | A::UnsupportedExtension
            | A::UnrecognisedName
            | A::CertificateRequired
            | A::NoApplicationProtocol
    )
}

fn certificate_advice(error: &CertificateError) -> Option<&'static str> {
    match error {
        CertificateError::UnknownIssuer => {
            Some("no trusted root has signed it: name its root with `roots_pem`")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Some("check this machine's clock")
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => Some(
            "a common name does not count: make the certificate with `-addext \
             subjectAltName=DNS:localhost`, or IP:127.0.0.1",
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Some("its extended key usage lacks serverAuth or clientAuth")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Some("renew it, or check this machine's clock")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some("connect by a name that it holds, or name one of them with `server_name`")
        }
        CertificateError::Other(OtherError(why)) => match why.downcast_ref()? {
            webpki::Error::CaUsedAsEndEntity => Some(
                "it is that of an authority, as `openssl req -x509` makes them: trust exactly it \
                 with `roots_pem`, or sign another one with it",
            ),
            webpki::Error::UnsupportedCertVersion => {
                Some("it has no extensions: make it with `-addext subjectAltName=DNS:localhost`")
            }
            _ => None,
        },
        _ => None,
    }
}

fn alert_advice(alert: AlertDescription) -> Option<&'static str> {
    match alert {
        AlertDescription::CertificateRequired => {
            Some("the peer wants a client certificate: give one with `client_cert_pem`")
        }
        AlertDescription::UnknownCA => {
            Some("the peer does not know who signed our certificate: have it trust that root")
        }
        AlertDescription::CertificateExpired => {
            Some("renew our certificate, or check the peer's clock")
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => {
            Some("the peer refuses our certificate, and knows why")
        }
        AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => {
            Some("the two have no version or cipher suite of TLS in common: this is 1.2 and 1.3")
        }
        AlertDescription::NoApplicationProtocol => {
            Some("the peer speaks none of the protocols that we offer by ALPN")
        }
        _ => None,
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(rustls::Error::AlertReceived(alert)) => {
                write!(f, "the peer ended TLS with the alert {alert:?}")?;
            }
            Self::Protocol(rustls::Error::InvalidCertificate(CertificateError::Other(why))) => {
                write!(f, "TLS failed: invalid peer certificate: {why}")?;
            }
            Self::Protocol(error) => write!(f, "TLS failed: {error}")?,
            Self::HandshakeCut { heard: true } => {
                f.write_str("the peer closed during the TLS handshake")?;
            }
            Self::HandshakeCut { heard: false } => {
                f.write_str("the peer closed before it said anything in the TLS handshake")?;
            }
            Self::Truncated => f.write_str(
                "the stream ended without TLS close_notify: what arrived may not be all that was \
                 sent",
            )?,
            Self::KeysUsedUp => f.write_str(
                "the keys of this TLS 1.2 session are used up: connect again, or speak TLS 1.3, which \
                 changes them by itself",
            )?,
        }
        self.advice().map_or(Ok(()), |advice| write!(f, " ({advice})"))
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Protocol(error) => Some(error),
            Self::HandshakeCut { .. } | Self::Truncated | Self::KeysUsedUp => None,
        }
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        io::Error::new(error.kind(), error)
    }
}

/// As the crate's error.
impl From<TlsError> for Error {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::Protocol(_) => Error::with_source(Kind::Tls, "", io::Error::from(error)),
            TlsError::HandshakeCut { .. } | TlsError::Truncated | TlsError::KeysUsedUp => {
                Error::io("", error.into())
            }
        }
    }
}

/// The error of a certificate or key that cannot be used.
pub(super) fn unusable(
    what: &'static str,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::with_source(Kind::Tls, what, why)
}
