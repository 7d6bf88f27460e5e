//! The TLS handshake on a stream, with a deadline.

use std::io;
use std::time::Duration;

use ringway_runtime::io::Stream;
use ringway_runtime::timeout;
use rustls::{ClientConnection, ServerConnection};

use super::arrivals::Arrivals;
use super::handshake_slots::HandshakeSlot;
use super::session::TlsSession;
use super::stream::flush;
use super::{ClientTls, ServerTls, TlsError, TlsStream};
use crate::error::{Error, Kind, Result};

impl TlsStream {
    /// Runs the server's side of the handshake. If it fails, the client gets an alert and the
    /// connection is closed.
    ///
    /// # Errors
    /// [`is_timeout`](Error::is_timeout) when the handshake exceeds its time limit;
    /// [`is_tls`](Error::is_tls) when the client does not speak TLS, shares no version, cipher
    /// suite or protocol with us, or presents a certificate that we reject, and when the client
    /// rejects us; [`is_closed`](Error::is_closed) when it closes or resets the connection.
    pub async fn accept(stream: Stream, tls: &ServerTls) -> Result<TlsStream> {
        Self::accept_at(stream, tls, None).await
    }

    /// Accepts like [`accept`](Self::accept), within the limits of a handshake slot.
    pub(crate) async fn accept_at(
        stream: Stream,
        tls: &ServerTls,
        slot: Option<&HandshakeSlot<'_>>,
    ) -> Result<TlsStream> {
        let connection = ServerConnection::new(tls.config()).map_err(TlsError::from)?;
        handshake(stream, TlsSession::new(connection), tls.handshake_limit(), slot).await
    }

    /// Runs the client's side of the handshake with the server `host`, a name or an IP address that
    /// the server's certificate must contain, unless [`ClientTls::server_name`] sets another.
    ///
    /// # Errors
    /// Fails like [`accept`](Self::accept) with the sides exchanged; [`is_tls`](Error::is_tls) also
    /// when `host` is neither a name nor an IP address, and when this machine has no roots and none
    /// were set.
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
    slot: Option<&HandshakeSlot<'_>>,
) -> Result<TlsStream> {
    let outcome = timeout(limit, go_through(&stream, &mut session, slot)).await;
    let outcome =
        outcome.map_err(|elapsed| Error::with_source(Kind::Timeout, "TLS handshake", elapsed))?;
    if let Some(error) = session.failure() {
        // The dropped stream sends the alert and reads on until the peer has received it.
        return Err(error.clone().into());
    }
    outcome?;
    Ok(TlsStream::new(stream, session))
}

/// Exchanges messages until the handshake has completed or failed.
async fn go_through(
    stream: &Stream,
    session: &mut TlsSession,
    slot: Option<&HandshakeSlot<'_>>,
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
        if let Some(slot) = slot {
            slot.hear();
            if arrivals.complete(&ciphertext) {
                slot.step().await;
            }
        }
        session.give(ciphertext);
    }
}
