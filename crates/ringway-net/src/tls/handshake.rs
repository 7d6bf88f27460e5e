//! From a plain stream to one under TLS, before a deadline.

use std::io;
use std::time::Duration;

use ringway_runtime::io::Stream;
use ringway_runtime::timeout;
use rustls::{ClientConnection, ServerConnection};

use super::arrivals::Arrivals;
use super::places::Place;
use super::session::TlsSession;
use super::stream::flush;
use super::{ClientTls, ServerTls, TlsError, TlsStream};
use crate::error::{Error, Kind, Result};

impl TlsStream {
    /// The server's side of the handshake. When it fails, the client is told why by an alert and
    /// the connection is closed.
    ///
    /// # Errors
    /// [`is_timeout`](Error::is_timeout) when the client is slower than the handshake's limit;
    /// [`is_tls`](Error::is_tls) when what it sends is not TLS, offers nothing that we speak or
    /// shows a certificate that we refuse, and when it refuses us; [`is_closed`](Error::is_closed)
    /// when it closes or resets the connection.
    pub async fn accept(stream: Stream, tls: &ServerTls) -> Result<TlsStream> {
        Self::accept_at(stream, tls, None).await
    }

    /// Accepts as [`accept`](Self::accept) does, within the bounds of a place.
    pub(crate) async fn accept_at(
        stream: Stream,
        tls: &ServerTls,
        place: Option<&Place<'_>>,
    ) -> Result<TlsStream> {
        let connection = ServerConnection::new(tls.config()).map_err(TlsError::from)?;
        handshake(stream, TlsSession::new(connection), tls.handshake_limit(), place).await
    }

    /// The client's side of the handshake with the server `host`: a name or an IP address that the
    /// server's certificate must hold, unless [`ClientTls::server_name`] names another.
    ///
    /// # Errors
    /// As [`accept`](Self::accept), with the sides exchanged; [`is_tls`](Error::is_tls) also when
    /// `host` is neither, and when this machine has no roots and none were given.
    pub async fn connect(stream: Stream, tls: &ClientTls, host: &str) -> Result<TlsStream> {
        let (config, name) = tls.prepare(host).await?;
        let connection = ClientConnection::new(config, name).map_err(TlsError::from)?;
        handshake(stream, TlsSession::new(connection), tls.handshake_limit(), None).await
    }
}

async fn handshake(
    stream: Stream,
    mut session: TlsSession,
    limit: Duration,
    place: Option<&Place<'_>>,
) -> Result<TlsStream> {
    let outcome = timeout(limit, go_through(&stream, &mut session, place)).await;
    let outcome =
        outcome.map_err(|elapsed| Error::with_source(Kind::Timeout, "TLS handshake", elapsed))?;
    if let Some(error) = session.failure() {
        // Dropped, the stream sends the alert and reads on until the peer has seen it.
        return Err(error.clone().into());
    }
    outcome?;
    Ok(TlsStream::new(stream, session))
}

/// Until the handshake is done or has failed.
async fn go_through(
    stream: &Stream,
    session: &mut TlsSession,
    place: Option<&Place<'_>>,
) -> io::Result<()> {
    let mut arrivals = Arrivals::default();
    let mut heard = false;
    loop {
        flush(session, stream);
        if session.failure().is_some() || !session.is_handshaking() {
            return Ok(());
        }
        let Some(ciphertext) = stream.recv().await? else {
            session.fail(TlsError::HandshakeCut { heard });
            continue;
        };
        heard = true;
        if let Some(place) = place {
            place.hear();
            if arrivals.complete(&ciphertext) {
                place.step().await;
            }
        }
        session.give(ciphertext);
    }
}
