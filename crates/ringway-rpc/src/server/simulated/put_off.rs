//! Streams of requests that come faster than their handlers, which compute, can be started.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, sleep, timeout, uptime};
use ringway_wire::native::{Body, Client, Config, Open};

use super::mutation::sessions::append;
use super::{SimServer, accept, listen, native};
use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::method::{Kind, Method};
use crate::limits;
use crate::server::core::ServerCore;
use crate::server::settings::Settings;
use crate::service::{Methods, Service, ServiceDescriptor};
use crate::stream::streaming::Streaming;

const CALLS: usize = 90;
const MESSAGE: &[u8] = &[7; 20 * 1_024];
/// Virtual time in which all calls have run.
const LIMIT: Duration = Duration::from_secs(60);

static CRUNCH: Method = Method::new("put.Off/Crunch", Kind::ClientStream);

thread_local! {
    static CORE: RefCell<Weak<ServerCore>> = const { RefCell::new(Weak::new()) };
    static RAN: Cell<usize> = const { Cell::new(0) };
    /// The most calls that waited when one ran.
    static WAITED_MAX: Cell<usize> = const { Cell::new(0) };
}

struct Off;

impl Service for Off {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &ServiceDescriptor { name: "put.Off", methods: &[], file_descriptor_set: None }
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::<Bytes>::raw();
        methods.client_stream(&CRUNCH, raw, raw, async |_: Context, _in: Streaming<Bytes>| {
            RAN.set(RAN.get() + 1);
            let core = CORE.with_borrow(Weak::upgrade);
            core.iter().for_each(use_up_the_turn);
            Ok(Bytes::new())
        });
    }
}

/// As a handler does that computes for long.
fn use_up_the_turn(core: &Rc<ServerCore>) {
    let until = core.last_look().max(core.now()) + limits::TURN_WORK;
    core.turn().spend(core.now(), Duration::ZERO, until);
    let connection = native(core.connections().all().remove(0));
    WAITED_MAX.set(WAITED_MAX.get().max(connection.deferred.borrow().len()));
}

#[test]
fn no_more_of_them_are_taken_in_than_a_turn_brings() {
    let config = SimConfig { socket_buffer_bytes: 2 * CALLS * MESSAGE.len(), ..SimConfig::new(1) };
    Builder::simulate(config, async { timeout(LIMIT, run()).await.expect("in time") })
        .expect("it is never stuck");
}

async fn run() {
    let server = SimServer::new(Settings::default(), Off);
    let (listener, address) = listen();
    let _serving = server.serve(address);
    let peer = accept(&listener).await;
    let mut machine = Client::new(Config::default(), uptime());
    let mut say = |calls| {
        for _ in 0..calls {
            let message = Some(Body::Copy(MESSAGE));
            let open = Open { name: CRUNCH.name(), message, end: true, ..Open::default() };
            machine.open(open).expect("room");
        }
        let mut said = Vec::new();
        machine.transmit(usize::MAX, &mut |out| append(&mut said, &out));
        let _pressure = peer.write(&said);
    };
    say(1);
    while RAN.get() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    CORE.replace(Rc::downgrade(&server.core().expect("it serves")));
    say(CALLS);
    while RAN.get() < CALLS + 1 {
        sleep(Duration::from_millis(1)).await;
    }
    let waited = WAITED_MAX.get() * MESSAGE.len();
    // What a connection takes in at once, twice: before it is full, and to notice that.
    assert!(waited <= 2 * limits::INTAKE_BYTES_PER_TURN, "{waited} bytes waited");
    assert!(waited > 0, "they came faster than they could be started");
}
