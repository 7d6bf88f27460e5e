//! A client that reads slowly: while its replies wait, the server reads none of its requests.

use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, sleep, timeout, uptime};
use ringway_wire::native::{Body, Client, ClientEvent, Config, Open};

use super::mutation::sessions::append;
use super::{SimServer, accept, listen};
use crate::call::codec::Codec;
use crate::call::method::{Kind, Method};
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
