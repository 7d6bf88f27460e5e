//! Every example runs as a process, does what it says, and ends on SIGTERM with status 0.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::example::{Example, LIMIT, connect, limited};

const ANY_PORT: &str = "tcp://127.0.0.1:0";

/// Sends `message` and expects it back.
fn echoes(mut stream: impl Read + Write, message: &[u8]) {
    stream.write_all(message).expect("the example reads");
    let mut echo = vec![0; message.len()];
    stream.read_exact(&mut echo).expect("an echo in time");
    assert!(echo == message, "other bytes came back");
}

fn patterned(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

/// Everything up to the end of the stream.
fn rest_of(mut socket: &TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).expect("an end in time");
    rest
}

#[test]
fn echo() {
    let example = Example::start("echo", &[ANY_PORT]);
    let (_, address) = example.listening();
    let socket = connect(address);
    echoes(&socket, b"hello");
    echoes(&socket, &patterned(200_000));
    socket.shutdown(Shutdown::Write).expect("connected");
    assert!(rest_of(&socket).is_empty());
    let _silent = connect(address);
    example.stop();
}

#[test]
fn hello() {
    let example = Example::start("hello", &[]);
    example.listening();
    assert_eq!(example.line(), "Hello, world!");
    example.wait();
}

/// Sends a datagram until it comes back: datagrams get lost, not least before all cores listen.
fn echoes_datagram(socket: &UdpSocket, datagram: &[u8]) {
    let begun = Instant::now();
    let mut echo = [0; 2048];
    while begun.elapsed() < LIMIT {
        socket.send(datagram).expect("the example listens");
        // Echoes of earlier datagrams that were sent twice are skipped.
        while let Ok(length) = socket.recv(&mut echo) {
            if &echo[..length] == datagram {
                return;
            }
        }
    }
    panic!("no echo of {} bytes in time", datagram.len());
}

#[test]
fn tcp_udp() {
    let example = Example::start("tcp_udp", &["127.0.0.1:0"]);
    let ((_, tcp), (_, udp)) = (example.listening(), example.listening());
    assert_eq!(tcp, udp, "one port for both");
    echoes(connect(tcp), b"by tcp");

    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("not zero");
    socket.connect(udp).expect("an address");
    for datagram in [&b"by udp"[..], b"", &[7; 1400]] {
        echoes_datagram(&socket, datagram);
    }
    example.stop();
}

/// A member of the chat, in the group when this returns.
fn join_chat(address: SocketAddr) -> (TcpStream, BufReader<TcpStream>) {
    let socket = connect(address);
    let mut lines = BufReader::new(socket.try_clone().expect("a descriptor"));
    assert_eq!(next_line(&mut lines), "welcome");
    (socket, lines)
}

fn next_line(lines: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line in time");
    line.truncate(line.trim_end().len());
    line
}

/// Joins with a small receive buffer, and reads its welcome but nothing else.
fn join_and_never_read(address: SocketAddr) -> TcpStream {
    let kind = (socket2::Domain::IPV4, socket2::Type::STREAM);
    let socket = socket2::Socket::new(kind.0, kind.1, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("an option");
    socket.connect(&address.into()).expect("the example listens");
    let socket = limited(socket.into());
    let mut welcome = [0; 8];
    (&socket).read_exact(&mut welcome).expect("a welcome in time");
    socket
}

#[test]
fn chat() {
    const LINES: usize = 1200;
    let example = Example::start("chat", &[ANY_PORT]);
    let (_, address) = example.listening();
    let ((mut writer, mut writer_lines), (mut reader, mut lines)) =
        (join_chat(address), join_chat(address));
    let never_reads = join_and_never_read(address);

    // More than the kernel's buffers and the server's bound hold for the one who does not read.
    for n in 0..LINES {
        let line = format!("{n:015000}");
        writer.write_all(format!("{line}\n").as_bytes()).expect("the example reads");
        assert!(next_line(&mut lines) == line, "another line than {n}");
    }
    reader.write_all(b"all of it\n").expect("the example reads");
    assert_eq!(next_line(&mut writer_lines), "all of it", "nothing of one's own");

    let mut received = 0;
    let ended = loop {
        match (&never_reads).read(&mut [0; 65_536]) {
            Ok(0) => break ErrorKind::UnexpectedEof,
            Ok(length) => received += length,
            Err(error) => break error.kind(),
        }
    };
    assert!(matches!(ended, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{ended}");
    assert!(received < LINES * 15_001, "it was sent everything");
    example.stop();
}

#[test]
fn idle_kick() {
    const IDLE: Duration = Duration::from_millis(300);
    let example = Example::start("idle_kick", &[ANY_PORT, "300"]);
    let (_, address) = example.listening();
    let kicked = Arc::new(AtomicBool::new(false));
    let active = thread::spawn({
        let (socket, kicked) = (connect(address), kicked.clone());
        move || {
            while !kicked.load(Ordering::Acquire) {
                echoes(&socket, b"still here");
            }
            echoes(&socket, b"and after");
        }
    });
    let (begun, idle) = (Instant::now(), connect(address));
    echoes(&idle, b"the last word");
    // A kick is a reset, unless the end overtakes it.
    let ended = (&idle).read(&mut [0; 8]).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(0) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
    assert!(begun.elapsed() >= IDLE, "kicked after {:?}", begun.elapsed());
    assert!(example.line().starts_with("kicked "));
    kicked.store(true, Ordering::Release);
    active.join().expect("whoever talks is not kicked");
    example.stop();
}

/// Sends back what it receives, to one client after the other.
fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let socket = limited(socket);
            let _ = std::io::copy(&mut &socket, &mut &socket);
        }
    });
    address
}

/// A request of SOCKS4, or of SOCKS4a if there is a host name; returns the code of the reply.
fn ask_socks(mut socket: &TcpStream, port: u16, ip: [u8; 4], host: Option<&str>) -> u8 {
    let mut request = [&[4, 1][..], &port.to_be_bytes(), &ip, b"user\0"].concat();
    if let Some(host) = host {
        request.extend_from_slice(host.as_bytes());
        request.push(0);
    }
    // Cut in two, as a network may.
    let (front, back) = request.split_at(6);
    socket.write_all(front).expect("the example reads");
    socket.write_all(back).expect("the example reads");
    let mut reply = [0; 8];
    socket.read_exact(&mut reply).expect("a reply in time");
    assert_eq!(reply[0], 0);
    reply[1]
}

#[test]
fn socks4a() {
    let example = Example::start("socks4a", &[ANY_PORT]);
    let (_, address) = example.listening();
    let target = echo_server();
    for (ip, host) in [([127, 0, 0, 1], None), ([0, 0, 0, 1], Some("127.0.0.1"))] {
        let socket = connect(address);
        assert_eq!(ask_socks(&socket, target.port(), ip, host), 90);
        echoes(&socket, b"through the proxy");
        let sent = patterned(8 << 20);
        let mut writer = socket.try_clone().expect("a descriptor");
        let writing = thread::spawn(move || {
            writer.write_all(&sent).expect("the proxy reads");
            writer.shutdown(Shutdown::Write).expect("connected");
        });
        assert!(rest_of(&socket) == patterned(8 << 20), "other bytes came back");
        writing.join().expect("everything was sent");
    }

    let closed = TcpListener::bind("127.77.0.6:0").expect("a free port");
    let port = closed.local_addr().expect("it is bound").port();
    drop(closed);
    let refused = connect(address);
    assert_eq!(ask_socks(&refused, port, [127, 77, 0, 6], None), 91);
    assert!(rest_of(&refused).is_empty());

    let mut nonsense = connect(address);
    nonsense.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("connected");
    assert!(rest_of(&nonsense).is_empty());
    example.stop();
}

#[test]
fn hyper_hello() {
    let example = Example::start("hyper_hello", &[ANY_PORT]);
    let (_, address) = example.listening();
    let mut socket = connect(address);
    socket.write_all(b"GET /you HTTP/1.1\r\nHost: a\r\n\r\n").expect("the example reads");
    let mut reader = BufReader::new(socket.try_clone().expect("a descriptor"));
    assert_eq!(next_line(&mut reader), "HTTP/1.1 200 OK");
    let header: Vec<_> = std::iter::from_fn(|| Some(next_line(&mut reader)))
        .take_while(|line| !line.is_empty())
        .collect();
    assert!(header.contains(&"content-length: 12".to_owned()), "{header:?}");
    assert_eq!(next_line(&mut reader), "Hello, you!");

    // The connection was kept.
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("the example reads");
    let mut response = String::new();
    reader.read_to_string(&mut response).expect("an end in time");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\nHello, world!\n"), "{response}");
    example.stop();
}

/// A TLS client that trusts one certificate.
fn tls_client(address: SocketAddr, pem: &str) -> impl Read + Write + use<> {
    let mut roots = rustls::RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("one in PEM");
    roots.add(certificate).expect("a good certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a host name");
    let session = rustls::ClientConnection::new(config.into(), name).expect("a good name");
    rustls::StreamOwned::new(session, connect(address))
}

#[test]
fn tls_echo() {
    let example = Example::start("tls_echo", &["tls://127.0.0.1:0"]);
    let (printed, address) = example.listening();
    let mut client = tls_client(address, &printed.join("\n"));
    echoes(&mut client, b"hello");
    echoes(&mut client, &patterned(100_000));

    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let stranger = stranger.expect("a certificate").cert.pem();
    let refused = tls_client(address, &stranger).write_all(b"hello").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData, "{refused}");
    echoes(&mut client, b"still there");
    drop(client);
    example.stop();
}

#[test]
fn tls_echo_with_a_given_certificate() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.expect("a certificate");
    let directory = tempfile::tempdir().expect("a place for files");
    let [chain, key] = ["chain.pem", "key.pem"].map(|name| directory.path().join(name));
    std::fs::write(&chain, made.cert.pem()).expect("a writable place");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a writable place");

    let [chain, key] = [&chain, &key].map(|path| path.to_str().expect("plain names"));
    let example = Example::start("tls_echo", &["tls://127.0.0.1:0", chain, key]);
    let (printed, address) = example.listening();
    assert!(printed.is_empty());
    echoes(tls_client(address, &made.cert.pem()), b"hello");
    example.stop();
}

#[test]
fn every_example_is_short_says_how_to_run_it_and_has_a_test() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(directory).expect("the examples") {
        let path = entry.expect("the examples").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a plain name");
        assert!(text.lines().count() < 100, "{name} has {} lines", text.lines().count());
        assert!(text.starts_with("//! "), "{name} does not say what it shows");
        let command = format!("`cargo run --release --example {name}");
        assert!(text.contains(&command), "{name} does not say how to run it");
        let quoted = format!("(\"{name}\"");
        let tests = [
            include_str!("examples.rs"),
            include_str!("rpc_examples.rs"),
            include_str!("json_rpc_clients.rs"),
            include_str!("mongo_examples.rs"),
            include_str!("socket_examples.rs"),
        ];
        assert!(tests.iter().any(|tests| tests.contains(&quoted)), "{name} has no test");
    }
}

/// What the server answers to one request, until it closes.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut socket = connect(address);
    socket.write_all(request.as_bytes()).expect("the example reads");
    socket.shutdown(Shutdown::Write).expect("connected");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer in time");
    answer
}

#[test]
fn http_service() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("index.html"), "<h1>Counters</h1>").expect("a file");
    let example = Example::start("http_service", &[ANY_PORT, &folder.path().to_string_lossy()]);
    let (_, address) = example.listening();
    let get = |path: &str| ask(address, &format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n"));
    assert!(get("/").ends_with("<h1>Counters</h1>"));
    assert!(get("/../secret").starts_with("HTTP/1.1 404 "));
    assert!(get("/counters/visits").starts_with("HTTP/1.1 404 "));
    let body = "content-length: 8\r\n\r\n{\"by\":2}";
    let post = format!("POST /counters/visits HTTP/1.1\r\nhost: h\r\n{body}");
    assert!(
        ask(address, &post).ends_with("\r\n\r\n2") && ask(address, &post).ends_with("\r\n\r\n4")
    );
    assert!(get("/counters/visits").ends_with("\r\n\r\n4"));

    let url = format!("ws://{address}/follow");
    let count = ringway::runtime::block_on(async move {
        let mut socket = ringway::http::Client::new().websocket(&url).await?;
        socket.send("visits").await?;
        socket.recv().await
    });
    assert_eq!(count.expect("a runtime"), Ok(Some("4".into())));
    example.stop();
}
