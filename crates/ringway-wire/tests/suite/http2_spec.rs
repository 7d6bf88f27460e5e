//! The server's machine against `h2spec`, which runs all of its cases over loopback.
//!
//! `go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible` puts it where this looks. A
//! machine without it has nothing to check here, and says so.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use ringway_wire::http2::{Body, Event, Http2Config, Http2Server, Line, Piece};

use crate::support::http2::{output, vocabulary};

#[test]
fn h2spec_has_nothing_to_say_against_the_server() {
    let Some(program) = find("h2spec") else {
        println!("skipped: no h2spec in PATH or in the folders of Go");
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let mut spec = Command::new(program);
    // h2spec makes a block of five fields that is too long for a frame, which it assumes to hold 16 KiB.
    spec.args(["--max-header-length", "16000"]);
    spec.args(["--host", "127.0.0.1", "--port", &port, "--path", "/", "--strict"]);
    let report = spec.output().expect("h2spec runs");
    let text = String::from_utf8_lossy(&report.stdout);
    let summary = text.lines().rev().find(|line| line.contains("tests,")).unwrap_or_default();
    println!("{summary}");
    assert!(report.status.success() && summary.contains(" 0 failed"), "{text}");
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let go = std::env::var_os("GOPATH").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go"));
    let bins = [go, home].into_iter().flatten().map(|dir| dir.join("bin"));
    std::env::split_paths(&path).chain(bins).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Answers each request that has ended, until the peer or the machine ends the connection.
fn serve(mut stream: TcpStream) {
    let began = Instant::now();
    let mut server = Http2Server::new(Http2Config::default(), vocabulary(), began.elapsed());
    let (mut buffer, mut lens) = ([0; 16 << 10], BTreeMap::new());
    loop {
        if stream.write_all(&output(&mut server, usize::MAX)).is_err() {
            return;
        }
        let Ok(len @ 1..) = stream.read(&mut buffer) else { return };
        let mut input = &buffer[..len];
        loop {
            match server.receive(&mut input, began.elapsed()) {
                Ok(Some(event)) => answer(&mut server, event, &mut lens),
                Ok(None) => break,
                Err(_) => return leave(stream, &output(&mut server, usize::MAX)),
            }
        }
    }
}

/// GOAWAY is the last that the peer hears. What it still sends is read: a close before that would be a reset,
/// which may overtake the GOAWAY.
fn leave(mut stream: TcpStream, go_away: &[u8]) {
    let sent = stream.write_all(go_away).and_then(|()| stream.shutdown(Shutdown::Write));
    if sent.is_ok() {
        let _ended_either_way = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

fn answer(server: &mut Http2Server, event: Event<'_>, lens: &mut BTreeMap<u32, usize>) {
    let (stream, data, end) = match event {
        Event::Head { stream, data, end } | Event::Data { stream, data, end } => {
            (stream, data, end)
        }
        Event::Trailers { stream } => (stream, Piece::EMPTY, true),
        Event::Reset { stream, .. } | Event::Failed { stream, .. } => {
            lens.remove(&stream.id());
            return server.let_go(stream);
        }
        _ => return,
    };
    *lens.entry(stream.id()).or_default() += data.len();
    server.taken(stream, data.len());
    if end {
        let text = format!("{} bytes came", lens.remove(&stream.id()).unwrap_or_default());
        let head = [Line::Static(8)];
        server.respond(stream, &head, &[], Body::Copy(text.as_bytes()), &[]).expect("open");
    }
}
