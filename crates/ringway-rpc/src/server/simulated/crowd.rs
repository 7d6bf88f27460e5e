//! Many connections that send more than a core takes in at once, and one whose single call comes last.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::io::Stream;
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, sleep, timeout, uptime};
use ringway_wire::native::{Body, Client, Config, Open};

use super::mutation::sessions::append;
use super::{SimServer, accept, listen};
use crate::call::codec::Codec;
use crate::call::method::{Kind, Method};
use crate::limits;
use crate::server::settings::Settings;
use crate::service::{Methods, Service, ServiceDescriptor};

const ATTACKERS: usize = 32;
/// Calls of each attacker: together more bytes than a core takes in at once.
const CALLS: usize = 90;
const MESSAGE: &[u8] = &[7; 10 * 1_024];
const GOOD: &[u8] = b"good";

static SAY: Method = Method::new("crowd.Echo/Say", Kind::Unary);

/// Counts the calls that ran, and remembers how many had when the good one did.
#[derive(Default)]
struct Ran {
    calls: Cell<usize>,
    before_good: Cell<Option<usize>>,
}

thread_local! {
    static RAN: Rc<Ran> = Rc::default();
}

struct Echo;

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &ServiceDescriptor { name: "crowd.Echo", methods: &[], file_descriptor_set: None }
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::<Bytes>::raw();
        methods.unary(&SAY, raw, raw, async |_, message: Bytes| {
            RAN.with(|ran| {
                if message == GOOD {
                    ran.before_good.set(Some(ran.calls.get()));
                }
                ran.calls.set(ran.calls.get() + 1);
            });
            Ok(Bytes::new())
        });
    }
}

#[test]
fn a_single_call_does_not_wait_until_a_crowd_has_been_taken_in() {
    let steady = Duration::from_micros(100);
    let config = SimConfig {
        socket_buffer_bytes: 2 * CALLS * MESSAGE.len(),
        latency_min: steady,
        latency_max: steady,
        ..SimConfig::new(1)
    };
    let limit = Duration::from_secs(100);
    Builder::simulate(config, async move { timeout(limit, run()).await.expect("in time") })
        .expect("it is never stuck");
}

async fn run() {
    let server = SimServer::new(Settings::default(), Echo);
    let (listener, address) = listen();
    let mut peers = Vec::new();
    for _ in 0..=ATTACKERS {
        let _serving = server.serve(address);
        let peer = accept(&listener).await;
        let mut machine = Client::new(Config::default(), uptime());
        say(&peer, &mut machine, MESSAGE, 1); // the server knows the protocol and the method
        peers.push((peer, machine));
    }
    sleep(Duration::from_secs(1)).await;
    let ran = RAN.with(Rc::clone);
    let warm = ran.calls.get();
    assert_eq!(warm, ATTACKERS + 1);
    for (attacker, (peer, machine)) in peers.iter_mut().enumerate() {
        match attacker {
            ATTACKERS => say(peer, machine, GOOD, 1),
            _ => say(peer, machine, MESSAGE, CALLS),
        }
    }
    while ran.calls.get() < warm + ATTACKERS * CALLS + 1 {
        sleep(Duration::from_millis(1)).await;
    }
    let before = ran.before_good.get().expect("it ran") - warm;
    // What the core takes in at once, and one buffer of each that has not had its share.
    let most = limits::INTAKE_BYTES_PER_CORE_TURN + ATTACKERS * 20 * 1_024;
    assert!(before * MESSAGE.len() <= most, "{before} calls ran before it");
}

/// Sends some calls at once, and leaves their replies unread.
fn say(peer: &Stream, machine: &mut Client, message: &'static [u8], calls: usize) {
    for _ in 0..calls {
        let message = Some(Body::Copy(message));
        let open = Open { name: SAY.name(), message, end: true, ..Open::default() };
        machine.open(open).expect("room");
    }
    let mut said = Vec::new();
    machine.transmit(usize::MAX, &mut |out| append(&mut said, &out));
    let _pressure = peer.write(&said);
}
