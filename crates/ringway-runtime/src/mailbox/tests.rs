use std::sync::Arc;
use std::thread;

use super::*;

fn drained<T>(mailbox: &Mailbox<T>) -> (Vec<T>, Vec<u64>) {
    let (mut messages, mut wakes) = (Vec::new(), Vec::new());
    mailbox.drain(&mut messages, &mut wakes);
    (messages, wakes)
}

#[test]
fn an_awake_owner_is_not_signalled_and_a_parked_one_once() {
    let mailbox = Mailbox::new(8);
    assert_eq!(mailbox.push('a'), Ok(NeedSignal(false)));
    assert!(!mailbox.prepare_park(), "there is work");
    assert_eq!(drained(&mailbox), (vec!['a'], vec![]));
    assert!(mailbox.prepare_park());
    assert_eq!(mailbox.push('b'), Ok(NeedSignal(true)));
    assert_eq!(mailbox.push('c'), Ok(NeedSignal(false)));
    assert_eq!(mailbox.wake(1), NeedSignal(false));
    mailbox.unpark();
    assert_eq!(drained(&mailbox), (vec!['b', 'c'], vec![1]));
    assert!(mailbox.is_empty());
}

#[test]
fn an_owner_that_woke_for_another_reason_is_not_signalled() {
    let mailbox = Mailbox::new(8);
    assert!(mailbox.prepare_park());
    mailbox.unpark();
    assert_eq!(mailbox.push(()), Ok(NeedSignal(false)));
}

#[test]
fn a_token_counts_once_between_two_drains() {
    let mailbox = Mailbox::<()>::new(1);
    for _ in 0..3 {
        for token in [7, 1 << 40, 7] {
            assert_eq!(mailbox.wake(token), NeedSignal(false));
        }
        assert_eq!(drained(&mailbox).1, [7, 1 << 40]);
    }
}

#[test]
fn a_full_mailbox_gives_the_message_back_and_still_takes_wakes() {
    let mailbox = Mailbox::new(1);
    assert_eq!(mailbox.push(1), Ok(NeedSignal(false)));
    assert_eq!(mailbox.push(2), Err(PushError::Full(2)));
    assert_eq!(mailbox.wake(9), NeedSignal(false));
    assert_eq!(drained(&mailbox), (vec![1], vec![9]));
    assert_eq!(mailbox.push(3), Ok(NeedSignal(false)));
}

#[test]
fn a_drain_of_wakes_leaves_the_messages() {
    let mailbox = Mailbox::new(1);
    for round in 0..3 {
        assert_eq!(mailbox.wake(9), NeedSignal(false));
        assert_eq!(mailbox.push(round).is_ok(), round == 0, "it still counts");
        let mut wakes = Vec::new();
        mailbox.drain_wakes(&mut wakes);
        assert_eq!(wakes, [9]);
        assert!(!mailbox.is_empty() && !mailbox.prepare_park());
    }
    assert_eq!(drained(&mailbox), (vec![0], vec![]));
    assert_eq!(mailbox.wake(9), NeedSignal(false));
    mailbox.drain_wakes(&mut Vec::new());
    assert!(mailbox.is_empty());
}

#[test]
fn a_closed_mailbox_refuses_but_can_be_drained() {
    let mailbox = Mailbox::new(4);
    assert_eq!(mailbox.push(1), Ok(NeedSignal(false)));
    mailbox.close();
    assert_eq!(mailbox.push(2), Err(PushError::Closed(2)));
    assert_eq!(mailbox.wake(9), NeedSignal(false));
    assert_eq!(drained(&mailbox), (vec![1], vec![]));
}

#[test]
fn draining_into_the_same_vectors_allocates_nothing_more() {
    let mailbox = Mailbox::new(4);
    let (mut messages, mut wakes) = (Vec::new(), Vec::new());
    let mut capacities = Vec::new();
    for round in 0..8 {
        assert_eq!(mailbox.push(round), Ok(NeedSignal(false)));
        assert_eq!(mailbox.wake(round), NeedSignal(false));
        mailbox.drain(&mut messages, &mut wakes);
        assert_eq!((messages.pop(), wakes.pop()), (Some(round), Some(round)));
        capacities.push((messages.as_ptr(), wakes.as_ptr()));
    }
    assert_eq!(capacities[2..4], capacities[6..8], "two buffers of each kind take turns");
}

/// Senders on other threads, an owner that sleeps with `thread::park`: every message arrives, each
/// sender's in order, and the owner is never left asleep (the test would not end).
#[test]
fn nothing_is_lost_under_load() {
    const SENDERS: u64 = 4;
    const EACH: u64 = 20_000;
    let mailbox = Arc::new(Mailbox::new(64));
    let owner = thread::current();
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let (mailbox, owner) = (mailbox.clone(), owner.clone());
            thread::spawn(move || (0..EACH).for_each(|n| send(&mailbox, &owner, sender, n)))
        })
        .collect();
    let (mut messages, mut wakes) = (Vec::new(), Vec::new());
    let mut expected = [0; SENDERS as usize];
    let mut last_wake = false;
    while expected != [EACH; SENDERS as usize] || !last_wake {
        if mailbox.prepare_park() {
            thread::park();
            mailbox.unpark();
        }
        mailbox.drain(&mut messages, &mut wakes);
        for (sender, n) in messages.drain(..) {
            assert_eq!(n, expected[sender as usize]);
            expected[sender as usize] += 1;
        }
        last_wake |= wakes.drain(..).any(|token| token == EACH - 1);
    }
    senders.into_iter().for_each(|sender| sender.join().expect("no sender panics"));
}

fn send(mailbox: &Mailbox<(u64, u64)>, owner: &thread::Thread, sender: u64, n: u64) {
    let signal = |need: NeedSignal| {
        if need.0 {
            owner.unpark();
        }
    };
    signal(mailbox.wake(n));
    loop {
        match mailbox.push((sender, n)) {
            Ok(need) => return signal(need),
            Err(PushError::Full(_)) => thread::yield_now(),
            Err(PushError::Closed(_)) => panic!("nobody closes it"),
        }
    }
}
