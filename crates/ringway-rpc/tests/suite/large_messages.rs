//! Large messages that stay in their receive buffers.

use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use ringway_macros::service;
use ringway_rpc::{Client, Server, Status};

#[service(crate = "ringway_rpc")]
trait Keeper {
    /// Keeps a message and echoes it.
    async fn keep(&self, message: Bytes) -> Result<Bytes, Status>;
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Bytes>>>);

impl Keeper for Kept {
    async fn keep(&self, message: Bytes) -> Result<Bytes, Status> {
        self.0.lock().expect("no panic").push(message.clone());
        Ok(message)
    }
}

fn message(number: usize, len: usize) -> Bytes {
    (0..len).map(|at| (at * 7 + number * 13) as u8).collect::<Vec<_>>().into()
}

fn assert_whole(kept: &[Bytes], len: usize) {
    for (number, kept) in kept.iter().enumerate() {
        assert!(*kept == message(number, len), "message {number} of {len} bytes is as it was sent");
    }
}

/// More messages than a core has receive buffers, at both ends: kept buffers are not overwritten
/// and do not run out.
#[test]
fn kept_messages_stay_valid_and_buffers_do_not_run_out() {
    for (len, count) in [(16 << 10, 600), (64 << 10, 600), ((64 << 10) + 1, 100), (300_000, 60)] {
        let kept = Kept::default();
        let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
        let handle = server.service(KeeperServer::new(kept.clone())).start().expect("a server");
        let client = Client::connect(handle.addresses()[0].clone()).expect("a client");
        let keeper = KeeperClient::new(client);
        let replies: Vec<_> = (0..count)
            .map(|number| keeper.keep(message(number, len)).wait().expect("a reply"))
            .collect();
        let requests = std::mem::take(&mut *kept.0.lock().expect("no panic"));
        assert_eq!(requests.len(), count);
        let checked = thread::spawn(move || assert_whole(&requests, len)); // and dropped there
        assert_whole(&replies, len);
        checked.join().expect("all whole");
        drop(replies);
        let again = keeper.keep(message(1, len)).wait().expect("a reply");
        assert!(again == message(1, len));
    }
}

#[test]
fn error_of_a_too_long_message_has_its_length_and_the_setting() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
    let server = server.message_bytes_max(200_000).service(KeeperServer::new(Kept::default()));
    let handle = server.start().expect("a server");
    let client = Client::builder().address(&*handle.addresses()[0].to_string());
    let keeper = KeeperClient::new(client.message_bytes_max(100_000).build().expect("a client"));
    for (len, told) in [
        (
            200_001,
            "a message of 200001 bytes is longer than the server takes: its message_bytes_max is 200000",
        ),
        (
            100_001,
            "a message of 100001 bytes is longer than the client takes: its message_bytes_max is 100000",
        ),
        (
            9_000_000,
            "a message of 9000000 bytes is longer than the server takes: its message_bytes_max is 200000",
        ),
    ] {
        let status = keeper.keep(message(0, len)).wait().expect_err("it is too long");
        assert!(status.is_resource_exhausted(), "{status}");
        assert_eq!(status.message(), told);
    }
    assert_eq!(keeper.keep(message(0, 100_000)).wait().expect("as long as may be").len(), 100_000);
}

/// Its length would be taken for ten bytes.
#[test]
fn a_message_that_no_protocol_can_carry_fails_alone() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let server = server.service(KeeperServer::new(Kept::default()));
    let handle = server.start().expect("a server");
    let native = handle.addresses()[0].to_string();
    for address in [native.replace("tcp://", "grpc://"), native] {
        let keeper = KeeperClient::connect(&address).expect("a client");
        keeper.keep(message(1, 10)).wait().expect("a reply");
        let long = Bytes::from(vec![0; (1 << 32) + 10]); // never written to, so it takes no memory
        let status = keeper.keep(long).wait().expect_err("nobody takes it");
        assert!(status.is_resource_exhausted() && status.is_not_executed(), "{status:?}");
        assert!(status.message().contains("4294967306 bytes"), "{status}");
        keeper.keep(message(2, 10)).wait().expect("a reply");
    }
}

/// More than the messages of a connection that are not whole may have together by default.
#[test]
fn a_message_as_long_as_both_sides_take_is_echoed() {
    const LEN: usize = 80 << 20;
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
    let server = server.message_bytes_max(LEN as u32);
    let handle = server.service(KeeperServer::new(Kept::default())).start().expect("a server");
    let address = handle.addresses()[0].clone();
    let client = Client::builder().address(address).message_bytes_max(LEN as u32).build();
    let reply = KeeperClient::new(client.expect("a client")).keep(vec![7; LEN].into()).wait();
    assert_eq!(reply.expect("it is echoed").len(), LEN);
}

#[test]
fn a_message_that_no_core_could_keep_is_no_setting() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
    let refused = server.message_bytes_max(300 << 20).start().map(drop).expect_err("out of range");
    assert!(refused.to_string().contains("unread_bytes_max"), "{refused}");
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
    let server = server.message_bytes_max(300 << 20).unread_bytes_max(600 << 20);
    assert!(server.start().is_ok());
}
