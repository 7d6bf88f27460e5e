//! Streams that every server offers, when it ends: they do not hold it up.

use std::io::{Read, Write};
use std::time::Duration;

use ringway_rpc::{Code, ServerHandle};

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::grpc_caller::GrpcCaller;
use crate::support::web_caller::{as_chunk, connect, frame, head, read_until};
use crate::support::{socket_addr, wait};

/// A server whose drain lasts as long as its calls.
fn serve_patiently() -> ServerHandle {
    serve(&Echo::default(), |server| server.drain_timeout(Duration::MAX))
}

#[test]
fn a_watch_of_health_ends_with_the_drain_after_it_has_told_the_last_change() {
    let handle = serve_patiently();
    let mut native = Caller::connect(socket_addr(&handle));
    let mut grpc = GrpcCaller::connect(socket_addr(&handle));
    let protobuf = |open: &mut ringway_wire::native::Open<'_>| open.codec = 1;
    let watch = native.open_with("grpc.health.v1.Health/Watch", Some(b""), true, protobuf);
    assert_eq!(native.message(watch).expect("it serves"), [8, 1][..]);
    let watched = grpc.open("grpc.health.v1.Health/Watch", b"");
    grpc.until("it is told what is so", |came| {
        came.get(&watched.id()).is_some_and(|it| it.messages().len() == 1)
    });
    handle.shutdown();
    assert_eq!(native.message(watch).expect("it does not serve any more"), [8, 2][..]);
    assert_eq!(native.answer(watch).code, Code::Ok);
    let answer = grpc.answer(watched);
    assert_eq!(
        (answer.status(), answer.messages().last().map(|it| it.to_vec())),
        ((0, ""), Some(vec![8, 2]))
    );
    drop((native, grpc));
    wait(handle);
}

#[test]
fn open_reflection_ends_with_the_drain() {
    let handle = serve_patiently();
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let streams = ["v1", "v1alpha"].map(|version| {
        let method = format!("grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let stream = caller.open_with(&method, &[], &[], false);
        caller.send(stream, &[7 << 3 | 2, 1, b'*'], false);
        caller.until("it is answered", |came| {
            came.get(&stream.id()).is_some_and(|it| it.messages().len() == 1)
        });
        stream
    });
    handle.shutdown();
    for stream in streams {
        assert_eq!(caller.answer(stream).status(), (0, ""));
    }
    drop(caller);
    wait(handle);
}

#[test]
fn they_end_over_connect_as_well() {
    let handle = serve_patiently();
    let mut watch = connect(&handle);
    let fields = "content-type: application/connect+json\r\ntransfer-encoding: chunked\r\n";
    let open = |method: &str, message: &[u8]| {
        let head = head("POST", method, fields).into_bytes();
        [head, as_chunk(&frame(0, message))].concat()
    };
    watch.write_all(&open("/grpc.health.v1.Health/Watch", b"{}")).expect("sent");
    watch.write_all(b"0\r\n\r\n").expect("sent");
    read_until(&mut watch, b"SERVING");
    let mut reflection = connect(&handle);
    let method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let proto = open(method, &[7 << 3 | 2, 1, b'*']);
    let proto = String::from_utf8(proto).expect("ASCII").replace("connect+json", "connect+proto");
    reflection.write_all(proto.as_bytes()).expect("sent");
    read_until(&mut reflection, b"echo.Echo");
    handle.shutdown();
    for mut socket in [watch, reflection] {
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).expect("an end");
        let rest = String::from_utf8_lossy(&rest);
        assert!(rest.contains("{}") && !rest.contains("error"), "it ends in order: {rest}");
    }
    wait(handle);
}
