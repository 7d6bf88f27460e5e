use super::*;
use crate::sync::testing::{Probe, Random};

#[test]
fn a_full_channel_makes_senders_wait_in_order() {
    let (sender, receiver) = bounded(1);
    let (first, second) = (Probe::new(), Probe::new());
    sender.try_send(0).expect("room");
    let (mut a, mut b) = (sender.send(1), sender.send(2));
    assert!(first.poll(&mut a).is_pending());
    assert!(second.poll(&mut b).is_pending());
    assert_eq!(receiver.try_recv(), Ok(0));
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)), "the room is promised");
    assert!(second.poll(&mut b).is_pending());
    assert_eq!(first.poll(&mut a), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(second.poll(&mut b), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv(), Ok(2));
}

#[test]
fn a_message_promised_to_a_dropped_receiver_goes_to_the_next() {
    let (sender, receiver) = bounded(4);
    let (first, second) = (Probe::new(), Probe::new());
    let (mut a, mut b) = (receiver.recv(), receiver.recv());
    assert!(first.poll(&mut a).is_pending());
    assert!(second.poll(&mut b).is_pending());
    sender.try_send(1).expect("room");
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "the message is promised");
    drop(a);
    assert_eq!(second.wakes(), 1);
    assert_eq!(second.poll(&mut b), Poll::Ready(Some(1)));
}

#[test]
fn room_promised_to_a_dropped_sender_goes_to_the_next() {
    let (sender, receiver) = bounded(1);
    let probe = Probe::new();
    sender.try_send(0).expect("room");
    let (mut a, mut b) = (sender.send(1), sender.send(2));
    assert!(Probe::new().poll(&mut a).is_pending());
    assert!(probe.poll(&mut b).is_pending());
    assert_eq!(receiver.try_recv(), Ok(0));
    drop(a);
    assert_eq!(probe.wakes(), 1);
    assert_eq!(probe.poll(&mut b), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv(), Ok(2));
}

#[test]
fn the_last_sender_ends_the_stream_after_what_is_queued() {
    let (sender, receiver) = bounded(4);
    let probe = Probe::new();
    let other = sender.clone();
    sender.try_send(1).expect("room");
    drop(sender);
    assert_eq!(receiver.try_recv(), Ok(1));
    let mut waiting = receiver.recv();
    assert!(probe.poll(&mut waiting).is_pending());
    drop(other);
    assert_eq!(probe.wakes(), 1);
    assert_eq!(probe.poll(&mut waiting), Poll::Ready(None));
}

#[test]
fn the_last_receiver_drops_the_queue_and_refuses_senders() {
    let (sender, receiver) = bounded(1);
    let (probe, message) = (Probe::new(), Rc::new(()));
    sender.try_send(message.clone()).expect("room");
    let mut waiting = sender.send(message.clone());
    assert!(probe.poll(&mut waiting).is_pending());
    drop(receiver);
    assert_eq!(probe.wakes(), 1);
    assert_eq!(probe.poll(&mut waiting), Poll::Ready(Err(SendError(message.clone()))));
    drop(waiting);
    assert_eq!(Rc::strong_count(&message), 1, "the queued one and the refused one are gone");
    assert!(sender.is_closed());
}

#[test]
fn close_leaves_no_message_with_a_receiver_that_sleeps() {
    let (sender, receiver) = bounded(4);
    let probe = Probe::new();
    let mut served = receiver.recv();
    assert!(probe.poll(&mut served).is_pending());
    sender.try_send(1).expect("room");
    receiver.close();
    assert_eq!(sender.try_send(2), Err(TrySendError::Closed(2)));
    assert_eq!(receiver.try_recv(), Ok(1), "the promise is void");
    assert_eq!(probe.poll(&mut served), Poll::Ready(None));
}

#[test]
#[should_panic(expected = "room for at least one")]
fn a_channel_without_room_is_refused() {
    bounded::<()>(0);
}

/// Messages queued equal messages received, in order, whatever future is dropped when; and nobody
/// sleeps while there is something to do.
#[test]
fn nothing_is_lost_or_reordered_when_futures_are_dropped() {
    for seed in 0..300 {
        let (mut random, probe) = (Random(seed), Probe::new());
        let (sender, receiver) = bounded(1 + random.below(4));
        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
        let (mut queued, mut received) = (Vec::new(), Vec::new());
        for number in 0..300 {
            match random.below(6) {
                0 => sending.push((number, sender.send(number))),
                1 => receiving.push(receiver.recv()),
                2 if !sending.is_empty() => {
                    let index = random.below(sending.len());
                    if probe.poll(&mut sending[index].1).is_ready() {
                        queued.push(sending.remove(index).0);
                    }
                }
                3 if !receiving.is_empty() => {
                    let index = random.below(receiving.len());
                    if let Poll::Ready(message) = probe.poll(&mut receiving[index]) {
                        received.push(message.expect("open"));
                        drop(receiving.remove(index));
                    }
                }
                4 if !sending.is_empty() => drop(sending.remove(random.below(sending.len()))),
                5 if !receiving.is_empty() => drop(receiving.remove(random.below(receiving.len()))),
                _ => {}
            }
            receiver.state.borrow().check_promises(seed);
        }
        receiving.clear();
        sending.clear();
        received.extend(std::iter::from_fn(|| receiver.try_recv().ok()));
        assert_eq!(received, queued, "seed {seed}");
    }
}

/// The destructor of a message is foreign code: whoever waits for room is told first, and two that panic
/// do not end the process.
#[test]
fn messages_that_panic_when_they_are_dropped_keep_no_sender_waiting() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let probe = Probe::new();
    let (sender, receiver) = bounded(3);
    for _ in 0..3 {
        assert!(sender.try_send(Panics).is_ok());
    }
    let mut waiting = sender.send(Panics);
    assert!(probe.poll(&mut waiting).is_pending());
    drop(receiver);
    assert_eq!(probe.wakes(), 1);
    std::mem::forget(probe.poll(&mut waiting));
}
