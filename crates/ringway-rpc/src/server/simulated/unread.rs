//! A client that reads nothing, whose connection fails while its server makes room for others.

use std::time::Duration;

use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, sleep, timeout};
use ringway_wire::native::{PREFACE, RequestHead, Side};

use super::{SimServer, accept, listen, native};
use crate::server::settings::Settings;
use crate::service::{Methods, Service, ServiceDescriptor};

/// Requests of which a part has come: more than a client may be told of without reading it.
const PARTS: u32 = 20_000;
/// Virtual time in which the client would not be missed.
const LIMIT: Duration = Duration::from_secs(20);
/// The message goes on.
const MORE: u8 = 0x02;

struct Nothing;

impl Service for Nothing {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &ServiceDescriptor { name: "nothing", methods: &[], file_descriptor_set: None }
    }

    fn register(&self, _: &mut Methods) {}
}

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend([kind, flags, 0, 0]);
    bytes.extend(stream.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

fn part_of_request(slot: u32) -> Vec<u8> {
    let body = [&RequestHead::default().encode()[..], b"x"].concat();
    frame(0x10, MORE, slot << 12 | 1, &body)
}

#[test]
fn a_connection_that_fails_by_that_ends_without_another_byte_of_its_client() {
    let config = SimConfig { socket_buffer_bytes: 2_000, ..SimConfig::new(1) };
    Builder::simulate(config, run()).expect("it is never stuck");
}

async fn run() {
    let mut settings = Settings::default();
    settings.native.settings.max_streams = PARTS;
    let server = SimServer::new(settings, Nothing);
    let (listener, address) = listen();
    let serving = server.serve(address);
    let peer = accept(&listener).await;
    let _pressure = peer.write(&[&PREFACE[..], &frame(0x01, 0, 0, &[])].concat());
    let parts: Vec<_> = (0..PARTS).flat_map(part_of_request).collect();
    let _pressure = peer.write(&parts);
    peer.flushed().await.expect("the server reads");
    let core = server.core().expect("it serves");
    let connection = native(core.connections().all().remove(0));
    while connection.machine().in_flight() < PARTS as usize {
        sleep(Duration::from_millis(1)).await;
    }
    // As a core does that has no room; nothing is sent meanwhile.
    while connection.machine().end_largest(Side::Unread) {}
    assert!(connection.machine().in_flight() > 0, "it fails before all are ended");
    connection.wake();
    // It reads again, and says nothing.
    let reads = async { while peer.recv().await.expect("no reset").is_some() {} };
    timeout(LIMIT, reads).await.expect("the connection is closed");
    serving.await.expect("its task does not panic");
}
