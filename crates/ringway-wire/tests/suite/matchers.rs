//! The matchers against models too simple to be wrong.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ringway_wire::{Error, IdMatcher, RequestId, SequentialMatcher};

use crate::support::for_seeds;

#[test]
fn by_id_like_a_map() {
    for_seeds(50, |random| {
        let mut matcher = IdMatcher::with_u32_ids(MAX);
        let mut model: BTreeMap<RequestId, (Duration, u64)> = BTreeMap::new();
        let mut now = Duration::ZERO;
        for step in 0..2000 {
            now += Duration::from_micros(random.next() % 100);
            match random.below(8) {
                0..4 => {
                    let timeout = Duration::from_micros(random.next() % 4000);
                    match matcher.begin(now, timeout, step) {
                        Ok(id) => assert!(model.insert(id, (now + timeout, step)).is_none()),
                        Err(error) => {
                            assert_eq!(error, Error::TooManyInFlight { max: MAX });
                            assert_eq!(model.len(), MAX);
                        }
                    }
                }
                4..7 => {
                    let id = RequestId::from(random.next() % (step / 2 + 1));
                    let known = model.remove(&id).map(|(_, context)| context);
                    assert_eq!(matcher.complete(id), known);
                }
                _ => {
                    while let Some((id, context)) = matcher.poll_timeout(now) {
                        let (deadline, expected) = model.remove(&id).expect("not ended before");
                        assert_eq!(context, expected);
                        assert!(deadline <= now);
                        assert!(model.values().all(|(later, _)| *later >= deadline));
                    }
                    assert!(model.values().all(|(deadline, _)| *deadline > now));
                }
            }
            assert_eq!(matcher.in_flight(), model.len());
            assert_eq!(matcher.next_deadline(), model.values().map(|(at, _)| *at).min());
        }
        let left: Vec<_> = matcher.fail_all().collect();
        assert_eq!(left, model.into_iter().map(|(id, (_, n))| (id, n)).collect::<Vec<_>>());
    });
}

/// The peer answers every request, in order and however late; each reply names its request, so
/// that a reply given to the wrong one shows.
#[test]
fn in_order_no_reply_meets_another_request() {
    for_seeds(50, |random| {
        let mut matcher = SequentialMatcher::new(MAX);
        let mut peer: VecDeque<u64> = VecDeque::new();
        let mut waiting: BTreeMap<u64, (Duration, RequestId)> = BTreeMap::new();
        let mut now = Duration::ZERO;
        for step in 0..2000 {
            now += Duration::from_micros(random.next() % 100);
            match random.below(10) {
                0..4 => {
                    let timeout = Duration::from_micros(random.next() % 2000);
                    match matcher.begin(now, timeout, step) {
                        Ok(id) => {
                            peer.push_back(step);
                            waiting.insert(step, (now + timeout, id));
                        }
                        Err(_) => assert_eq!(peer.len(), MAX),
                    }
                }
                4..8 => match peer.pop_front() {
                    Some(reply) => {
                        let expected = waiting.remove(&reply).map(|_| reply);
                        assert_eq!(matcher.complete_next(), Ok(expected));
                    }
                    None => assert_eq!(matcher.complete_next(), Err(Error::UnexpectedReply)),
                },
                8 => {
                    let request = waiting.keys().nth(random.below(MAX)).copied();
                    if let Some(request) = request {
                        let (_, id) = waiting.remove(&request).expect("taken from it");
                        assert_eq!(matcher.cancel(id), Some(request));
                    }
                }
                _ => {
                    while let Some((id, request)) = matcher.poll_timeout(now) {
                        let (deadline, expected) = waiting.remove(&request).expect("waits");
                        assert_eq!(id, expected);
                        assert!(deadline <= now);
                    }
                    assert!(waiting.values().all(|(deadline, _)| *deadline > now));
                }
            }
            assert_eq!((matcher.waiting(), matcher.in_flight()), (waiting.len(), peer.len()));
            assert_eq!(matcher.next_deadline(), waiting.values().map(|(at, _)| *at).min());
        }
        let left: Vec<_> = matcher.fail_all().map(|(_, request)| request).collect();
        assert_eq!(left, waiting.into_keys().collect::<Vec<_>>());
    });
}

const MAX: usize = 40;
