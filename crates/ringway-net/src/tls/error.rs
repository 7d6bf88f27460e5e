//! TLS errors, with advice on what to do.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, OtherError};

use crate::error::{Error, Kind};

/// A TLS failure. The session keeps it and returns it from every call. It is carried inside an
/// [`io::Error`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TlsError {
    /// The peer broke the protocol, we rejected it, or it rejected us.
    Protocol(rustls::Error),
    /// The byte stream ended before the handshake did; `heard`: after the peer had sent something.
    HandshakeCut { heard: bool },
    /// The byte stream ended without the peer's `close_notify`.
    Truncated,
    /// The session's keys have encrypted as many records as is safe.
    KeysUsedUp,
}

impl TlsError {
    /// Returns the TLS error that an I/O error carries.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Whether `error` carries a TLS failure other than a stream that was merely cut.
    pub(crate) fn broke_protocol(error: &io::Error) -> bool {
        matches!(Self::of(error), Some(Self::Protocol(_)))
    }

    /// Whether another handshake would fail the same way, because one side rejects what the other
    /// is or offers. Not final are a cut stream, and an alert about the state of its sender, such
    /// as an overload.
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
                return Some("if it does not speak TLS, connect with a tcp:// address");
            }
            _ => return None,
        };
        match error {
            rustls::Error::InvalidCertificate(certificate) => certificate_advice(certificate),
            rustls::Error::AlertReceived(alert) => alert_advice(*alert),
            rustls::Error::InvalidMessage(_) => Some("is the peer speaking TLS at all?"),
            rustls::Error::NoCertificatesPresented => {
                Some("this server requires a client certificate")
            }
            _ => None,
        }
    }
}

/// Whether an alert rejects what we are or offer, and is not about the state of its sender.
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
            Some("no trusted root has issued it: add its root with `roots_pem`")
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
            Some("connect with a name that it contains, or set one of them with `server_name`")
        }
        CertificateError::Other(OtherError(why)) => match why.downcast_ref()? {
            webpki::Error::CaUsedAsEndEntity => Some(
                "it is a CA certificate, as `openssl req -x509` makes them: trust exactly this one \
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
            Some("the peer requires a client certificate: set one with `client_cert_pem`")
        }
        AlertDescription::UnknownCA => {
            Some("the peer does not trust the issuer of our certificate: add that root there")
        }
        AlertDescription::CertificateExpired => {
            Some("renew our certificate, or check the peer's clock")
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => {
            Some("the peer rejects our certificate: its log may say why")
        }
        AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => Some(
            "there is no common TLS version or cipher suite: this side supports TLS 1.2 and 1.3",
        ),
        AlertDescription::NoApplicationProtocol => {
            Some("the peer supports none of the ALPN protocols that we offer")
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
                f.write_str("the peer closed without sending anything in the TLS handshake")?;
            }
            Self::Truncated => f.write_str(
                "the stream ended without TLS close_notify: what arrived may not be all that was \
                 sent",
            )?,
            Self::KeysUsedUp => f.write_str(
                "the keys of this TLS 1.2 session are used up: connect again, or use TLS 1.3, which \
                 renews them itself",
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

/// Converts to the crate's error.
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

/// Makes the error of an unusable certificate, key or name.
pub(super) fn unusable(
    what: &'static str,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::with_source(Kind::Tls, what, why)
}
