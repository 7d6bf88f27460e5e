//! The store against a model that keeps every state, and its rules one by one.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn store() -> Store {
    Store::new()
}

fn put(store: &mut Store, key: &str, value: &str) -> Revision {
    let (key, value) =
        (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    let (put, revision) = store.change(|change| change.put(key, value, LeaseId::NONE));
    put.expect("without a lease");
    revision
}

fn delete(store: &mut Store, range: &KeyRange) -> usize {
    store.change(|change| change.delete(range)).0.len()
}

/// The keys with their values, at a revision.
fn content(store: &Store, at: Option<Revision>) -> Vec<(Bytes, Bytes)> {
    let read = store.read(&KeyRange::all(), at, usize::MAX).expect("a readable revision");
    assert_eq!(read.count, read.keys.len());
    read.keys.into_iter().map(|found| (found.key, found.value)).collect()
}

fn key(text: &str) -> KeyRange {
    KeyRange::Key(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_put_counts_versions_and_keeps_the_creation() {
    let mut store = store();
    assert_eq!(put(&mut store, "a", "1"), Revision(2));
    assert_eq!(put(&mut store, "b", "1"), Revision(3));
    assert_eq!(put(&mut store, "a", "2"), Revision(4));
    let a = store.get(b"a").expect("a");
    assert_eq!((a.create_revision, a.mod_revision, a.version), (Revision(2), Revision(4), 2));
    assert_eq!(delete(&mut store, &key("a")), 1);
    assert!(store.get(b"a").is_none());
    put(&mut store, "a", "3");
    let a = store.get(b"a").expect("a");
    assert_eq!((a.create_revision, a.mod_revision, a.version), (Revision(6), Revision(6), 1));
    assert_eq!(store.len(), 2);
}

#[test]
fn a_change_that_changes_nothing_has_no_revision() {
    let mut store = store();
    assert_eq!(delete(&mut store, &key("a")), 0);
    assert_eq!(store.revision(), Revision::FIRST);
}

#[test]
fn changes_of_one_transaction_have_one_revision_and_the_last_of_a_key_counts() {
    let mut store = store();
    let ((), revision) = store.change(|change| {
        for (key, value) in [("a", "1"), ("b", "1"), ("a", "2")] {
            change.put(key.into(), value.into(), LeaseId::NONE).expect("no lease");
        }
        change.delete(&key("b"));
        assert_eq!(content(change.store(), None), [(Bytes::from("a"), Bytes::from("2"))]);
        assert_eq!(change.revision(), Revision(2));
    });
    assert_eq!((revision, store.len()), (Revision(2), 1));
    let seen = store.changes(&KeyRange::all(), Revision(2)).expect("not compacted");
    let seen: Vec<_> = seen
        .changes
        .iter()
        .map(|it| (&it.key[..], it.now.as_ref().map(|now| &now.value[..])))
        .collect();
    assert_eq!(seen, [(&b"a"[..], Some(&b"2"[..])), (b"b", None)]);
}

#[test]
fn reads_name_the_revisions_that_are_not_there() {
    let mut store = store();
    for value in ["1", "2", "3"] {
        put(&mut store, "a", value);
    }
    store.compact(Revision(3)).expect("a revision that has come");
    let read = |at| store.read(&KeyRange::all(), Some(Revision(at)), 9).map(|read| read.count);
    assert_eq!(read(2), Err(ReadError::Compacted));
    assert_eq!((read(3), read(4)), (Ok(1), Ok(1)));
    assert_eq!(read(5), Err(ReadError::Future));
    assert_eq!(store.compact(Revision(3)), Err(ReadError::Compacted));
    assert_eq!(store.compact(Revision(5)), Err(ReadError::Future));
}

#[test]
fn a_limit_cuts_the_keys_and_not_their_count() {
    let mut store = store();
    (0..10).for_each(|at| _ = put(&mut store, &format!("k{at}"), ""));
    let read = store.read(&KeyRange::prefix("k"), None, 3).expect("now");
    let keys: Vec<_> = read.keys.iter().map(|found| &found.key[..]).collect();
    assert_eq!((keys, read.count), (vec![&b"k0"[..], b"k1", b"k2"], 10));
}

#[test]
fn a_watch_sees_each_change_of_its_range_once() {
    let mut store = store();
    put(&mut store, "a", "1");
    put(&mut store, "b", "1");
    put(&mut store, "a", "2");
    delete(&mut store, &key("a"));
    let seen = store.changes(&key("a"), Revision(2)).expect("not compacted");
    let text = |it: &Option<KeyValue>| {
        it.as_ref().map(|it| String::from_utf8_lossy(&it.value).into_owned())
    };
    let seen_changes: Vec<_> =
        seen.changes.iter().map(|it| (it.revision.0, text(&it.now), text(&it.before))).collect();
    let one = |text: &str| Some(text.to_owned());
    assert_eq!(seen_changes, [(2, one("1"), None), (4, one("2"), one("1")), (5, None, one("2"))]);
    assert_eq!(seen.next, Revision(6));
    assert!(store.changes(&key("a"), seen.next).expect("not compacted").changes.is_empty());
    let future = store.changes(&key("a"), Revision(99)).expect("it may come");
    assert_eq!((future.changes.len(), future.next), (0, Revision(99)));
}

#[test]
fn a_watch_of_compacted_revisions_hears_where_it_can_begin() {
    let mut store = store();
    (0..5).for_each(|_| _ = put(&mut store, "a", ""));
    store.compact(Revision(4)).expect("it has come");
    assert_eq!(
        store.changes(&KeyRange::all(), Revision(3)).err(),
        Some(Compacted { first: Revision(4) })
    );
    assert_eq!(store.changes(&KeyRange::all(), Revision(4)).expect("it is left").changes.len(), 3);
}

#[test]
fn a_deletion_at_the_compaction_can_be_watched_and_is_forgotten_after_it() {
    let mut store = store();
    put(&mut store, "a", "1");
    delete(&mut store, &key("a"));
    put(&mut store, "b", "1");
    store.compact(Revision(3)).expect("it has come");
    let seen = store.changes(&key("a"), Revision(3)).expect("not compacted");
    assert_eq!(seen.changes.len(), 1);
    store.compact(Revision(4)).expect("it has come");
    assert_eq!(store.keys.len(), 1, "nothing of the deleted key is left");
}

#[test]
fn a_watch_that_is_far_behind_gets_whole_revisions() {
    let mut store = store();
    let large = limits::WATCH_CHANGES_MAX + 10;
    store.change(|change| {
        for at in 0..large {
            let put = change.put(format!("k{at:05}").into(), Bytes::new(), LeaseId::NONE);
            put.expect("no lease");
        }
    });
    (0..large).for_each(|_| _ = put(&mut store, "z", ""));
    let first = store.changes(&KeyRange::all(), Revision(2)).expect("not compacted");
    assert_eq!((first.changes.len(), first.next), (large, Revision(3)));
    let second = store.changes(&KeyRange::all(), first.next).expect("not compacted");
    assert_eq!(second.changes.len(), limits::WATCH_CHANGES_MAX);
    let third = store.changes(&KeyRange::all(), second.next).expect("not compacted");
    assert_eq!((third.changes.len(), third.next), (10, store.revision().next()));
}

#[test]
fn a_watch_of_other_keys_looks_at_a_bounded_number_of_changes() {
    let mut store = store();
    (0..limits::WATCH_SCANNED_MAX * 2 + 5).for_each(|_| _ = put(&mut store, "a", ""));
    let (mut next, mut turns) = (Revision(2), 0);
    while next <= store.revision() {
        let seen = store.changes(&key("b"), next).expect("not compacted");
        assert!(seen.changes.is_empty() && seen.next > next);
        (next, turns) = (seen.next, turns + 1);
    }
    assert_eq!(turns, 3);
}

#[test]
fn a_key_that_changes_all_the_time_is_read_at_each_of_its_revisions() {
    let mut store = Store::new();
    let most = i64::try_from(limits::HISTORY_CHANGES_MAX).expect("a number");
    for value in 0..most * 2 {
        store.change(|change| {
            change.put("hot".into(), value.to_string().into(), LeaseId::NONE).expect("no lease")
        });
    }
    let first = store.compacted().0;
    assert_eq!((first, store.revision().0), (most + 2, most * 2 + 1));
    for at in [first, first + most / 2, most * 2 + 1] {
        let read = store.read(&KeyRange::all(), Some(Revision(at)), 1).expect("not compacted");
        assert_eq!(read.keys[0].value, (at - 2).to_string());
    }
}

#[test]
fn the_history_is_bounded_in_changes_and_in_bytes() {
    let mut many = store();
    (0..limits::HISTORY_CHANGES_MAX + 50).for_each(|_| _ = put(&mut many, "a", ""));
    assert_eq!(many.log.len(), limits::HISTORY_CHANGES_MAX);
    assert_eq!(many.compacted(), Revision(52));
    let mut large = store();
    let value = "x".repeat(limits::HISTORY_BYTES_MAX / 4);
    (0..10).for_each(|_| _ = put(&mut large, "a", &value));
    assert_eq!((large.log.len(), large.get(b"a").expect("a").version), (3, 10));
}

#[test]
fn a_lease_takes_its_keys_with_it() {
    let mut store = store();
    let lease = LeaseId(7);
    store.grant(lease, 10 * SECOND, SECOND).expect("a new lease");
    assert_eq!(store.grant(lease, SECOND, SECOND), Err(LeaseError::Exists));
    store.change(|change| {
        change.put("a".into(), "1".into(), lease).expect("the lease is there");
        change.put("b".into(), "1".into(), lease).expect("the lease is there");
        let unknown = change.put("c".into(), "1".into(), LeaseId(8));
        assert_eq!(unknown.expect_err("no such lease"), LeaseError::NotFound);
    });
    put(&mut store, "b", "2");
    assert_eq!(store.lease(lease).expect("it is held").keys, ["a"]);
    assert_eq!(store.expired(10 * SECOND), None);
    assert_eq!(store.renew(lease, 5 * SECOND), Ok(10 * SECOND));
    assert_eq!((store.next_expiry(), store.expired(11 * SECOND)), (Some(15 * SECOND), None));
    assert_eq!(store.expired(15 * SECOND), Some(lease));
    store.revoke(lease).expect("it is held");
    assert_eq!(content(&store, None), [(Bytes::from("b"), Bytes::from("2"))]);
    assert_eq!(store.renew(lease, SECOND), Err(LeaseError::NotFound));
    assert_eq!(store.revoke(lease), Err(LeaseError::NotFound));
    assert_eq!(store.next_expiry(), None);
}

#[test]
fn a_key_that_is_deleted_leaves_its_lease() {
    let mut store = store();
    store.grant(LeaseId(7), SECOND, SECOND).expect("a new lease");
    store
        .change(|change| change.put("a".into(), "1".into(), LeaseId(7)))
        .0
        .expect("the lease is there");
    delete(&mut store, &KeyRange::all());
    put(&mut store, "a", "2");
    store.revoke(LeaseId(7)).expect("it is held");
    assert_eq!(store.len(), 1);
}

/// Every state that there was, by revision.
struct Model {
    states: Vec<BTreeMap<Bytes, Bytes>>,
}

impl Model {
    fn at(&self, revision: Revision) -> Vec<(Bytes, Bytes)> {
        let index = usize::try_from(revision.0).expect("positive") - 1;
        self.states[index].iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

fn random(state: &mut u64, end: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % end
}

#[test]
fn every_revision_reads_as_the_model_has_it_and_changes_lead_from_one_to_the_next() {
    for seed in 1..=20_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (mut store, mut model) = (store(), Model { states: vec![BTreeMap::new()] });
        for _ in 0..300 {
            let mut next = model.states.last().expect("a state").clone();
            let ((), revision) = store.change(|change| {
                for _ in 0..1 + random(&mut state, 3) {
                    let key = Bytes::from(format!("k{}", random(&mut state, 12)));
                    if random(&mut state, 3) == 0 {
                        let range = KeyRange::Between(key.clone(), Bytes::from("k5"));
                        let deleted = change.delete(&range);
                        let gone: Vec<_> =
                            next.keys().filter(|key| range.contains(key)).cloned().collect();
                        assert!(deleted.iter().map(|it| &it.key).eq(&gone), "seed {seed}");
                        gone.iter().for_each(|key| drop(next.remove(key)));
                    } else {
                        let value = Bytes::from(random(&mut state, 100).to_string());
                        let before = change
                            .put(key.clone(), value.clone(), LeaseId::NONE)
                            .expect("no lease");
                        assert_eq!(
                            before.map(|it| it.value),
                            next.insert(key, value),
                            "seed {seed}"
                        );
                    }
                }
            });
            if usize::try_from(revision.0).expect("positive") > model.states.len() {
                model.states.push(next);
            }
            if random(&mut state, 40) == 0 {
                let span = u64::try_from(revision.0 - store.compacted().0).expect("positive");
                let first = store.compacted().0 + random(&mut state, span + 1).cast_signed();
                let compacts = first > store.last_compaction().0;
                assert_eq!(store.compact(Revision(first)).is_ok(), compacts, "seed {seed}");
            }
            let content = model.at(store.revision());
            let bytes: usize = content.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert_eq!((store.len(), store.bytes()), (content.len(), bytes), "seed {seed}");
        }
        for revision in store.compacted().0..=store.revision().0 {
            assert_eq!(
                content(&store, Some(Revision(revision))),
                model.at(Revision(revision)),
                "seed {seed}"
            );
        }
        let mut replayed: BTreeMap<_, _> = model.at(store.compacted()).into_iter().collect();
        let mut next = store.compacted().next();
        while next <= store.revision() {
            let seen = store.changes(&KeyRange::all(), next).expect("not compacted");
            for change in seen.changes {
                match change.now {
                    Some(now) => drop(replayed.insert(now.key, now.value)),
                    None => drop(replayed.remove(&change.key)),
                }
            }
            next = seen.next;
        }
        assert!(replayed.into_iter().eq(model.at(store.revision())), "seed {seed}");
    }
}

#[test]
fn changes_come_in_pieces_of_so_many_bytes() {
    let mut store = store();
    let value = "v".repeat(limits::WATCH_BYTES_MAX / 2);
    for at in 0..5 {
        put(&mut store, &at.to_string(), &value);
    }
    let (mut next, mut numbers) = (Revision(2), Vec::new());
    while next <= store.revision() {
        let seen = store.changes(&KeyRange::all(), next).expect("nothing is compacted");
        numbers.push(seen.changes.len());
        next = seen.next;
    }
    assert_eq!(numbers, [2, 2, 1]);
}

#[test]
fn values_before_the_changes_count_as_bytes_of_what_a_watch_gets() {
    let mut store = store();
    let value = "v".repeat(limits::WATCH_BYTES_MAX / 4);
    (0..9).for_each(|at| _ = put(&mut store, &format!("{at}"), &value));
    let from = store.revision().next();
    (0..9).for_each(|at| _ = delete(&mut store, &key(&format!("{at}"))));
    let first = store.changes(&KeyRange::all(), from).expect("not compacted");
    assert_eq!(first.changes.len(), 4, "each comes with the value that was deleted");
    let second = store.changes(&KeyRange::all(), first.next).expect("not compacted");
    assert_eq!(second.changes.len(), 4);
}

#[test]
fn what_is_compacted_is_gone_at_once_and_removed_in_steps() {
    let mut store = store();
    let many = 3 * limits::REMOVED_AT_ONCE;
    let put_many = |change: &mut Transaction<'_>| {
        (0..many).try_for_each(|at| {
            change.put(format!("many/{at}").into(), Bytes::new(), LeaseId::NONE).map(drop)
        })
    };
    store.change(put_many).0.expect("without a lease");
    store.change(|change| change.delete(&KeyRange::prefix("many/")));
    let last = put(&mut store, "a", "1");
    store.compact(last).expect("it has come");
    let gone = Revision(last.0 - 1);
    let read = store.read(&KeyRange::all(), Some(gone), 9).err();
    assert_eq!(read, Some(ReadError::Compacted));
    assert!(store.changes(&KeyRange::all(), gone).is_err());
    let all = 2 * many + 1;
    assert_eq!(store.log.len(), all - limits::REMOVED_AT_ONCE, "all was removed at once");
    // The next change goes on with that.
    put(&mut store, "a", "2");
    assert_eq!(store.log.len(), all + 1 - 2 * limits::REMOVED_AT_ONCE);
    while !store.remove_compacted() {}
    assert_eq!((store.log.len(), store.keys.len(), store.log_bytes), (2, 1, 4));
    assert_eq!(store.changes(&KeyRange::all(), last).expect("they are there").changes.len(), 2);
}
