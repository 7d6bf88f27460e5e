//! Bodies in foreign memory: no machine drops one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use ringway_wire::grpc::{ClientConfig, GrpcClient};
use ringway_wire::http2::{Body, ErrorCode, Http2Client, NewRequest};
use ringway_wire::native::{Client, Config, Open};

use crate::support::http2::{NOW, REQUEST, client};

/// The end of a machine or of its stream.
type End<M, S> = fn(&mut M, S);

const BODIES: usize = 5;

#[derive(Default, Clone)]
struct Drops(Arc<AtomicUsize>);

struct Owner(Vec<u8>, Drops);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drops {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Some are written at once, and the others wait for credit.
    fn send_all(&self, mut send: impl FnMut(Body<'_>)) {
        for _ in 0..BODIES {
            let body = Bytes::from_owner(Owner(vec![7; 30_000], self.clone()));
            send(Body::Shared(body.clone()));
        }
        assert_eq!(self.count(), 0, "all of them are kept");
    }

    /// At least this many are given up, and end where the caller drops them.
    fn end_with(&self, discarded: Vec<Bytes>, least: usize) {
        assert_eq!(self.count(), 0, "the machine drops none");
        assert!(discarded.len() >= least, "{} of {least} are given up", discarded.len());
        let given_up = discarded.len();
        drop(discarded);
        assert_eq!(self.count(), given_up);
    }
}

#[test]
fn the_native_machine_gives_bodies_up() {
    let ends: [(End<Client, _>, usize); 3] = [
        (|client, stream| client.cancel(stream, 1, ""), 1),
        (|client, _| _ = client.receive(&mut &[0xff; 64][..], NOW), 1),
        (|client, _| client.discard_output(), BODIES),
    ];
    for (end, least) in ends {
        let (mut client, drops) = (Client::new(Config::default(), NOW), Drops::default());
        let stream = client.open(Open::default()).expect("room");
        drops.send_all(|body| _ = client.send(stream, body, false).expect("open"));
        end(&mut client, stream);
        drops.end_with(client.take_discarded(), least);
    }
}

#[test]
fn the_machine_of_http2_gives_bodies_up() {
    let ends: [(End<Http2Client, _>, usize); 3] = [
        (|client, stream| client.reset(stream, ErrorCode::CANCEL), 1),
        (|client, _| _ = client.receive(&mut &[0xff; 64][..], NOW), BODIES),
        (|client, _| client.discard_output(), BODIES),
    ];
    for (end, least) in ends {
        let (mut client, drops) = (client(), Drops::default());
        let request = NewRequest { head: REQUEST, ..NewRequest::default() };
        let stream = client.open(request).expect("room");
        drops.send_all(|body| _ = client.send(stream, &[], body, false).expect("open"));
        end(&mut client, stream);
        drops.end_with(client.take_discarded(), least);
    }
}

#[test]
fn the_client_of_grpc_gives_bodies_up() {
    let ends: [(End<GrpcClient, _>, usize); 2] = [
        (|client, stream| client.cancel(stream, 1, ""), 1),
        (|client, _| client.discard_output(), BODIES),
    ];
    for (end, least) in ends {
        let mut client = GrpcClient::new(ClientConfig::new("example.org:50051"), NOW);
        let drops = Drops::default();
        let call = Open { method: 1, name: "a.B/C", ..Open::default() };
        let stream = client.open(call).expect("room");
        drops.send_all(|body| _ = client.send(stream, body, false).expect("open"));
        end(&mut client, stream);
        drops.end_with(client.take_discarded(), least);
    }
}
