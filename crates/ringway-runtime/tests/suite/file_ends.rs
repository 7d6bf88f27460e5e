//! Files and operations whose owner no longer waits for them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};

use bytes::Bytes;
use ringway_runtime::fs::{self, File};
use ringway_runtime::yield_now;

use crate::files::{Place, pattern};
use crate::support::Driver;

on_every_driver!(
    what_a_dropped_read_fills_is_nobody_elses,
    a_descriptor_is_closed_after_its_operations,
    dropped_operations_end_where_they_began,
    bytes_that_were_written_are_dropped_outside,
);

/// Polls a future once and drops it. A driver has begun by then what the future is for, and a thread of the
/// blocking pool may have ended it.
pub(crate) fn begin<F: Future>(future: F) {
    let _either = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

async fn what_a_dropped_read_fills_is_nobody_elses(driver: Driver) {
    const BYTES: usize = 64 * 1024;
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    file.write_all_at(0, vec![0x11; BYTES]).await.expect("room");
    for _ in 0..100 {
        begin(file.read_at(0, BYTES, Vec::with_capacity(BYTES)));
        // If the memory was freed, this is where it was.
        let canary = vec![0xaa_u8; BYTES];
        let after = file.read_exact_at(0, 1, Vec::new()).await.expect("read");
        assert_eq!(after, [0x11]);
        yield_now().await;
        assert!(canary.iter().all(|&byte| byte == 0xaa), "somebody wrote to what is ours");
    }
}

async fn a_descriptor_is_closed_after_its_operations(driver: Driver) {
    let place = Place::new(driver).await;
    let content = Bytes::from(pattern(300_000));
    for round in 0..50 {
        let old = File::create(place.at("old")).await.expect("made");
        begin(old.write_at(0, content.clone()));
        drop(old);
        // Of the same number, if the old one was closed too early.
        let new = File::create(place.at("new")).await.expect("made");
        yield_now().await;
        assert_eq!(new.metadata().await.expect("open").len, 0, "round {round}");
        let found = fs::read(place.at("old"), content.len()).await.expect("there");
        assert!(content.starts_with(&found), "round {round}");
    }
}

async fn dropped_operations_end_where_they_began(driver: Driver) {
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    for round in 0..20 {
        let name = place.at(&format!("{round}"));
        begin(File::create(&name));
        begin(fs::rename(place.at("none"), &name));
        begin(fs::create_dir(place.at("directory")));
        begin(fs::metadata(&name));
        begin(file.sync_all());
        begin(file.set_len(round));
        let mut listing = fs::read_dir(place.path()).await.expect("there");
        begin(listing.next_batch());
        begin(fs::write_atomic(&name, "content"));
    }
    // All of it may have been done, or nothing; what counts is that the place still works.
    file.write_all_at(0, "works").await.expect("room");
    let content = file.read_exact_at(0, 5, Vec::new()).await.expect("read");
    assert_eq!(content, b"works");
}

/// Reports its end.
struct Counted {
    bytes: Vec<u8>,
    ended: Arc<AtomicU32>,
    panics: bool,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "a destructor of the test's");
    }
}

async fn bytes_that_were_written_are_dropped_outside(driver: Driver) {
    const ROUNDS: u32 = 10;
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    let ended = Arc::new(AtomicU32::new(0));
    let counted = |panics| {
        Bytes::from_owner(Counted { bytes: pattern(1_000), ended: Arc::clone(&ended), panics })
    };
    for _ in 0..ROUNDS {
        assert_eq!(file.write_at(0, counted(false)).await.expect("room"), 1_000);
        // Nobody waits for this operation, and its destructor panics wherever it runs.
        begin(file.write_at(0, counted(true)));
    }
    while ended.load(Ordering::SeqCst) < 2 * ROUNDS {
        // There is one operation in each round, so that a simulation's clock moves.
        assert!(file.metadata().await.is_ok());
    }
}
