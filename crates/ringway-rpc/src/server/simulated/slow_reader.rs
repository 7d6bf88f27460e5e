//! Clients that read slowly, or write so: while their replies wait, the server reads none of their requests, and in the end it
//! gives them up.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::io::{Stream, StreamLimits};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, CoreHandle, sleep, timeout, uptime};
use ringway_wire::grpc::GrpcServer;
use ringway_wire::native::{Body, Client, ClientEvent, Config, Open};

use super::mutation::sessions::append;
use super::{SimServer, accept, listen};
use crate::call::codec::Codec;
use crate::call::method::{Kind, Method};
use crate::server::connection::ServerConnection;
use crate::server::settings::Settings;
use crate::service::{Methods, Service, ServiceDescriptor};

/// Calls at once, whose replies are longer than their requests by far.
const CALLS: usize = 1_000;
const REPLY: &[u8] = &[7; 4_000];
/// So many bytes come in each second.
const SOCKET: usize = 20_000;
/// Virtual time in which all replies are read.
const LIMIT: Duration = Duration::from_secs(1_000);

static SAY: Method = Method::new("slow.Reader/Say", Kind::Unary);

struct Talker;

impl Service for Talker {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &ServiceDescriptor { name: "slow.Reader", methods: &[], file_descriptor_set: None }
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::<Bytes>::raw();
        methods.unary(&SAY, raw, raw, async |_, _| Ok(Bytes::from_static(REPLY)));
    }
}

#[test]
fn a_client_whose_requests_are_not_read_is_not_taken_for_dead() {
    let config = SimConfig { socket_buffer_bytes: SOCKET, ..SimConfig::new(1) };
    Builder::simulate(config, async { timeout(LIMIT, run()).await.expect("in time") })
        .expect("it is never stuck");
}

/// A client by hand says `begin`, then a space again and again, with a pause before each and before each look at what
/// has come. Whether the server ends its connection within half an hour.
async fn tires(begin: Vec<u8>, pause: Duration) -> bool {
    let server = SimServer::new(Settings::default(), Talker);
    let (listener, address) = listen();
    let serving = server.serve(address);
    let peer = accept(&listener).await;
    peer.set_limits(StreamLimits { recv_high_water: 1, ..StreamLimits::default() }.into());
    let _pressure = peer.write(&begin);
    let reads = begin.starts_with(b"POST");
    while uptime() < Duration::from_secs(1_800) && !serving.is_finished() {
        sleep(pause).await;
        match reads {
            true if !matches!(peer.recv().await, Ok(Some(_))) => return true,
            true => {}
            false => drop(peer.write(b" ")),
        }
    }
    serving.is_finished()
}

#[test]
fn a_client_that_gets_on_by_a_byte_now_and_then_is_given_up() {
    let line = || br#"{"jsonrpc":"2.0","id":1,"#.to_vec();
    // As many requests as the socket takes: their replies are 4 MB.
    let post = b"POST /slow.Reader/Say HTTP/1.1\r\nhost: here\r\n\
        content-type: application/octet-stream\r\ncontent-length: 0\r\n\r\n";
    let posts = || post.repeat(1_000);
    let cases = [
        ("lines", line(), 29_000, true),
        ("lines", line(), 20, true),
        ("lines", line(), 5, false),
        ("answers", posts(), 29_000, true),
        ("answers", posts(), 800, true),
        ("answers", posts(), 200, false),
    ];
    for (what, begin, pause_ms, is_given_up) in cases {
        let config = SimConfig { socket_buffer_bytes: 64, ..SimConfig::new(1) };
        let tires = Builder::simulate(config, tires(begin, Duration::from_millis(pause_ms)));
        assert_eq!(tires.expect("not stuck"), is_given_up, "{what}, {pause_ms} ms");
    }
}

/// Sends some calls, and the bytes of `more` behind them.
fn call(peer: &Stream, machine: &mut Client, calls: usize, more: &[u8]) {
    for _ in 0..calls {
        let message = Some(Body::Copy(&[1; 40]));
        let open = Open { name: SAY.name(), message, end: true, ..Open::default() };
        machine.open(open).expect("room");
    }
    let mut said = Vec::new();
    machine.transmit(usize::MAX, &mut |out| append(&mut said, &out));
    said.extend_from_slice(more);
    let _pressure = peer.write(&said);
}

#[test]
fn a_client_that_broke_the_protocol_and_does_not_read_costs_its_core_no_turns() {
    let config = SimConfig { socket_buffer_bytes: SOCKET, ..SimConfig::new(1) };
    let work = async {
        let server = SimServer::new(Settings::default(), Talker);
        let (listener, address) = listen();
        let serving = server.serve(address);
        let peer = accept(&listener).await;
        let mut machine = Client::new(Config::default(), uptime());
        call(&peer, &mut machine, 100, &[0xFF; 64]);
        sleep(Duration::from_secs(5)).await;
        let polls = || CoreHandle::current().counters().polls;
        let before = polls();
        sleep(Duration::from_secs(10)).await;
        assert!(!serving.is_finished(), "its replies wait");
        assert!(polls() - before < 100, "{} polls in 10 s", polls() - before);
    };
    Builder::simulate(config, work).expect("it is never stuck");
}

/// A request over HTTP/2.
fn request(id: u32, block: &[u8]) -> Vec<u8> {
    const END_STREAM_AND_HEADERS: u8 = 1 | 4;
    let [.., len_high, len] = (block.len() as u32).to_be_bytes();
    [&[0, len_high, len, 1, END_STREAM_AND_HEADERS][..], &id.to_be_bytes(), block].concat()
}

/// Requests that are no calls cost more than their bytes do, so they are put off: the second hundreds wait here for a
/// client that does not read, since the refusals of calls between them are long.
#[test]
fn a_client_that_reads_nothing_is_given_up_though_its_requests_were_put_off() {
    const OTHERS: usize = 200;
    const CALLS: usize = 400;
    const GET: &[u8] = b"\x82\x84\x86\x01\x01a"; // `/` by http of `a`
    let name = [&b"/"[..], &[b'x'; 3_900]].concat();
    let path = [&b"\x44\x7f\xbe\x1d"[..], &name].concat(); // 3,901 bytes
    let first = [b"\x83\x86", &path[..], b"\x5f\x10application/grpc"].concat();
    let again = b"\x83\x86\xbf\xbe"; // the same, by the table
    let gets = || std::iter::repeat_n(GET, OTHERS);
    let calls = std::iter::once(&first[..]).chain(std::iter::repeat_n(&again[..], CALLS));
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for (at, block) in gets().chain(calls).chain(gets()).enumerate() {
        said.extend(request(2 * at as u32 + 1, block));
    }
    let config = SimConfig { socket_buffer_bytes: SOCKET, ..SimConfig::new(1) };
    let work = async move {
        let server = SimServer::new(Settings::default(), Talker);
        let (listener, address) = listen();
        let _serving = server.serve(address);
        let peer = accept(&listener).await;
        let _pressure = peer.write(&said);
        sleep(Duration::from_secs(1)).await;
        let all = server.core().expect("it serves").connections().all();
        let mut of_grpc = all.into_iter().filter_map(|it| it.into_any().downcast().ok());
        let connection: Rc<ServerConnection<GrpcServer>> = of_grpc.next().expect("one");
        assert!(connection.has_put_off() && connection.is_full(), "replies wait, and requests");
        sleep(Duration::from_secs(100)).await;
        assert!(connection.machine().poll_timeout().is_none(), "it did not answer a PING");
    };
    Builder::simulate(config, work).expect("it is never stuck");
}

async fn run() {
    let server = SimServer::new(Settings::default(), Talker);
    let (listener, address) = listen();
    let _serving = server.serve(address);
    let peer = accept(&listener).await;
    let mut machine = Client::new(Config::default(), uptime());
    let (mut opened, mut answered) = (0, 0);
    while answered < CALLS {
        while opened < CALLS && machine.capacity() > 0 {
            let message = Some(Body::Copy(&[1; 40]));
            let open = Open { name: SAY.name(), message, end: true, ..Open::default() };
            machine.open(open).expect("room");
            opened += 1;
        }
        let mut said = Vec::new();
        machine.transmit(usize::MAX, &mut |out| append(&mut said, &out));
        let _pressure = peer.write(&said);
        let view = peer.recv().await.expect("no reset").expect("the server still serves");
        let mut input = &view[..];
        while let Some(event) = machine.receive(&mut input, uptime()).expect("a good server") {
            answered += usize::from(matches!(event, ClientEvent::Response { status: 0, .. }));
        }
        sleep(Duration::from_secs(1)).await;
    }
}
