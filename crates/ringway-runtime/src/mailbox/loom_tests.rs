use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::*;

fn drained(mailbox: &Mailbox<u32>) -> (Vec<u32>, Vec<u64>) {
    let (mut messages, mut wakes) = (Vec::new(), Vec::new());
    mailbox.drain(&mut messages, &mut wakes);
    (messages, wakes)
}

/// A sender races with an owner that parks: the owner sees the message or is signalled.
#[test]
fn loom_a_push_that_races_with_a_park_is_seen_or_signalled() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::new(4));
        let sender = mailbox.clone();
        let sender = thread::spawn(move || sender.push(1).expect("room").0);
        let sleeps = mailbox.prepare_park();
        let seen = !sleeps && drained(&mailbox).0 == [1];
        let signalled = sender.join().expect("no panic");
        assert!(if sleeps { signalled } else { seen });
    });
}

/// The same after an earlier park that ended for another reason: the old flag hides nothing.
#[test]
fn loom_a_wake_that_races_with_unpark_and_park_is_seen_or_signalled() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::<u32>::new(4));
        assert!(mailbox.prepare_park());
        let sender = mailbox.clone();
        let sender = thread::spawn(move || sender.wake(7).0);
        mailbox.unpark();
        let sleeps = mailbox.prepare_park();
        let seen = !sleeps && drained(&mailbox).1 == [7];
        let signalled = sender.join().expect("no panic");
        assert!(if sleeps { signalled } else { seen });
    });
}

/// An owner that calls `unpark` although it is awake (every turn, for example) hides no send. With
/// a plain store instead of a swap this fails.
#[test]
fn loom_a_wake_that_races_with_a_needless_unpark_is_seen_or_signalled() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::<u32>::new(4));
        let sender = mailbox.clone();
        let sender = thread::spawn(move || sender.wake(7).0);
        mailbox.unpark();
        let sleeps = mailbox.prepare_park();
        let seen = !sleeps && drained(&mailbox).1 == [7];
        let signalled = sender.join().expect("no panic");
        assert!(if sleeps { signalled } else { seen });
    });
}

/// Two senders and a sleeping owner: exactly one of them signals, and both messages arrive.
#[test]
fn loom_a_sleeping_owner_is_signalled_exactly_once() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::new(4));
        let signals = Arc::new(AtomicUsize::new(0));
        assert!(mailbox.prepare_park());
        let senders = [1, 2].map(|message| {
            let (mailbox, signals) = (mailbox.clone(), signals.clone());
            thread::spawn(move || {
                if mailbox.push(message).expect("room").0 {
                    signals.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
        assert_eq!(signals.load(Ordering::Relaxed), 1);
        let mut messages = drained(&mailbox).0;
        messages.sort_unstable();
        assert_eq!(messages, [1, 2]);
    });
}

/// A drain that races with a push takes the message or leaves the mailbox marked.
#[test]
fn loom_a_drain_that_races_with_a_push_loses_nothing() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::new(4));
        assert_eq!(mailbox.push(1), Ok(NeedSignal(false)));
        let sender = mailbox.clone();
        let sender = thread::spawn(move || sender.push(2).expect("room"));
        let (mut messages, mut wakes) = (Vec::new(), Vec::new());
        mailbox.drain(&mut messages, &mut wakes);
        let sleeps = mailbox.prepare_park();
        let signalled = sender.join().expect("no panic");
        assert!(!sleeps || messages.len() == 2 || signalled.0);
        mailbox.drain(&mut messages, &mut wakes);
        assert_eq!(messages, [1, 2]);
    });
}

/// The same token from two senders arrives at least once and the owner is woken for it.
#[test]
fn loom_a_token_that_is_left_twice_still_wakes_the_owner() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::<u32>::new(4));
        let senders = [(); 2].map(|()| {
            let mailbox = mailbox.clone();
            thread::spawn(move || mailbox.wake(7).0)
        });
        let sleeps = mailbox.prepare_park();
        let signalled = senders.map(|sender| sender.join().expect("no panic"));
        assert!(!sleeps || signalled.contains(&true));
        assert_eq!(drained(&mailbox).1, [7]);
    });
}

/// A message that races with the close is either refused or there for the last drain.
#[test]
fn loom_a_push_that_races_with_close_is_refused_or_drained() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::new(4));
        let sender = mailbox.clone();
        let sender = thread::spawn(move || sender.push(1).is_ok());
        mailbox.close();
        let (mut messages, mut wakes) = (Vec::new(), Vec::new());
        mailbox.drain(&mut messages, &mut wakes);
        let taken = sender.join().expect("no panic");
        assert_eq!(taken, messages == [1]);
        assert_eq!(mailbox.push(2), Err(PushError::Closed(2)));
    });
}
