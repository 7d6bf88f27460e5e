//! Settings of a server, and those that it rejects.

use std::sync::mpsc;
use std::time::Duration;

use ringway_rpc::{Client, Code, Methods, Server, Service, ServiceDescriptor, ServingStatus};

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end, eventually, socket_addr, wait};

fn bind() -> Server {
    Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1)
}

/// Returns the error of a server that does not start.
#[track_caller]
fn refused(server: Server) -> String {
    server.start().expect_err("it does not start").to_string()
}

#[test]
fn settings_that_the_protocol_forbids_are_rejected_at_the_start() {
    let streams = "in_flight_per_connection_max";
    for (server, setting, value) in [
        (bind().in_flight_per_connection_max(0), streams, "0"),
        (bind().in_flight_per_connection_max(524_289), streams, "524289"),
        (bind().in_flight_max(0), "in_flight_max", "0"),
        (bind().message_bytes_max(1 << 31), "message_bytes_max", "2147483648"),
    ] {
        let error = refused(server);
        assert!(error.contains(setting) && error.contains(value), "{error}");
    }
    let most = bind().in_flight_per_connection_max(524_288).message_bytes_max((1 << 31) - 1);
    let most = most.unread_bytes_max(1 << 31);
    let handle = most.service(Echo::default()).start().expect("within the ranges");
    let mut caller = Caller::connect(socket_addr(&handle));
    assert_eq!(caller.call("echo.Echo/Say", b"?").ok(), "?");
    end(handle);
}

#[test]
fn client_settings_that_the_protocol_forbids_are_rejected() {
    let builder = || Client::builder().address("tcp://127.0.0.1:9");
    for (builder, setting) in [
        (builder().message_bytes_max(1 << 31), "message_bytes_max is 2147483648"),
        (builder().connections(1_025), "connections is 1025"),
        (builder().connections_max(usize::MAX), "connections_max is 18446744073709551615"),
    ] {
        let status = builder.build().expect_err("out of range");
        assert!(status.is_invalid_argument(), "{status}");
        assert!(status.message().contains(setting), "{status}");
    }
    builder()
        .message_bytes_max((1 << 31) - 1)
        .connections(1_024)
        .build()
        .expect("within the ranges");
}

/// A service without methods.
struct Named(&'static ServiceDescriptor);

static HEALTH: ServiceDescriptor =
    ServiceDescriptor { name: "grpc.health.v1.Health", methods: &[], file_descriptor_set: None };

impl Service for Named {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.0
    }

    fn register(&self, _: &mut Methods) {}
}

#[test]
fn two_services_of_one_name_are_rejected_at_the_start() {
    let error = refused(bind().service(Echo::default()).service(Echo::default()));
    assert!(error.contains("echo.Echo"), "{error}");
    let error = refused(bind().service(Named(&HEALTH)));
    assert!(error.contains("grpc.health.v1.Health"), "{error}");
}

#[test]
fn health_service_works_with_a_shutdown_hook() {
    let (tell, told) = mpsc::channel();
    let handle = serve(&Echo::default(), |server| {
        let health = server.health();
        server.net(|net| {
            net.on_shutdown(move || {
                tell.send(health.of("echo.Echo")).expect("the test waits");
            })
        })
    });
    handle.shutdown();
    let health = told.recv_timeout(LIMIT).expect("it is told");
    assert_eq!(health, Some(ServingStatus::NotServing), "clients have been told before");
    wait(handle);
}

#[test]
fn last_drain_timeout_counts_whichever_way_it_was_set() {
    let (short, long) = (Duration::from_millis(10), LIMIT * 10);
    for set in [
        |server: Server, short, _| server.net(|net| net.drain_timeout(short)),
        |server: Server, short, long| {
            server.drain_timeout(long).net(|net| net.drain_timeout(short))
        },
        |server: Server, short, long| {
            server.net(|net| net.drain_timeout(long)).drain_timeout(short)
        },
    ] {
        let handle = serve(&Echo::default(), |server| set(server, short, long));
        let mut caller = Caller::connect(socket_addr(&handle));
        let hangs = caller.open("echo.Echo/Hang", b"");
        eventually("it runs", || handle.stats().in_flight == 1);
        handle.shutdown();
        assert_eq!(caller.answer(hangs).code, Code::Unavailable);
        caller.closed();
        wait(handle);
    }
}

#[test]
fn calls_that_the_connection_refuses_are_counted() {
    let handle = serve(&Echo::default(), |server| server.in_flight_per_connection_max(2));
    let mut caller = Caller::connect(socket_addr(&handle));
    // All before the server's settings have arrived.
    let calls: Vec<_> = (0..7).map(|_| caller.open("echo.Echo/Hang", b"")).collect();
    for call in &calls[2..] {
        let answer = caller.answer(*call);
        assert!(answer.code == Code::Unavailable && answer.refused, "{answer:?}");
    }
    eventually("they are counted", || handle.stats().refused == 5);
    handle.abort();
    wait(handle);
}
