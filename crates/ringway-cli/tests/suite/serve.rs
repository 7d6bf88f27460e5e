//! `ringway serve` as a user meets it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::{Ringway, run};

const LIMIT: Duration = Duration::from_secs(30);

fn connect(line: &str) -> TcpStream {
    let address = line.strip_prefix("listening on tcp://").expect("the address it listens on");
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a span above zero");
    stream
}

fn echoes(stream: &mut (impl Read + Write), text: &[u8]) {
    stream.write_all(text).expect("the server reads");
    let mut reply = vec![0; text.len()];
    stream.read_exact(&mut reply).expect("an echo");
    assert_eq!(reply, text);
}

#[test]
fn every_address_is_announced_and_echoes() {
    for backend in ["auto", "epoll"] {
        let path = std::env::temp_dir().join(format!("rw-{}-{backend}.sock", std::process::id()));
        let server = Ringway::start(&format!(
            "serve echo --listen tcp://127.0.0.1:0 --listen unix://{} --listen udp://127.0.0.1:0 \
             --cores 0 --backend {backend}",
            path.display()
        ));
        echoes(&mut connect(&server.line()), b"over tcp");
        assert_eq!(server.line(), format!("listening on unix://{}", path.display()));
        let mut unix = UnixStream::connect(&path).expect("it listens");
        unix.set_read_timeout(Some(LIMIT)).expect("a span above zero");
        echoes(&mut unix, b"over a socket file");
        let line = server.line();
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        udp.set_read_timeout(Some(LIMIT)).expect("a span above zero");
        let to = line.strip_prefix("listening on udp://").expect("the third address");
        udp.send_to(b"over udp", to).expect("loopback takes it");
        let mut reply = [0; 16];
        let len = udp.recv(&mut reply).expect("an echo");
        assert_eq!(&reply[..len], b"over udp");
        server.terminate();
        assert_eq!(server.wait().status.code(), Some(0));
        assert!(!path.exists(), "the socket file is gone");
    }
}

#[test]
fn the_log_is_on_standard_error() {
    let logged = |asked| {
        let words = "serve echo --listen tcp://127.0.0.1:0 --cores 0";
        let server = Ringway::start_in(("RUST_LOG", asked), words);
        echoes(&mut connect(&server.line()), b"logged");
        server.terminate();
        server.wait().err
    };
    assert_eq!(logged(""), "", "there is nothing to warn of");
    let events = logged("debug");
    assert!(
        events.contains(" DEBUG ringway_net::") && events.contains("the drain is over"),
        "{events}"
    );
    assert_eq!(logged("error,ringway_net=off"), "");
    let complaint = logged("ringway=loud");
    assert!(complaint.starts_with("ringway: RUST_LOG is not understood"), "{complaint}");
}

#[test]
fn sigterm_drains_while_a_connection_is_open() {
    let server = Ringway::start("serve echo --listen tcp://127.0.0.1:0 --cores 0");
    let mut stream = connect(&server.line());
    echoes(&mut stream, b"still open");
    server.terminate();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the connection ends in order");
    assert!(rest.is_empty());
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
}

#[test]
fn control_answers_snapshots_and_ends_with_its_input() {
    let mut server = Ringway::start("serve echo --listen tcp://127.0.0.1:0 --cores 0 --control");
    let mut stream = connect(&server.line());
    echoes(&mut stream, b"0123456789");
    server.stdin().write_all(b"snapshot\n").expect("it reads requests");
    let snapshot: serde_json::Value = serde_json::from_str(&server.line()).expect("an object");
    assert_eq!(snapshot["bytes_received"], 10);
    assert_eq!(snapshot["accepted"], 1);
    for name in ["turns", "syscalls", "allocations"] {
        assert!(snapshot[name].as_u64().is_some_and(|count| count > 0), "{name}: {snapshot}");
    }
    for name in ["ring_flags", "socket_options"] {
        assert!(snapshot[name].is_array(), "{name}: {snapshot}");
    }
    assert!(snapshot["driver"].is_string());
    server.close_stdin();
    assert_eq!(server.wait().status.code(), Some(0));
}

#[test]
fn framed_packets_are_counted_and_told_at_the_end() {
    let server = Ringway::start("serve discard --frame --listen tcp://127.0.0.1:0 --cores 0");
    let line = server.line();
    let mut stream = connect(&line);
    // A packet of 16 bytes: twelve more, sequence 0, connection 0.
    let mut packet = [0; 16];
    packet[0] = 12;
    stream.write_all(&packet).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("half-close");
    assert_eq!(tally(stream), [1, 0, 16]);
    let mut stream = connect(&line);
    packet[4] ^= 1;
    stream.write_all(&packet).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("half-close");
    assert_eq!(tally(stream), [0, 1, 16]);
    server.terminate();
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.err.contains("is wrong at byte"), "{}", ended.err);
}

/// Packets, mismatches and bytes.
fn tally(mut stream: TcpStream) -> [u64; 3] {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("a tally and the end");
    assert_eq!((bytes.len(), &bytes[..8]), (32, &b"RINGTALY"[..]));
    [8, 16, 24].map(|at| u64::from_le_bytes(bytes[at..][..8].try_into().expect("eight bytes")))
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let uri = format!("tcp://{}", taken.local_addr().expect("bound"));
    let ended = run(&format!("serve echo --listen {uri} --cores 0"));
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.err.contains(&uri) && ended.err.contains("in use"), "{}", ended.err);
}

#[test]
fn mutual_tls_with_the_certificates_that_are_made_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let [server, client] = ["server", "client"].map(|name| {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("the system has randomness");
        let certificate = params.self_signed(&key).expect("signed by itself");
        [("cert", certificate.pem()), ("key", key.serialize_pem())].map(|(what, pem)| {
            let path = directory.path().join(format!("{name}-{what}.pem"));
            std::fs::write(&path, pem).expect("it is written");
            path.display().to_string()
        })
    });
    let [cert, key] = &server;
    let serving = Ringway::start(&format!(
        "serve rpc --listen tls://127.0.0.1:0 --cores 0 --cert {cert} --key {key} --client-ca {}",
        client[0]
    ));
    let address = serving.line().replace("listening on ", "").replace("127.0.0.1", "localhost");
    let call = format!("call {address} ringway.bench.Echo/Say hello --ca {cert}");
    let known = run(&format!("{call} --cert {} --key {}", client[0], client[1]));
    assert_eq!((known.status.code(), &*known.out), (Some(0), "hello\n"), "{}", known.err);
    let grpc = call.replace("tls://", "grpcs://").replace("--ca ", "--cacert ");
    let grpc = run(&format!("{grpc} --cert {} --key {}", client[0], client[1]));
    assert_eq!((grpc.status.code(), &*grpc.out), (Some(0), "hello\n"), "{}", grpc.err);
    let unknown = run(&call);
    assert!(unknown.err.contains("client certificate"), "{}", unknown.err);
}

#[test]
fn missing_certificates_are_named() {
    let ended = run("serve echo --listen tls://127.0.0.1:0 --cert /no/such.pem --key /no/key.pem");
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.err.contains("/no/such.pem"), "{}", ended.err);
}

#[test]
fn statistics_are_told_while_something_happens() {
    let server = Ringway::start("serve echo --listen tcp://127.0.0.1:0 --cores 0 --stats 10ms");
    let address = server.line().replace("listening on tcp://", "");
    let mut client = std::net::TcpStream::connect(address).expect("it listens");
    let mut told = Vec::new();
    // The bytes may be told in a line after that of the connection.
    while !told.iter().any(|line: &String| !line.contains("in 0 receives/s")) {
        client.write_all(b"hello").expect("it reads");
        client.read_exact(&mut [0; 5]).expect("it answers");
        told.push(server.line());
    }
    assert!(told.iter().all(|line| line.starts_with("open 1, accepted ")), "{told:?}");
    drop(client);
    server.terminate();
    assert_eq!(server.wait().status.code(), Some(0));
}
