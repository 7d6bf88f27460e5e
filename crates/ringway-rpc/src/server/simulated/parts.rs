//! Connections whose first bytes come in parts.

use std::time::Duration;

use ringway_net::{Address, Client};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, sleep, spawn};
use ringway_wire::native::PREFACE;

use super::{SimServer, accept, listen};
use crate::server::settings::Settings;
use crate::service::{Methods, Service, ServiceDescriptor};

/// More than half as many as a core has receive buffers.
const PEERS: usize = 2_500;

struct Nothing;

impl Service for Nothing {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &ServiceDescriptor { name: "nothing", methods: &[], file_descriptor_set: None }
    }

    fn register(&self, _: &mut Methods) {}
}

#[test]
fn those_that_have_said_a_byte_keep_no_receive_buffers() {
    let work = async {
        let server = SimServer::new(Settings::default(), Nothing);
        let (listener, address) = listen();
        let served: Vec<_> = (0..PEERS).map(|_| server.serve(address)).collect();
        let mut peers = Vec::new();
        for _ in 0..PEERS {
            let peer = accept(&listener).await;
            let _pressure = peer.write(&PREFACE[..1]);
            peers.push(peer);
        }
        sleep(Duration::from_secs(1)).await;
        assert!(served.iter().all(|served| !served.is_finished()), "they all wait for more");
        // Messages may stay in their buffers while more than half of these are free.
        let address: Address = format!("tcp://{address}").parse().expect("an address");
        let opening = spawn(async move { Client::new(address).expect("of a peer").open().await });
        let peer = accept(&listener).await;
        let _pressure = peer.write(&[7; 8_000]);
        let mut connection = opening.await.expect("no panic").expect("it listens");
        let view = connection.recv().await.expect("a good connection").expect("it is open");
        assert!(view.len() == 8_000 && view.share(..).is_some(), "{} bytes", view.len());
    };
    Builder::simulate(SimConfig::new(1), work).expect("it is never stuck");
}
