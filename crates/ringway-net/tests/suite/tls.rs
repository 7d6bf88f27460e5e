//! TLS on real sockets: against itself, against a blocking rustls peer, and against bad peers.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ringway_net::TlsStream;
use ringway_runtime::io::{Pressure, Stream};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, spawn};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::certificates::NAME;
use crate::support::trust::{Trust, listen, pattern, receive_exactly, run, socket_addr};

#[test]
fn every_size_is_echoed_unchanged() {
    run(async {
        let trust = Trust::new();
        let (server, client) = trust.pair().await;
        let echoing = spawn(echo(server?));
        let client = client?;
        let sizes = [1, 2, 100, 16_383, 16_384, 16_385, 65_536, 100_000, 1 << 20];
        for size in sizes {
            let sent = pattern(size);
            client.write(&sent);
            assert_eq!(receive_exactly(&client, size).await?, sent, "{size} bytes");
        }
        client.shutdown();
        assert!(client.recv().await?.is_none());
        assert_eq!(echoing.await??, sizes.iter().sum::<usize>());
        Ok(())
    });
}

#[test]
fn simulated_faults_lose_no_bytes() {
    let trust = Rc::new(Trust::new());
    for seed in 0..20 {
        let trust = Rc::clone(&trust);
        let config = SimConfig { socket_buffer_bytes: 4_096, ..SimConfig::harsh(seed) };
        let outcome = Builder::simulate(config, async move {
            let (server, client) = trust.pair().await;
            let (echoing, client) = (spawn(echo(server?)), client?);
            let sent = pattern(100_000);
            client.write(&sent);
            client.shutdown();
            assert_eq!(receive_exactly(&client, sent.len()).await?, sent, "seed {seed}");
            assert!(client.recv().await?.is_none());
            assert_eq!(echoing.await??, sent.len());
            Ok::<_, ringway_net::Error>(())
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn blocking_rustls_client_is_echoed() {
    run(async {
        let trust = Trust::new();
        let listener = listen();
        let config = client_config(&trust);
        let address = socket_addr(listener.local_addr());
        let foreign = thread::spawn(move || foreign_client(TcpStream::connect(address)?, config));
        let stream = listener.accept().await?.into_stream(&Rc::default())?;
        let server = TlsStream::accept(stream, &trust.server).await?;
        assert_eq!(server.server_name(), Some(NAME));
        echo(server).await?;
        foreign.join().expect("no panic")?;
        Ok(())
    });
}

#[test]
fn blocking_rustls_server_echoes() {
    run(async {
        let trust = Trust::new();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let config = server_config(&trust);
        let foreign = thread::spawn(move || foreign_server(listener.accept()?.0, config));
        let stream = Stream::connect(&address.into()).await?;
        let client = TlsStream::connect(stream, &trust.client, NAME).await?;
        let sent = pattern(300_000);
        client.write(&sent);
        client.shutdown();
        assert_eq!(receive_exactly(&client, sent.len()).await?, sent);
        assert!(client.recv().await?.is_none());
        foreign.join().expect("no panic")?;
        Ok(())
    });
}

#[test]
fn alpn_chooses_the_best_common_protocol() {
    run(async {
        let mut trust = Trust::new();
        trust.server = trust.server.alpn(["h2", "http/1.1"]);
        trust.client = trust.client.alpn(["http/1.1", "h2"]);
        let (server, client) = trust.pair().await;
        assert_eq!(server?.alpn_protocol(), Some(&b"h2"[..]));
        assert_eq!(client?.alpn_protocol(), Some(&b"h2"[..]));

        trust.client = trust.client.alpn(["smtp"]);
        let (server, client) = trust.pair().await;
        assert!(server.expect_err("none in common").is_tls());
        let refused = client.expect_err("none in common");
        assert!(refused.to_string().contains("NoApplicationProtocol"), "{refused}");
        Ok(())
    });
}

#[test]
fn stream_cut_without_close_notify_is_an_error() {
    run(async {
        let trust = Trust::new();
        let listener = listen();
        let config = client_config(&trust);
        let address = socket_addr(listener.local_addr());
        let attacker = thread::spawn(move || -> io::Result<()> {
            let tcp = TcpStream::connect(address)?;
            let mut tls = foreign_session(tcp, config);
            tls.write_all(b"pay 100")?;
            tls.sock.shutdown(Shutdown::Write)
        });
        let stream = listener.accept().await?.into_stream(&Rc::default())?;
        let server = TlsStream::accept(stream, &trust.server).await?;
        assert_eq!(receive_exactly(&server, 7).await?, b"pay 100");
        for _ in 0..2 {
            let error = server.recv().await.expect_err("the rest is missing, reported again");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
            assert!(error.to_string().contains("close_notify"), "{error}");
        }
        attacker.join().expect("no panic")?;
        Ok(())
    });
}

#[test]
fn garbage_is_answered_by_an_alert_and_a_close() {
    for garbage in
        [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0xFF; 4_096], &[0; 5], b"\x16\x03\x01\x00\x01\x01"]
    {
        run(async move {
            let trust = Trust::new();
            let listener = listen();
            let address = socket_addr(listener.local_addr());
            let peer = thread::spawn(move || -> io::Result<Vec<u8>> {
                let mut tcp = TcpStream::connect(address)?;
                tcp.write_all(garbage)?;
                tcp.shutdown(Shutdown::Write)?;
                let mut answer = Vec::new();
                tcp.read_to_end(&mut answer).map(|_| answer)
            });
            let stream = listener.accept().await?.into_stream(&Rc::default())?;
            let error = TlsStream::accept(stream, &trust.server).await.expect_err("no TLS");
            assert!(error.is_tls() || error.is_closed(), "{error:?}");
            let answer = joined(peer).await?;
            assert!(answer.is_empty() || TlsStream::is_alert(&answer), "{answer:?}");
            assert_eq!(error.is_tls(), !answer.is_empty(), "{error:?}");
            Ok(())
        });
    }
}

#[test]
fn silent_peer_is_closed_at_the_handshake_timeout() {
    run(async {
        let mut trust = Trust::new();
        trust.server = trust.server.handshake_timeout(Duration::from_millis(30));
        trust.client = trust.client.handshake_timeout(Duration::from_millis(30));
        let listener = listen();
        let silent = TcpStream::connect(socket_addr(listener.local_addr()))?;
        let stream = listener.accept().await?.into_stream(&Rc::default())?;
        let error = TlsStream::accept(stream, &trust.server).await.expect_err("silence");
        assert!(error.is_timeout(), "{error:?}");
        let end = thread::spawn(move || (&silent).read(&mut [0]));
        assert_eq!(joined(end).await?, 0, "closed");

        let silent = TcpListener::bind("127.0.0.1:0")?;
        let stream = Stream::connect(&silent.local_addr()?.into()).await?;
        let error = TlsStream::connect(stream, &trust.client, NAME).await.expect_err("silence");
        assert!(error.is_timeout(), "{error:?}");
        Ok(())
    });
}

#[test]
fn close_before_and_during_a_handshake_are_distinguished() {
    run(async {
        let trust = Trust::new();
        for said in [&b""[..], &[22, 3, 3, 1, 0]] {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            let peer = thread::spawn(move || -> io::Result<()> {
                let (mut tcp, _) = listener.accept()?;
                let mut hello = [0; 5];
                tcp.read_exact(&mut hello)?;
                let rest = u64::from(u16::from_be_bytes([hello[3], hello[4]]));
                io::copy(&mut (&tcp).take(rest), &mut io::sink())?;
                tcp.write_all(said)
            });
            let stream = Stream::connect(&address.into()).await?;
            let error = TlsStream::connect(stream, &trust.client, NAME).await.expect_err("no TLS");
            assert!(error.is_closed(), "{error:?}");
            let is_silent = error.to_string().contains("without sending anything");
            assert_eq!(is_silent, said.is_empty(), "{error}");
            joined(peer).await?;
        }
        Ok(())
    });
}

#[test]
fn half_closed_connection_still_carries_the_other_direction() {
    run(async {
        let (server, client) = Trust::new().pair().await;
        let (server, client) = (server?, client?);
        client.write(b"question");
        client.shutdown();
        assert_eq!(client.write(b"too late"), Pressure::Closed);
        assert_eq!(receive_exactly(&server, 8).await?, b"question");
        assert!(server.recv().await?.is_none());
        let answer = pattern(200_000);
        server.write(&answer);
        server.shutdown();
        assert_eq!(receive_exactly(&client, answer.len()).await?, answer);
        assert!(client.recv().await?.is_none());
        Ok(())
    });
}

#[test]
fn only_close_notify_is_a_clean_end() {
    run(async {
        let trust = Trust::new();
        for is_said in [true, false] {
            let (server, client) = trust.pair().await;
            let server = server?;
            server.write(b"last words");
            if is_said {
                server.shutdown();
            }
            drop(server);
            let client = client?;
            assert_eq!(receive_exactly(&client, 10).await?, b"last words");
            match client.recv().await {
                Ok(more) => assert!(is_said && more.is_none()),
                Err(error) => assert!(!is_said && error.kind() == io::ErrorKind::UnexpectedEof),
            }
        }
        let (server, client) = trust.pair().await;
        let server = server?;
        server.abort();
        drop(server);
        client?.recv().await.expect_err("reset");
        Ok(())
    });
}

#[test]
fn sender_waits_for_a_slow_reader() {
    run(async {
        let (server, client) = Trust::new().pair().await;
        let (server, client) = (server?, client?);
        let sent = Rc::new(Cell::new(0));
        let count = Rc::clone(&sent);
        let piece = pattern(64 * 1024);
        let sending = spawn(async move {
            while server.write(&piece) == Pressure::Low {
                count.set(count.get() + piece.len());
            }
            count.set(count.get() + piece.len());
            assert!(server.queued_bytes() > 0);
            server.drained().await?;
            server.shutdown();
            server.flushed().await
        });
        let mut received = 0;
        while let Some(view) = client.recv().await? {
            assert!(view.len() <= 64 * 1024);
            received += view.len();
        }
        sending.await??;
        assert_eq!(received, sent.get());
        Ok(())
    });
}

/// Echoes everything; returns the number of bytes.
async fn echo(stream: TlsStream) -> io::Result<usize> {
    let mut echoed = 0;
    while let Some(view) = stream.recv().await? {
        echoed += view.len();
        stream.send(view);
        stream.drained().await?;
    }
    stream.shutdown();
    stream.flushed().await?;
    Ok(echoed)
}

/// Waits for a thread without blocking the core.
async fn joined<T: Send + 'static>(thread: thread::JoinHandle<T>) -> T {
    let waiting = ringway_runtime::spawn_blocking(move || thread.join().expect("no panic"));
    waiting.expect("room in the pool").await.expect("no panic")
}

type ForeignClient = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

fn foreign_session(tcp: TcpStream, config: Arc<rustls::ClientConfig>) -> ForeignClient {
    let name = NAME.try_into().expect("a name");
    let session = rustls::ClientConnection::new(config, name).expect("a session");
    rustls::StreamOwned::new(session, tcp)
}

/// Sends, finishes, and reads the echo to its clean end.
fn foreign_client(tcp: TcpStream, config: Arc<rustls::ClientConfig>) -> io::Result<()> {
    let mut tls = foreign_session(tcp, config);
    for size in [1, 1_000, 50_000] {
        let sent = pattern(size);
        tls.write_all(&sent)?;
        let mut echoed = vec![0; size];
        tls.read_exact(&mut echoed)?;
        assert_eq!(echoed, sent);
    }
    tls.conn.send_close_notify();
    tls.flush()?;
    assert_eq!(tls.read(&mut [0])?, 0, "the server's close_notify");
    Ok(())
}

fn foreign_server(tcp: TcpStream, config: Arc<rustls::ServerConfig>) -> io::Result<()> {
    let session = rustls::ServerConnection::new(config).map_err(io::Error::other)?;
    let mut tls = rustls::StreamOwned::new(session, tcp);
    let mut received = Vec::new();
    tls.read_to_end(&mut received)?;
    tls.write_all(&received)?;
    tls.conn.send_close_notify();
    tls.flush()
}

fn client_config(trust: &Trust) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(trust.authority_pem.as_bytes()).expect("PEM");
    roots.add(root).expect("a root");
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("supported")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

fn server_config(trust: &Trust) -> Arc<rustls::ServerConfig> {
    let chain = CertificateDer::from_pem_slice(trust.identity.chain.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(trust.identity.key.as_bytes()).expect("PEM");
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .expect("supported")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("they belong together");
    Arc::new(config)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
