//! In the steady state, a call costs the machines of HTTP/2 no allocation.
//!
//! `RINGWAY_BATCHES` repeats the batches, and `RINGWAY_ROLE=server` replays the client's bytes, or
//! `RINGWAY_ROLE=grpc` for a server of gRPC, for a count of instructions: run it with two numbers under
//! callgrind and take the difference.

use std::sync::Arc;
use std::time::Duration;

use ringway_wire::grpc::{
    CallHead, ClientConfig, ContentType, GrpcClient, GrpcServer, Messages, ReplyHead, RequestNames,
    ResponseNames, ServerConfig, TimeoutText, lines, prefix,
};
use ringway_wire::http2::{
    Body, Event, Http2Client, Http2Config, Http2Server, Line, NewRequest, Outgoing, Vocabulary,
};
use ringway_wire::native::{ClientEvent, Open, Reply, ServerEvent};

use crate::support::allocations_of;
use crate::support::alone::alone;
use crate::support::http2::{NOW, PREFACE, SETTINGS, WINDOW_UPDATE, frame};

/// Calls in flight.
const BATCH: usize = 64;

const PATH: &[u8] = b"/echo.Echo/Say";

struct Ends {
    client: Http2Client,
    server: Http2Server,
    up: Vec<u8>,
    down: Vec<u8>,
}

fn append(wire: &mut Vec<u8>, out: Outgoing<'_>) {
    match out {
        Outgoing::Copy(part) => wire.extend_from_slice(part),
        Outgoing::Shared(part) => wire.extend_from_slice(&part),
    }
}

fn vocabulary() -> Arc<Vocabulary> {
    Arc::new(Vocabulary::new(RequestNames::new([("/echo.Echo/Say", 7)])))
}

fn new_server() -> Http2Server {
    Http2Server::new(Http2Config::default(), vocabulary(), NOW)
}

fn new_grpc_server() -> GrpcServer {
    let config = ServerConfig { http2: Http2Config::default().into(), max_message: 1_000 };
    GrpcServer::new(config, vocabulary(), NOW)
}

impl Ends {
    fn new() -> Self {
        let vocabulary = Arc::new(Vocabulary::new(ResponseNames));
        let client = Http2Client::new(Http2Config::client(), vocabulary, NOW);
        Self { client, server: new_server(), up: Vec::new(), down: Vec::new() }
    }

    /// Makes a batch of unary calls and echoes them. Returns how many were answered.
    fn unary(&mut self) -> usize {
        let body = [7; 47];
        let timeout = TimeoutText::new(Duration::from_millis(9_999));
        let head = [
            lines::POST,
            lines::HTTP,
            lines::path(0, PATH),
            lines::authority(b"localhost"),
            lines::TE,
            lines::content_type(ContentType::Plain),
            lines::timeout(&timeout),
        ];
        for _ in 0..BATCH {
            let prefix = prefix(body.len() as u32, false);
            let body = Some(Body::Copy(&body));
            let request = NewRequest { head: &head, prefix: &prefix, body, end: true };
            self.client.open(request).expect("room");
        }
        self.up.clear();
        self.client.transmit(usize::MAX, &mut |out| append(&mut self.up, out));
        self.down.clear();
        serve(&mut self.server, &self.up, &mut self.down);
        self.listen()
    }

    fn listen(&mut self) -> usize {
        let (mut messages, mut answered) = (Messages::new(1_000), 0);
        let mut input = &self.down[..];
        while let Some(event) = self.client.receive(&mut input, NOW).expect("well-formed") {
            match event {
                Event::Head { mut data, .. } => {
                    assert_eq!(ReplyHead::read(self.client.fields().head()).foreign, None);
                    let message = messages.next(&mut data).expect("well-formed").expect("whole");
                    answered += usize::from(message.bytes.len() == 47);
                }
                Event::Trailers { .. } => {
                    let reply = ReplyHead::read_trailers(self.client.fields().head());
                    assert_eq!(reply.status, Some(0));
                }
                _ => panic!("{event:?}"),
            }
        }
        answered
    }
}

/// A batch with a client of gRPC.
struct Calls {
    client: GrpcClient,
    server: Http2Server,
    up: Vec<u8>,
    down: Vec<u8>,
}

impl Calls {
    fn new() -> Self {
        let client = GrpcClient::new(ClientConfig::new("localhost"), NOW);
        Self { client, server: new_server(), up: Vec::new(), down: Vec::new() }
    }

    fn batch(&mut self) {
        for _ in 0..BATCH {
            let (timeout, message) = (Duration::from_millis(9_999), Some(Body::Copy(&[7; 47])));
            let (method, name) = (1, "echo.Echo/Say");
            let timeout = Some(timeout);
            let call = Open { method, name, timeout, message, end: true, ..Open::default() };
            self.client.open(call).expect("room");
        }
        self.up.clear();
        self.client.transmit(usize::MAX, &mut |out| append(&mut self.up, out));
        self.down.clear();
        serve(&mut self.server, &self.up, &mut self.down);
        let (mut input, mut messages, mut ended) = (&self.down[..], 0, 0);
        while let Some(event) = self.client.receive(&mut input, NOW).expect("well-formed") {
            match event {
                ClientEvent::Message { stream, message } => {
                    messages += usize::from(message.len() == 47);
                    self.client.taken(stream, 1);
                }
                ClientEvent::Response { status: 0, .. } => ended += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((messages, ended), (BATCH, BATCH));
    }
}

/// Echoes each call in `up`.
fn serve(server: &mut Http2Server, up: &[u8], down: &mut Vec<u8>) {
    let mut input = up;
    let mut messages = Messages::new(1_000);
    while let Some(event) = server.receive(&mut input, NOW).expect("well-formed") {
        let Event::Head { stream, mut data, end: true } = event else { panic!("{event:?}") };
        let call = CallHead::read(server.fields().head()).expect("a call");
        assert_eq!((call.method, call.timeout), (Some(7), Some(Duration::from_millis(9_999))));
        let message = messages.next(&mut data).expect("well-formed").expect("whole").bytes;
        let head = [lines::HTTP_OK, lines::content_type(call.content_type)];
        let prefix = prefix(message.len() as u32, false);
        let trailers: [Line<'_>; 1] = [lines::OK];
        server.respond(stream, &head, &prefix, Body::Copy(&message), &trailers).expect("open");
    }
    server.transmit(usize::MAX, &mut |out| append(down, out));
}

/// The same by the machine of gRPC.
fn serve_calls(server: &mut GrpcServer, up: &[u8], down: &mut Vec<u8>) {
    let mut input = up;
    while let Some(event) = server.receive(&mut input, NOW).expect("well-formed") {
        let ServerEvent::Request { stream, message: Some(message), end: true, .. } = event else {
            panic!("{event:?}")
        };
        let message = Some(Body::Copy(&message));
        server.respond(stream, Reply { status: 0, meta: &[], message });
    }
    server.transmit(usize::MAX, &mut |out| append(down, out));
}

/// Serves batches of bytes that one client has written, without a client.
fn server_alone(batches: usize, mut serve: impl FnMut(&[u8], &mut Vec<u8>)) {
    let mut ends = Ends::new();
    for _ in 0..3 {
        assert_eq!(ends.unary(), BATCH);
    }
    // The third batch's bytes, behind the first one's, with stream ids that go on.
    let mut up = ends.up.clone();
    let mut down = Vec::new();
    serve(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat(), &mut down);
    let mut first = Ends::new();
    first.unary();
    let all = std::mem::take(&mut first.up);
    // Behind preface, SETTINGS and the window.
    let start = PREFACE.len() + 9 + 4 * 6 + 13;
    serve(&all[start..], &mut down);
    // A client that reads gives windows back.
    let update = frame(WINDOW_UPDATE, 0, 0, &4_096_u32.to_be_bytes());
    for _ in 0..batches {
        down.clear();
        serve(&update, &mut down);
        serve(&up, &mut down);
        raise_ids(&mut up);
    }
}

fn raise_ids(up: &mut [u8]) {
    let mut at = 0;
    while at < up.len() {
        let id = u32::from_be_bytes([up[at + 5], up[at + 6], up[at + 7], up[at + 8]]);
        let len = u32::from_be_bytes([0, up[at], up[at + 1], up[at + 2]]) as usize;
        up[at + 5..at + 9].copy_from_slice(&(id + 2 * BATCH as u32).to_be_bytes());
        at += 9 + len;
    }
}

#[test]
fn calls_cost_no_allocation() {
    alone(|| {
        let batches = std::env::var("RINGWAY_BATCHES").ok().and_then(|count| count.parse().ok());
        let batches: usize = batches.unwrap_or(50);
        let mut server = new_server();
        let mut of_grpc = new_grpc_server();
        match std::env::var("RINGWAY_ROLE").as_deref() {
            Ok("server") => return server_alone(batches, |up, down| serve(&mut server, up, down)),
            Ok("grpc") => {
                return server_alone(batches, |up, down| serve_calls(&mut of_grpc, up, down));
            }
            _ => {}
        }
        let mut ends = Ends::new();
        for _ in 0..4 {
            assert_eq!(ends.unary(), BATCH);
        }
        let unary = allocations_of(|| {
            for _ in 0..batches {
                assert_eq!(ends.unary(), BATCH);
            }
        });
        assert_eq!(unary, 0, "unary calls");
        let mut calls = Calls::new();
        calls.batch();
        let unary = allocations_of(|| (0..batches).for_each(|_| calls.batch()));
        assert_eq!(unary, 0, "unary calls of a client of gRPC");
    });
}
