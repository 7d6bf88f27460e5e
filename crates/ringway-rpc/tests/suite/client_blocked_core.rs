//! Deadlines on threads although the core of the call is blocked. No other test of its process may
//! use the background core, because it is blocked.

use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    Call, Client, Codec, IncomingReply, Kind, Method, NextCall, OutgoingCall, Status,
};
use ringway_runtime::Runtime;

use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);

fn say(client: &Client) -> Call<Bytes> {
    client.unary(&SAY, Codec::raw(), Codec::raw(), Bytes::from_static(b"?"))
}

#[test]
fn waiting_thread_has_its_deadline_although_the_core_is_blocked() {
    let server = serve(&Echo::default(), |server| server);
    let address = server.addresses()[0].clone();
    let client = Client::connect(address.clone()).expect("a good address");
    let (tell, told) = mpsc::channel();
    let (let_go, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let block = async move |call: OutgoingCall, next: NextCall| -> Result<IncomingReply, Status> {
        tell.send(()).expect("the test waits");
        let _let_go = gate.lock().expect("no panic with it").recv_timeout(LIMIT);
        next.run(call).await
    };
    let blocker = Client::builder().address(address).intercept(block).build();
    let blocker = blocker.expect("a good address");
    let blocked = thread::spawn(move || say(&blocker).no_timeout().wait());
    told.recv_timeout(LIMIT).expect("the core is blocked");

    let mut awaited = say(&client).timeout(Duration::from_millis(20));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut awaited).poll(&mut cx).is_pending(), "its time has begun");
    let status = say(&client).timeout(Duration::from_millis(50)).wait().expect_err("nobody there");
    assert!(
        status.is_deadline_exceeded() && status.message().contains("echo.Echo/Say"),
        "{status}"
    );
    assert!(!blocked.is_finished(), "the core is blocked still");

    let_go.send(()).expect("it waits");
    assert_eq!(blocked.join().expect("no panic").expect("a reply"), "?");
    let status = awaited.wait().expect_err("its time was over before the core came to it");
    assert!(status.is_deadline_exceeded(), "{status}");
    assert_eq!(say(&client).wait().expect("a reply"), "?");
    end(server);
}

#[test]
fn intercepted_call_of_a_blocked_core_has_its_deadline_on_another_thread() {
    let runtime = Runtime::builder().threads(1).start().expect("a core");
    let stall = async |_: OutgoingCall, _: NextCall| pending().await;
    let client = Client::builder().address("tcp://127.0.0.1:1").intercept(stall).build();
    let client = client.expect("a good address");
    let (tell, told) = mpsc::channel();
    let (let_go, gate) = mpsc::channel::<()>();
    let blocked = runtime.cores()[0].spawn(async move || {
        let mut call = say(&client).timeout(Duration::from_millis(50));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut call).poll(&mut cx).is_pending());
        tell.send(call).expect("the test waits");
        gate.recv_timeout(LIMIT)
    });
    let call = told.recv_timeout(LIMIT).expect("it has begun");
    let status = call.wait().expect_err("nobody there");
    assert!(status.is_deadline_exceeded(), "{status}");
    let_go.send(()).expect("the core is blocked still");
    blocked.expect("room").wait().expect("no panic").expect("the call has ended before");
}
