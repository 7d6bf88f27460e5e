use std::collections::VecDeque;
use std::task::{Poll, Waker};

use ringway_wire::native::{Piece, StreamId};

use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::connection::batch::Batch;
use crate::connection::carrier::Received;
use crate::connection::carrier::fake_connection::raw;
use crate::connection::table::{Handles, StreamKey, StreamTable, Unread};
use crate::waiters::tests::Count;
use crate::waiters::{HasErrands, poll_with};

impl Count {
    /// Returns the number of wakes after the pending wakers have run.
    fn after(&self, table: &mut StreamTable) -> usize {
        *table.errands() = std::mem::take(table.errands()).run();
        self.woken()
    }
}

/// The result of one poll of a stream.
#[derive(Debug, PartialEq)]
enum Seen {
    Nothing,
    Messages(Vec<Vec<u8>>),
    End,
    Failed(String),
}

fn look(table: &mut StreamTable, key: StreamKey, waker: &Waker) -> Seen {
    let mut batch = Batch::default();
    match poll_with(waker, |waker| table.poll_messages(key, waker, &mut batch)) {
        Poll::Pending => Seen::Nothing,
        Poll::Ready(Received::Messages) => {
            let next = || {
                let len = batch.next_len()?;
                Some(batch.decode_next(len, &raw()).expect("bytes are bytes").to_vec())
            };
            Seen::Messages(std::iter::from_fn(next).collect())
        }
        Poll::Ready(Received::End(_)) => Seen::End,
        Poll::Ready(Received::Failed(status)) => Seen::Failed(status.message().to_owned()),
    }
}

fn push(table: &mut StreamTable, stream: StreamId, message: &[u8]) {
    table.push(stream, Piece::Borrowed(message)).expect("a reader with room");
}

fn messages(messages: &[&[u8]]) -> Seen {
    Seen::Messages(messages.iter().map(|message| message.to_vec()).collect())
}

#[test]
fn reader_is_woken_once_for_many_messages() {
    let mut table = StreamTable::default();
    let stream = StreamId::new(3, 1);
    let key = table.insert(stream, Handles::Both);
    let (count, waker) = Count::waker();
    assert_eq!(look(&mut table, key, &waker), Seen::Nothing);
    for message in [b"a", b"b", b"c"] {
        push(&mut table, stream, message);
    }
    assert_eq!(count.after(&mut table), 1);
    assert_eq!(look(&mut table, key, &waker), messages(&[b"a", b"b", b"c"]));
    push(&mut table, stream, b"d");
    assert_eq!(count.after(&mut table), 1, "the reader does not wait");
    assert_eq!(look(&mut table, key, &waker), messages(&[b"d"]));
    assert_eq!(look(&mut table, key, &waker), Seen::Nothing);
    table.end(stream);
    assert_eq!(count.after(&mut table), 2);
    assert_eq!(look(&mut table, key, &waker), Seen::End);
}

#[test]
fn only_the_latest_waker_is_woken() {
    let mut table = StreamTable::default();
    let stream = StreamId::new(0, 1);
    let key = table.insert(stream, Handles::Both);
    let (former, former_waker) = Count::waker();
    let (latest, latest_waker) = Count::waker();
    look(&mut table, key, &former_waker);
    look(&mut table, key, &latest_waker);
    poll_with(&former_waker, |waker| table.wait_writable(key, waker));
    poll_with(&latest_waker, |waker| table.wait_writable(key, waker));
    push(&mut table, stream, b"a");
    table.writable(stream);
    table.writable(stream);
    assert_eq!((former.after(&mut table), latest.after(&mut table)), (0, 2));
}

#[test]
fn received_messages_outlive_the_stream_and_its_id() {
    let mut table = StreamTable::default();
    let stream = StreamId::new(0, 1);
    let first = table.insert(stream, Handles::Reader);
    push(&mut table, stream, b"old");
    table.finish(stream, Ok(Metadata::default()));
    assert_eq!(table.stream(first), None);
    // The same slot and, as after 4,095 uses, the same generation.
    let second = table.insert(stream, Handles::Reader);
    push(&mut table, stream, b"new");
    let waker = Waker::noop();
    assert_eq!(look(&mut table, first, waker), messages(&[b"old"]));
    assert_eq!(look(&mut table, first, waker), Seen::End);
    assert_eq!(look(&mut table, second, waker), messages(&[b"new"]));
    table.drop_reader(first);
    assert_eq!(table.stream(second), Some(stream), "the other is not touched");
    table.finish(stream, Err(Status::unavailable("lost")));
    assert_eq!(look(&mut table, second, waker), Seen::Failed("lost".to_owned()));
    table.drop_reader(second);
    assert!(table.is_empty());
}

#[test]
fn finished_stream_wakes_both_handles_and_fails_the_writer() {
    let mut table = StreamTable::default();
    let stream = StreamId::new(7, 9);
    let key = table.insert(stream, Handles::Both);
    let (count, waker) = Count::waker();
    look(&mut table, key, &waker);
    poll_with(&waker, |waker| table.wait_writable(key, waker));
    assert!(table.failure(key).is_none());
    table.finish(stream, Err(Status::cancelled("enough")));
    assert_eq!(count.after(&mut table), 2);
    assert_eq!(table.failure(key).expect("it is over").message(), "enough");
    assert_eq!(look(&mut table, key, &waker), Seen::Failed("enough".to_owned()));
    assert!(!table.finish_writer(key), "there is nothing to finish any more");
    assert!(!table.drop_writer(key), "nor to cancel");
}

#[test]
fn end_by_the_peer_stays_an_end() {
    let mut table = StreamTable::default();
    let stream = StreamId::new(1, 1);
    let key = table.insert(stream, Handles::Both);
    push(&mut table, stream, b"last");
    table.end(stream);
    table.finish(stream, Err(Status::cancelled("the handler has returned")));
    let waker = Waker::noop();
    assert_eq!(look(&mut table, key, waker), messages(&[b"last"]));
    assert_eq!(look(&mut table, key, waker), Seen::End);
}

#[test]
fn initial_metadata_comes_before_messages_or_is_empty() {
    let mut table = StreamTable::default();
    let (count, waker) = Count::waker();
    let mut metadata = Metadata::default();
    metadata.insert("region", "north").expect("a good key");

    let told = StreamId::new(0, 1);
    let key = table.insert(told, Handles::Reader);
    assert!(poll_with(&waker, |waker| table.poll_initial(key, waker)).is_pending());
    table.initial(told, metadata);
    assert_eq!(count.after(&mut table), 1);
    let Poll::Ready(initial) = poll_with(&waker, |waker| table.poll_initial(key, waker)) else {
        panic!("it has come");
    };
    assert_eq!(initial.get("region"), Some("north"));

    for (slot, ends) in [(1, false), (2, true)] {
        let silent = StreamId::new(slot, 1);
        let key = table.insert(silent, Handles::Reader);
        assert!(poll_with(&waker, |waker| table.poll_initial(key, waker)).is_pending());
        if ends {
            table.finish(silent, Ok(Metadata::default()));
        } else {
            push(&mut table, silent, b"a");
        }
        let Poll::Ready(initial) = poll_with(&waker, |waker| table.poll_initial(key, waker)) else {
            panic!("there will be none");
        };
        assert_eq!(initial.get("region"), None);
    }
}

#[test]
fn messages_without_a_reader_and_too_many_are_refused() {
    let mut table = StreamTable::default();
    let stream = StreamId::new(5, 1);
    let unknown = table.push(stream, Piece::Borrowed(b"a"));
    assert_eq!(unknown, Err(Unread::NoReader));
    let key = table.insert(stream, Handles::Both);
    let earlier = table.push(StreamId::new(5, 2), Piece::Borrowed(b"a"));
    assert_eq!(earlier, Err(Unread::NoReader), "another generation");
    for _ in 0..crate::limits::STREAM_MESSAGES_MAX {
        push(&mut table, stream, b"");
    }
    assert_eq!(table.push(stream, Piece::Borrowed(b"")), Err(Unread::Full));
    table.drop_reader(key);
    assert_eq!(table.push(stream, Piece::Borrowed(b"a")), Err(Unread::NoReader));
}

#[test]
fn finished_writer_leaves_nothing_to_cancel() {
    let mut table = StreamTable::default();
    for (slot, finish) in [(0, true), (1, false)] {
        let key = table.insert(StreamId::new(slot, 1), Handles::Writer);
        if finish {
            assert!(table.finish_writer(key));
            assert!(!table.finish_writer(key), "once");
        }
        assert_eq!(table.drop_writer(key), !finish);
    }
}

#[test]
fn lost_connection_finishes_all_streams() {
    let mut table = StreamTable::default();
    let keys: Vec<_> =
        (0..10).map(|slot| table.insert(StreamId::new(slot, 1), Handles::Both)).collect();
    push(&mut table, StreamId::new(4, 1), b"read me");
    table.finish_all(&Status::unavailable("lost"));
    let waker = Waker::noop();
    assert_eq!(look(&mut table, keys[4], waker), messages(&[b"read me"]));
    for key in keys {
        assert_eq!(look(&mut table, key, waker), Seen::Failed("lost".to_owned()));
        assert_eq!(table.failure(key).expect("it is over").message(), "lost");
        table.drop_reader(key);
        table.drop_writer(key);
        assert_eq!(look(&mut table, key, waker), Seen::Failed(super::gone().message().to_owned()));
    }
    assert!(table.is_empty());
}

/// The expected state of one stream.
struct Model {
    stream: StreamId,
    key: StreamKey,
    queue: VecDeque<Vec<u8>>,
    open: bool,
    ended: bool,
    end_seen: bool,
}

/// A seeded generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn random_streams_match_a_model() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut table = StreamTable::default();
        let mut models = Vec::<Model>::new();
        for step in 0..300 {
            check_step(&mut random, &mut table, &mut models, &format!("seed {seed}, step {step}"));
        }
        for model in models.drain(..) {
            table.finish(model.stream, Ok(Metadata::default()));
            table.drop_reader(model.key);
        }
        assert!(table.is_empty(), "seed {seed}");
    }
}

fn check_step(
    random: &mut Random,
    table: &mut StreamTable,
    models: &mut Vec<Model>,
    context: &str,
) {
    let slot = random.below(6) as u32;
    let live = models.iter().position(|model| model.open && model.stream.slot() == slot);
    match (random.below(8), live) {
        (0..=3, Some(live)) => {
            let size = [0, 1, 40, 600, 5000][random.below(5)];
            let message = vec![random.below(256) as u8; size];
            let pushed = table.push(models[live].stream, Piece::Borrowed(&message));
            assert!(pushed.is_ok(), "{context}");
            models[live].queue.push_back(message);
        }
        (4, Some(live)) => {
            table.finish(models[live].stream, Ok(Metadata::default()));
            (models[live].open, models[live].ended) = (false, true);
        }
        (0..=4, None) => {
            let stream = StreamId::new(slot, 1 + random.below(3) as u16);
            let key = table.insert(stream, Handles::Reader);
            let queue = VecDeque::new();
            models.push(Model { stream, key, queue, open: true, ended: false, end_seen: false });
        }
        (5 | 6, _) if !models.is_empty() => {
            let any = random.below(models.len());
            check_reading(table, &mut models[any], context);
        }
        (7, _) if !models.is_empty() => {
            let any = random.below(models.len());
            if !models[any].open {
                table.drop_reader(models.swap_remove(any).key);
            }
        }
        _ => {}
    }
}

fn check_reading(table: &mut StreamTable, model: &mut Model, context: &str) {
    let expected = if !model.queue.is_empty() {
        Seen::Messages(model.queue.drain(..).collect())
    } else if model.ended && !std::mem::replace(&mut model.end_seen, true) {
        Seen::End
    } else {
        Seen::Nothing
    };
    assert_eq!(look(table, model.key, Waker::noop()), expected, "{context}");
}
