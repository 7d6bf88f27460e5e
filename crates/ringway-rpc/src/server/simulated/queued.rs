//! Calls that wait in the queue of their method until their deadlines.

use std::time::Duration;

use ringway_runtime::{sleep, uptime};
use ringway_wire::native::{Body, Open, StreamId};

use super::left_over::{Peer, run};
use crate::call::status::Code;

const MS: Duration = Duration::from_millis(1);

/// Opens a call of a method that serves one call, and never ends it.
fn open(peer: &mut Peer, timeout: Option<Duration>) -> StreamId {
    let (name, message) = ("left.Over/Wait", Some(Body::Copy(b"wait")));
    let open = Open { name, message, end: true, timeout, ..Open::default() };
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
