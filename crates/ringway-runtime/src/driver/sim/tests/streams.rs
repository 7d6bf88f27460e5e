//! Connected streams: half-close, resets, full buffers, want of receive buffers.

use super::lab::Lab;
use crate::driver::sim::SimConfig;
use crate::driver::{Driver, Event, Key, RecvClass, RecvEnd, Wait};

/// The bytes and the end that `key` was told of.
fn heard(events: &[Event], of: Key) -> (Vec<u8>, Option<RecvEnd>) {
    let mut bytes = Vec::new();
    let mut ended = None;
    for event in events {
        match event {
            Event::Received { key, data } if *key == of => bytes.extend_from_slice(data),
            Event::RecvEnded { key, end } if *key == of => ended = Some(*end),
            _ => {}
        }
    }
    (bytes, ended)
}

fn sent(events: &[Event], of: Key) -> Option<(usize, i32)> {
    events.iter().find_map(|event| match event {
        Event::Sent { key, bytes, errno, .. } if *key == of => Some((*bytes, *errno)),
        _ => None,
    })
}

#[test]
fn a_half_close_ends_one_direction_only() {
    let mut lab = Lab::new(SimConfig::new(1));
    let (client, server) = lab.pair();
    lab.recv_start(server, RecvClass::Message);
    lab.recv_start(client, RecvClass::Message);
    lab.send(client, "question");
    lab.shutdown_write(client);
    assert_eq!(heard(&lab.settle(), server), (b"question".to_vec(), Some(RecvEnd::Eof)));
    lab.send(server, "answer");
    assert_eq!(heard(&lab.settle(), client), (b"answer".to_vec(), None));
    lab.send(client, "too late");
    assert_eq!(sent(&lab.settle(), client), Some((0, libc::EPIPE)));
    lab.close(server);
    assert_eq!(heard(&lab.settle(), client), (vec![], Some(RecvEnd::Eof)));
    lab.close(client);
    lab.settle();
    lab.finish();
}

#[test]
fn a_close_delivers_what_was_sent_before_it() {
    let mut lab = Lab::new(SimConfig::new(2));
    let (client, server) = lab.pair();
    lab.send(client, "last words");
    lab.run(1);
    lab.close(client);
    lab.settle();
    lab.recv_start(server, RecvClass::Message);
    assert_eq!(heard(&lab.settle(), server), (b"last words".to_vec(), Some(RecvEnd::Eof)));
    lab.close(server);
    lab.settle();
    lab.finish();
}

#[test]
fn an_abort_resets_the_peer() {
    let mut lab = Lab::new(SimConfig::new(3));
    let (client, server) = lab.pair();
    lab.recv_start(server, RecvClass::Message);
    lab.send(server, vec![1; 200_000]);
    lab.turn(Wait::Poll);
    lab.abort(client);
    let events = lab.settle();
    assert_eq!(heard(&events, server).1, Some(RecvEnd::Failed(libc::ECONNRESET)));
    assert_eq!(sent(&events, server).map(|(_, errno)| errno), Some(libc::ECONNRESET));
    lab.send(server, "anyone?");
    assert_eq!(sent(&lab.settle(), server), Some((0, libc::EPIPE)));
    let error = lab.sim.shutdown_write(server).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
    lab.close(server);
    lab.settle();
    lab.finish();
}

#[test]
fn a_close_with_bytes_unread_is_a_reset() {
    let mut lab = Lab::new(SimConfig::new(4));
    let (client, server) = lab.pair();
    lab.recv_start(server, RecvClass::Message);
    lab.send(server, "never read");
    lab.settle();
    lab.close(client);
    assert_eq!(heard(&lab.settle(), server).1, Some(RecvEnd::Failed(libc::ECONNRESET)));
}

#[test]
fn bytes_to_a_closed_end_come_back_as_a_reset() {
    let mut lab = Lab::new(SimConfig::new(5));
    let (client, server) = lab.pair();
    lab.close(client);
    lab.settle();
    lab.send(server, "hello?");
    assert_eq!(sent(&lab.settle(), server), Some((6, 0)), "nobody knows yet");
    lab.send(server, "hello??");
    assert_eq!(sent(&lab.settle(), server), Some((0, libc::ECONNRESET)));
}

#[test]
fn a_send_waits_for_the_reader() {
    let config = SimConfig { socket_buffer_bytes: 1_000, ..SimConfig::new(6) };
    let mut lab = Lab::new(config);
    let (client, server) = lab.pair();
    let bytes: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
    lab.send(client, bytes.clone());
    let mut events = lab.settle();
    assert_eq!(sent(&events, client), None, "there is no room for all");
    lab.recv_start(server, RecvClass::Message);
    events.extend(lab.settle());
    assert!(heard(&events, server).0 == bytes, "bytes lost or mixed up");
    let parts = events.iter().map(|event| match event {
        Event::Progress { bytes, .. } => *bytes,
        _ => 0,
    });
    let before_the_last: usize = parts.sum();
    assert!(before_the_last >= 9_000, "each part is told: {before_the_last}");
    assert_eq!(sent(&events, client), Some((10_000 - before_the_last, 0)));
    assert!(lab.sim.counters().short_sends >= 9);
}

#[test]
fn a_stop_keeps_bytes_for_the_next_receive() {
    let mut lab = Lab::new(SimConfig::new(7));
    let (client, server) = lab.pair();
    lab.recv_start(server, RecvClass::Message);
    lab.recv_stop(server);
    lab.recv_stop(server);
    assert_eq!(heard(&lab.settle(), server), (vec![], Some(RecvEnd::Stopped)));
    lab.recv_stop(server);
    lab.send(client, "kept");
    assert_eq!(heard(&lab.settle(), server), (vec![], None));
    lab.recv_start(server, RecvClass::Message);
    assert_eq!(heard(&lab.settle(), server), (b"kept".to_vec(), None));
}

#[test]
fn a_receive_without_a_buffer_parks_until_one_is_back() {
    let mut lab = Lab::with_buffers(SimConfig::new(8), 1);
    let (client, server) = lab.pair();
    lab.recv_start(server, RecvClass::Message);
    lab.send(client, "one");
    let held = lab.settle();
    lab.send(client, "two");
    assert_eq!(heard(&lab.settle(), server), (vec![], None));
    assert_eq!(lab.sim.counters().starved, 1);
    assert!(!lab.sim.peek());
    let error = lab.sim.turn(Wait::Forever, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("1 of them waiting for a buffer"), "{error}");
    drop(held);
    assert!(lab.sim.peek());
    assert_eq!(heard(&lab.turn(Wait::Poll), server).0, b"two");
    lab.close(client);
    lab.close(server);
    lab.settle();
    lab.finish();
}

#[test]
fn a_parked_receive_can_be_stopped_and_closed() {
    let mut lab = Lab::with_buffers(SimConfig::new(9), 1);
    let (client, server) = lab.pair();
    lab.recv_start(server, RecvClass::Message);
    lab.send(client, "one");
    let held = lab.settle();
    lab.send(client, "two");
    lab.settle();
    lab.recv_stop(server);
    assert_eq!(heard(&lab.settle(), server).1, Some(RecvEnd::Stopped));
    lab.recv_start(server, RecvClass::Message);
    lab.settle();
    lab.close(server);
    drop(held);
    let events = lab.settle();
    assert!(matches!(events[..], [Event::Closed { .. }]), "{events:?}");
    lab.close(client);
    lab.settle();
    lab.finish();
}

#[test]
fn unregistered_descriptors_are_closed_too() {
    let mut lab = Lab::new(SimConfig::new(10));
    let (listener, addr) = lab.listen();
    let client = lab.connect(&addr);
    let events = lab.run(2);
    let Event::Accepted { fd, .. } = events[0] else { panic!("{events:?}") };
    lab.recv_start(client, RecvClass::Message);
    lab.sim.close_unregistered(fd);
    assert_eq!(heard(&lab.settle(), client).1, Some(RecvEnd::Eof));
    assert!(lab.sim.adopt(3).is_err());
    lab.close(client);
    lab.close(listener);
    lab.settle();
    lab.finish();
}

/// Found by `broken_connections_are_errors_not_hangs`: a truncated stream looked complete.
#[test]
fn an_end_of_data_after_a_reset_does_not_hide_it() {
    let mut lab = Lab::new(SimConfig::new(11));
    let (client, server) = lab.pair();
    let fd = lab.fd(server);
    lab.send(client, "lost with the reset");
    lab.shutdown_write(client);
    lab.turn(Wait::Poll);
    lab.sim.on_reset(fd);
    lab.recv_start(server, RecvClass::Message);
    let reset = Some(RecvEnd::Failed(libc::ECONNRESET));
    assert_eq!(heard(&lab.settle(), server), (vec![], reset));
    lab.recv_start(server, RecvClass::Message);
    assert_eq!(heard(&lab.settle(), server), (vec![], reset));
}
