//! Bytes of streams: all of them, once, in order.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    send, sendmsg, socketpair,
};

use super::Fixture;
use super::rig::{Endpoint, Rig, assert_same, pattern};
use crate::buf::Segment;
use crate::driver::{Driver, RecvClass, RecvEnd, SendBatch, Wait};
use crate::limits;

/// More than the kernel keeps of a stream whose receiver does not read.
const BLOCKING_BYTES: usize = 24 << 20;

pub(super) fn echo_of_many_sizes<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(client, RecvClass::Message);
    rig.recv_start(server, RecvClass::Message);
    let buffer = limits::MESSAGE_BUFFER_BYTES;
    let sizes = [1, 2, 63, 64, 1_000, 4_096, 16_384, buffer - 1, buffer, buffer + 1, 2 * buffer];
    for (at, size) in sizes.into_iter().chain([65_536, 100_003, 1 << 20]).enumerate() {
        let wanted = pattern(at, size);
        rig.send(client, vec![wanted.clone().into()]);
        let mut echoed = 0;
        while echoed < size {
            let part = rig.received(server, 1);
            echoed += part.len();
            rig.send_all(server, &part);
        }
        assert_eq!(rig.sent(client), (size, 0));
        assert_same(&rig.received(client, size), &wanted);
    }
    rig.close(client, false);
    rig.close(server, false);
}

/// What an echo server does: received buffers go out as they are.
pub(super) fn echo_of_views<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    rig.recv_start(client, RecvClass::Message);
    for round in 0..50 {
        let wanted = pattern(round, 16_384);
        rig.holds_views = true;
        rig.send_all(client, &wanted);
        let mut echoed = 0;
        while echoed < wanted.len() {
            rig.drive("bytes", |rig| !rig.of(server).views.is_empty());
            let views = std::mem::take(&mut rig.of(server).views);
            echoed += views.iter().map(|view| view.len()).sum::<usize>();
            rig.send(server, views.into_iter().map(Segment::from).collect());
            assert_eq!(rig.sent(server).1, 0);
        }
        rig.drive("the echo", |rig| {
            let views = &rig.of(client).views;
            views.iter().map(|view| view.len()).sum::<usize>() == wanted.len()
        });
        let got: Vec<u8> = rig.of(client).views.drain(..).flat_map(|view| view.to_vec()).collect();
        assert_same(&got, &wanted);
    }
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn sends_in_sequence<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    for round in 0..20 {
        rig.send_all(client, &pattern(round * 1_000, 1_000));
    }
    assert_same(&rig.received(server, 20_000), &pattern(0, 20_000));
    assert_eq!(rig.of(client).sent.len(), 20);
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn gathered_send<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    for segments in [2, 3, 63, 64, 65, 200, 1_024] {
        send_segments(rig, client, server, segments, 1_001);
    }
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn gathered_send_beyond_the_kernels_limit<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    for segments in [1_025, 3_000] {
        send_segments(rig, client, server, segments, 7);
    }
    rig.close(client, false);
    rig.close(server, false);
}

/// Sends segments of `bytes` each, every fifth of them empty.
fn send_segments<F: Fixture>(
    rig: &mut Rig<F>,
    from: Endpoint,
    to: Endpoint,
    segments: usize,
    bytes: usize,
) {
    let mut wanted = Vec::new();
    let mut batch = Vec::new();
    for at in 0..segments {
        let segment = pattern(at * 31, if at % 5 == 4 { 0 } else { bytes });
        wanted.extend_from_slice(&segment);
        batch.push(Segment::from(segment));
    }
    rig.send(from, batch);
    assert_same(&rig.received(to, wanted.len()), &wanted);
    assert_eq!(rig.sent(from), (wanted.len(), 0));
}

pub(super) fn bulk_receive<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Bulk);
    let wanted = pattern(5, 3 << 20);
    rig.send(client, vec![wanted.clone().into()]);
    assert_same(&rig.received(server, wanted.len()), &wanted);
    assert_eq!(rig.sent(client), (wanted.len(), 0));
    rig.close(client, false);
    rig.close(server, false);
}

/// Reads end early where a message carries descriptors; what stands behind it comes all the same.
pub(super) fn bytes_behind_passed_descriptors<F: Fixture>(rig: &mut Rig<F>) {
    if rig.driver.is_simulated() {
        return;
    }
    for polled_between in [false, true] {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (far, near) = pair.expect("descriptors are free");
        rig.driver.adopt(near.as_raw_fd()).expect("a socket of ours");
        let server = rig.endpoint(near.into_raw_fd());
        rig.recv_start(server, RecvClass::Message);
        rig.settle();
        let passed = [far.as_fd()];
        for round in 0..3 {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&passed)));
            let bytes = [IoSlice::new(b"with,")];
            let sent = sendmsg(&far, &bytes, &mut ancillary, SendFlags::empty());
            assert_eq!(sent, Ok(5), "round {round}");
            if polled_between {
                rig.settle();
            }
            assert_eq!(send(&far, b"behind;", SendFlags::empty()), Ok(7));
        }
        assert_eq!(rig.received(server, 36), b"with,behind;".repeat(3));
        rig.close(server, false);
    }
}

/// The same of an urgent mark, whose own byte is not part of the stream.
pub(super) fn bytes_behind_an_urgent_mark<F: Fixture>(rig: &mut Rig<F>) {
    if rig.driver.is_simulated() {
        return;
    }
    for polled_between in [false, true] {
        let (listener, addr) = rig.listen(&F::stream_addr());
        let far = std::net::TcpStream::connect(addr.as_socket().expect("inet")).expect("loopback");
        far.set_nodelay(true).expect("TCP");
        rig.accept_start(listener);
        let server = rig.accepted(listener);
        rig.recv_start(server, RecvClass::Message);
        rig.settle();
        for (bytes, flags) in [
            (&b"before,"[..], SendFlags::empty()),
            (b"!", SendFlags::OOB),
            (b"behind", SendFlags::empty()),
        ] {
            assert_eq!(send(&far, bytes, flags), Ok(bytes.len()));
            if polled_between {
                rig.settle();
            }
        }
        assert_eq!(rig.received(server, 13), b"before,behind");
        rig.close(server, false);
        rig.close(listener, false);
    }
}

pub(super) fn half_close<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(client, RecvClass::Message);
    let request = pattern(1, 300_000);
    rig.send(client, vec![request.clone().into()]);
    rig.recv_start(server, RecvClass::Message);
    assert_eq!(rig.sent(client), (request.len(), 0));
    rig.shutdown_write(client);
    assert_eq!(rig.recv_end(server), RecvEnd::Eof);
    assert_same(&rig.received(server, 0), &request);

    let reply = pattern(2, 300_000);
    rig.send_all(server, &reply);
    assert_same(&rig.received(client, reply.len()), &reply);
    assert!(rig.is_receiving(client), "the other direction goes on");
    rig.close(server, false);
    assert_eq!(rig.recv_end(client), RecvEnd::Eof);
    rig.close(client, false);
}

/// Everything sent before is delivered first, even what the kernel has not taken yet.
pub(super) fn shutdown_waits_for_the_batch<F: Fixture>(rig: &mut Rig<F>) {
    for len in [1, 100_000, BLOCKING_BYTES] {
        let (client, server) = rig.pair();
        let wanted = pattern(0, len);
        rig.send(client, vec![wanted.clone().into()]);
        rig.shutdown_write(client);
        rig.recv_start(server, RecvClass::Message);
        assert_eq!(rig.recv_end(server), RecvEnd::Eof);
        assert_same(&rig.received(server, 0), &wanted);
        assert_eq!(rig.sent(client), (len, 0));
        rig.close(client, false);
        rig.close(server, false);
    }
}

pub(super) fn eof_again_after_eof<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.shutdown_write(client);
    for _ in 0..3 {
        rig.recv_start(server, RecvClass::Message);
        assert_eq!(rig.recv_end(server), RecvEnd::Eof);
    }
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn recv_stop_loses_nothing<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    let wanted = pattern(9, BLOCKING_BYTES / 2);
    rig.send(client, vec![wanted.clone().into()]);
    let mut stops = 0;
    while rig.of(server).received.len() < wanted.len() {
        rig.recv_start(server, RecvClass::Message);
        let goal = (rig.of(server).received.len() + 300_000).min(wanted.len());
        rig.drive("bytes", |rig| rig.of(server).received.len() >= goal);
        rig.recv_stop(server);
        assert_eq!(rig.recv_end(server), RecvEnd::Stopped);
        stops += 1;
        // The rig fails the test if bytes or a second end came now.
        rig.settle();
    }
    assert!(stops > 1, "the stream was longer than one stop");
    assert_same(&rig.received(server, wanted.len()), &wanted);
    assert_eq!(rig.sent(client), (wanted.len(), 0));
    rig.close(client, false);
    rig.close(server, false);
}

/// Bytes that came before the start are received, whether or not a stop was in between.
pub(super) fn recv_stop_while_idle<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    for round in 0..5 {
        rig.recv_start(server, RecvClass::Message);
        if round % 2 == 0 {
            rig.settle();
        }
        rig.recv_stop(server);
        assert_eq!(rig.recv_end(server), RecvEnd::Stopped);
        rig.recv_stop(server);
        rig.send_all(client, b"late");
        rig.settle();
        rig.recv_start(server, RecvClass::Message);
        assert_eq!(rig.received(server, 4), b"late");
        rig.recv_stop(server);
        assert_eq!(rig.recv_end(server), RecvEnd::Stopped);
    }
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn blocked_send_completes_once<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    let wanted = pattern(4, BLOCKING_BYTES);
    let (first, second) = wanted.split_at(wanted.len() / 3);
    rig.send(client, vec![first.to_vec().into(), second.to_vec().into()]);
    rig.settle();
    assert_eq!(rig.of(client).sent, [], "nobody reads");
    assert!(!rig.of(client).progress.is_empty(), "a batch that waits has to say so");
    rig.recv_start(server, RecvClass::Bulk);
    assert_same(&rig.received(server, wanted.len()), &wanted);
    assert_eq!(rig.sent(client), (wanted.len(), 0));
    rig.settle();
    assert_eq!(rig.of(client).sent.len(), 1);
    rig.close(client, false);
    rig.close(server, false);
}

/// What a slow peer takes is told as it takes it, not when all is taken.
pub(super) fn a_slow_peer_makes_progress<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    let wanted = pattern(7, BLOCKING_BYTES);
    rig.send(client, vec![wanted.clone().into()]);
    let mut got = 0;
    while got < BLOCKING_BYTES / 2 {
        rig.recv_start(server, RecvClass::Message);
        let goal = got + BLOCKING_BYTES / 8;
        rig.drive("bytes", |rig| rig.of(server).received.len() >= goal);
        rig.recv_stop(server);
        assert_eq!(rig.recv_end(server), RecvEnd::Stopped);
        rig.settle();
        got = rig.of(server).received.len();
        let told: usize = rig.of(client).progress.iter().sum();
        let untold = got.saturating_sub(told);
        assert!(untold <= limits::SUBMISSION_BYTES_MAX, "{told} bytes were told of {got}");
    }
    rig.recv_start(server, RecvClass::Bulk);
    assert_same(&rig.received(server, wanted.len()), &wanted);
    assert_eq!(rig.sent(client), (wanted.len(), 0));
    rig.close(client, false);
    rig.close(server, false);
}

/// A send that the kernel cuts short must not keep back what is known of the others of its turn:
/// a driver that sleeps on that sleeps for ever once more is queued behind them.
pub(super) fn a_send_cut_short_holds_up_no_other<F: Fixture>(rig: &mut Rig<F>) {
    let (stuck, silent) = rig.pair();
    let (quick, reader) = rig.pair();
    for first_is_stuck in [true, false] {
        let (large, small) = (pattern(5, BLOCKING_BYTES), pattern(6, 64));
        let batch =
            |bytes: Vec<u8>, urgent| SendBatch { segments: vec![bytes.into()], to: None, urgent };
        if first_is_stuck {
            rig.send_batch(stuck, batch(large, true));
            rig.send_batch(quick, batch(small, false));
        } else {
            rig.send_batch(quick, batch(small, true));
        }
        let asleep = std::time::Instant::now();
        while rig.of(quick).is_sending() {
            rig.turn(Wait::AtMost(HANG));
        }
        assert!(asleep.elapsed() < HANG, "the driver slept on a send that was done");
    }
    rig.close(stuck, true);
    for endpoint in [silent, quick, reader] {
        rig.close(endpoint, false);
    }
}

/// Far above what a turn takes that has something to tell.
const HANG: std::time::Duration = std::time::Duration::from_secs(10);
