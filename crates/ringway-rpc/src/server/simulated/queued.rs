//! Calls that wait in the queue of their method until their deadlines.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::{sleep, spawn, uptime};
use ringway_wire::native::{Body, Open, RequestHead, StreamId};

use super::left_over::{Peer, Plain, run};
use super::{SimServer, native};
use crate::call::codec;
use crate::call::status::Code;
use crate::server::direct::{DirectCalls, DirectRequest};
use crate::server::settings::Settings;

const MS: Duration = Duration::from_millis(1);
const WAIT: &str = "left.Over/Wait";

/// Opens a call of a method that serves one call, and never ends it.
fn open(peer: &mut Peer, timeout: Option<Duration>) -> StreamId {
    let message = Some(Body::Copy(b"wait"));
    let open = Open { name: WAIT, message, end: true, timeout, ..Open::default() };
    let stream = peer.machine.open(open).expect("room");
    peer.flush();
    stream
}

#[test]
fn a_queued_call_is_answered_at_its_deadline_whatever_waits_in_front_of_it() {
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        open(&mut peer, None);
        peer.until("it runs", || peer.stats().in_flight == 1).await;
        let in_front = open(&mut peer, None);
        peer.until("it is queued", || peer.stats().in_flight == 2).await;
        sleep(10 * MS).await; // the queue's worker sleeps until it sheds that call
        let (late, soon) = (open(&mut peer, Some(60 * MS)), open(&mut peer, Some(20 * MS)));
        peer.until("they are queued", || peer.stats().in_flight == 4).await;
        let since = uptime();
        for (call, after) in [(soon, 20 * MS), (late, 60 * MS)] {
            assert_eq!(peer.answer(call).await, Code::DeadlineExceeded);
            let took = uptime() - since;
            assert!(took <= after + 2 * MS, "{took:?} instead of {after:?}");
        }
        assert_eq!(peer.stats().expired, 2);
        assert_eq!(peer.told(in_front).await, (Code::ResourceExhausted, true));
        peer.leave_calls().await;
    });
}

#[test]
fn requests_of_one_connection_have_one_share_of_the_queue_whoever_makes_their_calls() {
    run(async || {
        let settings = Settings { queue_room: 2, ..Settings::default() };
        let server = SimServer::new(settings, Plain);
        let mut crowd = Peer::of(Rc::clone(&server)).await;
        open(&mut crowd, None);
        crowd.until("it runs", || crowd.stats().in_flight == 1).await;
        let core = crowd.core();
        let mut single = Peer::of(Rc::clone(&server)).await;
        let first = open(&mut single, None);
        single.until("it is queued", || single.stats().in_flight == 2).await;
        let [connection, own] = [0, 1].map(|at| native(core.connections().all().remove(at)));
        // As each request over HTTP/2 does it that is no call of gRPC.
        let guests =
            [(); 2].map(|()| DirectCalls::of_site(Rc::clone(&core), Rc::clone(connection.site())));
        let method = core.method_index(WAIT).expect("it is served") as u32 + 1;
        let head = RequestHead { method, codec: codec::RAW, ..RequestHead::default() };
        let request = || {
            let message = Bytes::from_static(b"wait");
            DirectRequest { head, meta: Vec::new(), message, translation: None }
        };
        let calls = guests.each_ref().map(|guest| spawn(guest.call(request())));
        single.until("one is too many", || single.stats().shed == 1).await;
        assert!(
            own.calls.borrow_mut().is_waiting(first),
            "the crowd has taken the place of another client"
        );
        drop(calls);
    });
}
