//! Replies that come long after anything else has: they are not late because of that.

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

/// Longer than a reply may stand still.
const WORK: Duration = Duration::from_secs(1_000);
/// The time after which either end looks whether the other is there.
const SILENCE: Duration = Duration::from_secs(3_600);
/// More than a client takes at once.
const REPLY: &[u8] = &[7; 300_000];

static WORKS: Method = Method::new("late.Reply/Work", Kind::Unary);

struct Worker;

impl Service for Worker {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &ServiceDescriptor { name: "late.Reply", methods: &[], file_descriptor_set: None }
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::<Bytes>::raw();
        methods.unary(&WORKS, raw, raw, async |_, _| {
            sleep(WORK).await;
            Ok(Bytes::from_static(REPLY))
        });
    }
}

#[test]
fn a_long_reply_after_a_long_silence_reaches_its_client() {
    let work = async {
        let mut settings = Settings::default();
        settings.native.ping_after = SILENCE;
        let server = SimServer::new(settings, Worker);
        let (listener, address) = listen();
        let _serving = server.serve(address);
        let peer = accept(&listener).await;
        let config = Config { ping_after: SILENCE, ..Config::default() };
        let mut machine = Client::new(config, uptime());
        let message = Some(Body::Copy(b"go"));
        let open = Open { name: WORKS.name(), message, end: true, ..Open::default() };
        machine.open(open).expect("room");
        let (status, len) = loop {
            let mut said = Vec::new();
            machine.transmit(usize::MAX, &mut |out| append(&mut said, &out));
            let _pressure = peer.write(&said);
            let view = timeout(2 * WORK, peer.recv()).await.expect("in time");
            let view = view.expect("no reset").expect("it is answered");
            let mut input = &view[..];
            let mut answer = None;
            while let Some(event) = machine.receive(&mut input, uptime()).expect("sound") {
                if let ClientEvent::Response { status, message, .. } = event {
                    answer = Some((status, message.map_or(0, |message| message.len())));
                }
            }
            if let Some(answer) = answer {
                break answer;
            }
        };
        assert_eq!((status, len), (0, REPLY.len()));
        assert_eq!(server.shared.stats().stalled, 0);
    };
    Builder::simulate(SimConfig::new(1), work).expect("it is never stuck");
}
