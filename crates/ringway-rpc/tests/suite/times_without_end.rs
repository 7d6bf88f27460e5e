//! `Duration::MAX`, and every duration beyond what clocks can represent, means never: for every
//! setter of a duration, and for timeouts from clients.

use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Call, CallOptions, Client, Codec, Kind, Method, Server, ServerHandle};
use ringway_runtime::{block_on, timeout};
use ringway_wire::native::MetaWriter;

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end, socket_addr, wait};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary).idempotent();
static PATIENT: Method = Method::new("echo.Echo/Say", Kind::Unary).timeout_ms(u64::MAX);

fn say(client: &Client, method: &'static Method) -> Call<Bytes> {
    client.unary(method, Codec::raw(), Codec::raw(), Bytes::from_static(b"?"))
}

/// Checks that a server with these settings serves, and ends when all calls have ended.
#[track_caller]
fn serves(set: impl FnOnce(Server) -> Server) -> ServerHandle {
    let handle = serve(&Echo::default(), set);
    let mut caller = Caller::connect(socket_addr(&handle));
    assert_eq!(caller.call("echo.Echo/Say", b"?").ok(), "?");
    let waits = caller.open("echo.Echo/Late", b"20");
    assert_eq!(caller.answer(waits).ok(), "20", "the connection goes on");
    handle
}

#[test]
fn server_accepts_any_duration() {
    for time in [Duration::MAX, Duration::MAX / 2, Duration::from_secs(u64::MAX)] {
        end(serves(|server| server.keep_alive(time, time)));
        end(serves(|server| server.drain_timeout(time)));
        end(serves(|server| {
            server.net(|net| net.idle_timeout(time).lifetime(time).write_stall_timeout(Some(time)))
        }));
        let handle = serves(|server| server.drain_delay(time));
        handle.shutdown();
        let mut caller = Caller::connect(socket_addr(&handle));
        assert_eq!(caller.call("echo.Echo/Say", b"?").ok(), "?", "it goes on as before");
        handle.abort();
        wait(handle);
    }
}

#[test]
fn client_accepts_any_duration() {
    let handle = serve(&Echo::default(), |server| server);
    let address = handle.addresses()[0].clone();
    for time in [Duration::MAX, Duration::MAX / 2, Duration::from_secs(u64::MAX)] {
        let builder = Client::builder().address(address.clone()).connect_timeout(time);
        let builder = builder.keep_alive(time, time).options(CallOptions::new().timeout(time));
        let client = builder.build().expect("a good address");
        let calls = move || {
            let hedged = say(&client, &SAY).hedge();
            [say(&client, &SAY), say(&client, &SAY).timeout(time), say(&client, &PATIENT), hedged]
        };
        for call in calls() {
            assert_eq!(call.wait().expect("a reply"), "?", "from a thread");
        }
        let on_a_core = block_on(async move {
            for call in calls() {
                assert_eq!(timeout(LIMIT, call).await.expect("in time").expect("a reply"), "?");
            }
        });
        on_a_core.expect("a core");
    }
    end(handle);
}

#[test]
fn server_accepts_any_timeout_from_a_client() {
    let handle = serve(&Echo::default(), |server| server);
    let mut caller = Caller::connect(socket_addr(&handle));
    for name in ["echo.Echo/Say", "echo.Echo/Late", "echo.Echo/Limited"] {
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).timeout_us(u64::MAX);
        let stream = caller.open_with(name, Some(b"20"), true, |open| open.meta = &meta);
        assert_eq!(caller.answer(stream).ok(), "20", "{name}");
    }
    end(handle);
}
