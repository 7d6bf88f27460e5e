//! Registries on simulated disks that crash and fail.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::Status;
use ringway_runtime::fs::{self, OpenOptions};
use ringway_runtime::sim::{Disk, Faults, SimConfig, mount};
use ringway_runtime::{Builder, sleep, spawn};

use super::Folder;
use super::frame::{Frames, NextFrame};
use crate::endpoint::Error;
use crate::etcd::api::etcdserverpb::{
    Kv, Lease, LeaseGrantRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    Maintenance, PutRequest, RangeRequest, StatusRequest,
};
use crate::server::Registry;

const LOG: &str = "/data/log-0000000000000001";
/// Zeros behind the log's frames: room for a few.
const AHEAD: usize = 200;
const SNAPSHOT: &str = "/data/snapshot-0000000000000001";

/// Runs `main` with `disk` at `/`.
fn on<F: Future + 'static>(disk: &Disk, config: SimConfig, main: F) -> F::Output
where
    F::Output: 'static,
{
    let disk = disk.clone();
    let run = Builder::simulate(config, async move {
        mount("/", &disk).expect("nothing is open");
        main.await
    });
    run.unwrap_or_else(|error| panic!("seed {}: {error}", config.seed))
}

/// Opens the registry of the disk, with a new log every so many bytes.
async fn open_with(log_bytes_max: u64) -> Result<(Registry, Arc<Mutex<Vec<String>>>), Error> {
    let mut folder = Folder::open_unlocked(Path::new("/data")).await?;
    (folder.log_bytes_max, folder.log_ahead_bytes) = (log_bytes_max, AHEAD);
    let notices = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&notices);
    let builder = Registry::builder()
        .on_notice(move |text| told.lock().expect("no panic").push(text.to_owned()));
    Ok((builder.open_in(folder).await?, notices))
}

async fn open() -> Result<Registry, Error> {
    Ok(open_with(1 << 20).await?.0)
}

fn put_request(key: &str, value: u64) -> PutRequest {
    let (key, value) = (key.to_owned().into(), value.to_string().into());
    PutRequest { key, value, ..PutRequest::default() }
}

async fn put(registry: &Registry, key: &str, value: u64) -> Result<i64, Status> {
    let response = registry.put(put_request(key, value)).await?;
    Ok(response.header.expect("always").revision)
}

/// All keys with their values, and the revision.
async fn all(registry: &Registry) -> (BTreeMap<String, u64>, i64) {
    let (key, range_end) = (Bytes::from_static(b"\0"), Bytes::from_static(b"\0"));
    let request = RangeRequest { key, range_end, ..RangeRequest::default() };
    let response = registry.range(request).await.expect("reads work always");
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    let keys =
        response.kvs.iter().map(|kv| (text(&kv.key), text(&kv.value).parse().expect("a number")));
    (keys.collect(), response.header.expect("always").revision)
}

/// What was told to clients.
#[derive(Default)]
struct Told {
    /// The last value of each key that was acknowledged, and the last that was sent.
    acknowledged: BTreeMap<String, u64>,
    sent: BTreeMap<String, u64>,
    /// The highest revision that was told, to writers or to readers.
    revision: i64,
    failures: usize,
}

/// Writes by several clients at once, and reads, until they are dropped.
fn load(registry: &Registry, told: &Rc<RefCell<Told>>) {
    for client in 0..8 {
        let (registry, told, key) = (registry.clone(), Rc::clone(told), format!("key{client}"));
        let first = told.borrow().sent.get(&key).copied().unwrap_or(0) + 1;
        _ = spawn(async move {
            for value in first..first + 1_000 {
                told.borrow_mut().sent.insert(key.clone(), value);
                match put(&registry, &key, value).await {
                    Ok(revision) => {
                        let mut told = told.borrow_mut();
                        told.acknowledged.insert(key.clone(), value);
                        told.revision = told.revision.max(revision);
                    }
                    Err(_) => return told.borrow_mut().failures += 1,
                }
                sleep(Duration::from_micros(value % 7 * 50)).await;
            }
        });
    }
    let (registry, told) = (registry.clone(), Rc::clone(told));
    _ = spawn(async move {
        loop {
            let revision = all(&registry).await.1;
            note(&mut told.borrow_mut().revision, revision);
            sleep(Duration::from_micros(130)).await;
        }
    });
}

fn note(highest: &mut i64, revision: i64) {
    *highest = (*highest).max(revision);
}

/// Checks that a registry has everything that was acknowledged, and nothing that was not sent. What is found is told.
async fn check(registry: &Registry, told: &RefCell<Told>, seed: u64) {
    let (found, revision) = all(registry).await;
    let mut told = told.borrow_mut();
    for (key, value) in &told.acknowledged {
        let found = found.get(key).copied().unwrap_or(0);
        assert!(found >= *value, "seed {seed}: {key} is {found}, and {value} was acknowledged");
    }
    for (key, value) in &found {
        assert!(told.sent.get(key) >= Some(value), "seed {seed}: {key} was never {value}");
    }
    assert!(revision >= told.revision, "seed {seed}: {revision} after {}", told.revision);
    (told.acknowledged, told.revision) = (found, revision);
}

#[test]
fn acknowledged_writes_survive_crashes_at_any_moment() {
    let mut crashes_with_a_torn_tail = 0;
    for seed in 0..60 {
        let disk = Disk::new(seed);
        let told = Rc::new(RefCell::new(Told::default()));
        for round in 0..4 {
            let (told, shared) = (Rc::clone(&told), Rc::clone(&told));
            let notices = on(&disk, SimConfig::harsh(seed * 10 + round), async move {
                // Some crashes come while it is opened, most while snapshots are made.
                let opening = spawn(open_with(1_000));
                let micros = (seed * 7_919 + round * 104_729) % 40_000;
                let alarm = spawn(async move { sleep(Duration::from_micros(micros)).await });
                let (registry, notices) = match seed % 10 {
                    0 => {
                        _ = alarm.await;
                        return Vec::new();
                    }
                    _ => opening.await.expect("it does not panic").expect("the folder is sound"),
                };
                check(&registry, &told, seed).await;
                load(&registry, &told);
                sleep(Duration::from_micros(micros)).await;
                notices.lock().expect("no panic").clone()
            });
            let torn = notices.iter().filter(|text| text.contains("was not completed")).count();
            crashes_with_a_torn_tail += torn;
            assert_eq!(notices.len(), torn, "seed {seed}: {notices:?}");
            assert_eq!(shared.borrow().failures, 0, "seed {seed}");
            // Otherwise only the process ends.
            if (seed + round) % 3 > 0 {
                disk.crash();
            }
        }
        on(&disk, SimConfig::new(seed), async move {
            let registry = open().await.expect("the folder is sound");
            check(&registry, &told, seed).await;
        });
    }
    assert!(crashes_with_a_torn_tail > 10, "{crashes_with_a_torn_tail}");
}

#[test]
fn old_files_go_when_a_snapshot_is_made() {
    let disk = Disk::new(1);
    on(&disk, SimConfig::new(1), async {
        let (registry, _) = open_with(2_000).await.expect("an empty folder");
        for value in 0..500 {
            put(&registry, "key", value).await.expect("a sound disk");
        }
        sleep(Duration::from_secs(1)).await;
        let mut names = Vec::new();
        let mut listing = fs::read_dir("/data").await.expect("a folder");
        loop {
            match listing.next_batch().await.expect("a folder") {
                batch if batch.is_empty() => break,
                batch => names.extend(batch.into_iter().map(|entry| entry.name)),
            }
        }
        assert_eq!(names.len(), 2, "{names:?}");
        drop(registry);
        let registry = open().await.expect("a sound folder");
        assert_eq!(all(&registry).await, ([("key".to_owned(), 499)].into(), 501));
    });
}

#[test]
fn after_a_failure_of_the_disk_nothing_is_changed_and_everybody_is_told() {
    let mut failures = 0;
    for seed in 0..60 {
        let disk = Disk::new(seed);
        let told = Rc::new(RefCell::new(Told::default()));
        on(&disk, SimConfig::new(seed), async { drop(open().await.expect("an empty folder")) });
        let faults = Faults { sync_errors: 30, ..Faults::harsh() };
        let (shared, config) = (Rc::clone(&told), SimConfig { faults, ..SimConfig::new(seed) });
        let failed = on(&disk, config, async move {
            let Ok((registry, notices)) = open_with(1 << 20).await else {
                return None;
            };
            load(&registry, &shared);
            sleep(Duration::from_millis(300)).await;
            shared.borrow_mut().sent.insert("late".to_owned(), 1);
            let error = put(&registry, "late", 1).await.err()?;
            assert!(error.message().contains("takes no changes any more"), "{error}");
            assert_eq!(shared.borrow().failures, 8, "every writer was told");
            let (before, revision) = all(&registry).await;
            assert!(!before.contains_key("late"), "it is not seen either");
            assert!(revision <= shared.borrow().revision, "only what was told is seen");
            let status = registry.status(StatusRequest {}).await.expect("it answers");
            assert_eq!(status.errors, [error.message()]);
            assert_eq!(registry.health().expect("a page").status().as_u16(), 503);
            assert_eq!(*notices.lock().expect("no panic"), [error.message()]);
            Some(error)
        });
        failures += usize::from(failed.is_some());
        disk.crash();
        on(&disk, SimConfig::new(seed), async move {
            let registry = open().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            check(&registry, &told, seed).await;
        });
    }
    assert!(failures > 40, "{failures}");
}

/// Fills the disk but for so many bytes.
async fn fill(but_for: usize) {
    let file = OpenOptions::new().write(true).create(true).open("/filler").await.expect("room");
    let (mut at, mut piece) = (0, 4096);
    while piece > 0 {
        match file.write_all_at(at, vec![0; piece]).await {
            Ok(_) => at += piece as u64,
            Err(_) => piece /= 2,
        }
    }
    file.set_len(at - but_for as u64).await.expect("it gets shorter");
}

#[test]
fn a_full_disk_is_told_and_nothing_is_lost_when_it_has_room_again() {
    for room in (0..600).step_by(7) {
        let disk = Disk::with_capacity(1, 40_000);
        let told = Rc::new(RefCell::new(Told::default()));
        let shared = Rc::clone(&told);
        on(&disk, SimConfig::new(room as u64), async move {
            // Each batch is followed by a new file and a snapshot.
            let (registry, notices) = open_with(300).await.expect("an empty folder");
            put(&registry, "early", 1).await.expect("there is room");
            fill(room).await;
            let mut value = 1;
            let error = loop {
                value += 1;
                shared.borrow_mut().sent.insert("key".to_owned(), value);
                match put(&registry, "key", value).await {
                    Ok(_) => shared.borrow_mut().acknowledged.insert("key".to_owned(), value),
                    Err(error) => break error,
                };
            };
            assert!(error.is_resource_exhausted(), "{room}: {error}");
            assert!(error.message().contains("no changes until there is room"), "{error}");
            let again = put(&registry, "late", 1).await.expect_err("it is still full");
            assert_eq!(again.message(), error.message());
            let status = registry.status(StatusRequest {}).await.expect("it answers");
            assert_eq!(status.errors, [error.message()]);
            let acknowledged = shared.borrow().acknowledged.get("key").copied();
            assert_eq!(all(&registry).await.0.get("key").copied(), acknowledged, "what is logged");
            sleep(Duration::from_secs(5)).await;
            let of_log = |it: &&String| !it.contains("the log grows until");
            let told_of = || {
                let notices = notices.lock().expect("no panic");
                notices.iter().filter(of_log).cloned().collect::<Vec<_>>()
            };
            assert_eq!(told_of(), [error.message()], "{room}: once");
            fs::remove_file("/filler").await.expect("it was there");
            sleep(Duration::from_secs(2)).await;
            assert!(
                told_of()[1..]
                    .iter()
                    .eq(["the registry's disk has room again, and changes are taken"])
            );
            assert_eq!(all(&registry).await.0.get("key"), Some(&value), "it has come");
            let revision = put(&registry, "late", 2).await.expect("there is room");
            let mut told = shared.borrow_mut();
            told.acknowledged.extend([("key".to_owned(), value), ("late".to_owned(), 2)]);
            told.sent.extend([("early".to_owned(), 1), ("late".to_owned(), 2)]);
            told.revision = revision;
        });
        disk.crash();
        on(&disk, SimConfig::new(1), async move {
            let registry = open().await.unwrap_or_else(|error| panic!("{room}: {error}"));
            check(&registry, &told, room as u64).await;
        });
    }
}

/// A folder with three puts, the bytes of its log, and the ends of the log's frames.
fn three_puts() -> (Disk, Vec<u8>, Vec<usize>) {
    let disk = Disk::new(1);
    let file = on(&disk, SimConfig::new(1), async {
        let registry = open().await.expect("an empty folder");
        for value in 1..=3 {
            put(&registry, &format!("key{value}"), value).await.expect("a sound disk");
            sleep(Duration::from_millis(50)).await;
        }
        fs::read(LOG, 1 << 20).await.expect("a log")
    });
    let mut frames = Frames::of(&file).expect("a header");
    let mut ends = vec![frames.at];
    while let NextFrame::Frame(_) = frames.next() {
        ends.push(frames.at);
    }
    let zeros = &file[ends[ends.len() - 1]..];
    assert!(!zeros.is_empty() && zeros.iter().all(|byte| *byte == 0), "{zeros:?}");
    (disk, file, ends)
}

/// Opens the registry with another content of one file.
fn open_changed(disk: &Disk, path: &'static str, content: Vec<u8>) -> Result<usize, String> {
    on(disk, SimConfig::new(1), async move {
        fs::write_atomic(path, content).await.expect("a sound disk");
        let registry = open().await.map_err(|error| error.to_string())?;
        let (keys, revision) = all(&registry).await;
        let count = keys.len();
        assert!(keys.into_iter().eq((1..=3).map(|it| (format!("key{it}"), it)).take(count)));
        assert_eq!(usize::try_from(revision), Ok(count + 1));
        Ok(count)
    })
}

#[test]
fn a_log_cut_anywhere_has_every_write_before_the_cut() {
    let (disk, file, ends) = three_puts();
    for cut in 0..=file.len() {
        let opened = open_changed(&disk, LOG, file[..cut].to_vec());
        let Some(frames) = ends.iter().filter(|end| **end <= cut).count().checked_sub(1) else {
            let error = opened.expect_err("no header");
            assert!(error.contains(LOG) && error.contains("at byte 0,"), "{error}");
            continue;
        };
        // Behind every frame of a put is one without changes.
        assert_eq!(opened, Ok(frames.div_ceil(2)), "cut at {cut}");
    }
}

#[test]
fn a_log_with_a_flipped_bit_is_named_and_never_read() {
    let (disk, file, ends) = three_puts();
    assert_eq!(ends.len(), 7, "three puts, and a mark behind each");
    for at in 0..file.len() {
        let mut flipped = file.clone();
        flipped[at] ^= 1 << (at % 8);
        let opened = open_changed(&disk, LOG, flipped);
        if at >= ends[5] {
            assert_eq!(
                opened,
                Ok(3),
                "neither the last mark nor what is behind it is a loss: {at}"
            );
            continue;
        }
        let start = ends.iter().rev().find(|end| **end <= at).copied().unwrap_or(0);
        let error = opened.expect_err("damage");
        assert!(error.contains(LOG), "{error}");
        assert!(error.contains(&format!("damaged at byte {start},")), "{at}: {error}");
    }
}

#[test]
fn a_snapshot_with_a_flipped_bit_or_cut_is_named_and_never_read() {
    let disk = Disk::new(1);
    let file = on(&disk, SimConfig::new(1), async {
        drop(open().await.expect("an empty folder"));
        fs::read(SNAPSHOT, 1 << 20).await.expect("a snapshot")
    });
    let damaged = (0..file.len()).flat_map(|at| {
        let mut flipped = file.clone();
        flipped[at] ^= 1 << (at % 8);
        [flipped, file[..at].to_vec()]
    });
    for content in damaged {
        let error = open_changed(&disk, SNAPSHOT, content).expect_err("damage");
        assert!(error.contains(SNAPSHOT) && error.contains("is damaged at byte"), "{error}");
    }
    assert_eq!(open_changed(&disk, SNAPSHOT, file), Ok(0));
}

#[test]
fn files_that_are_missing_are_named() {
    for (path, others) in [(LOG, 0), (SNAPSHOT, 1)] {
        let (disk, ..) = three_puts();
        let error = on(&disk, SimConfig::new(1), async move {
            fs::remove_file(path).await.expect("it was there");
            open().await.err().expect("a file is missing")
        });
        assert!(error.to_string().starts_with(&format!("{path} is missing")), "{others}: {error}");
    }
}

async fn left(registry: &Registry, id: i64) -> i64 {
    let request = LeaseTimeToLiveRequest { id, keys: false };
    registry.lease_time_to_live(request).await.expect("it answers").ttl
}

/// Grants a lease, and puts a key of its name with it.
async fn grant(registry: &Registry, id: i64) {
    let request = LeaseGrantRequest { id, ttl: id };
    registry.lease_grant(request).await.expect("the id is free");
    let request = PutRequest { lease: id, ..put_request(&format!("key{id}"), 1) };
    registry.put(request).await.expect("the lease is there");
}

#[test]
fn a_renewal_that_was_answered_holds_after_a_crash() {
    let disk = Disk::new(1);
    on(&disk, SimConfig::new(1), async {
        let registry = open().await.expect("an empty folder");
        grant(&registry, 20).await;
        sleep(Duration::from_secs(16)).await;
        // So the log has the time at which four seconds are left.
        put(&registry, "other", 1).await.expect("a sound disk");
        assert_eq!(registry.renew_lease(20).ttl, 20);
    });
    disk.crash();
    on(&disk, SimConfig::new(2), async {
        let registry = open().await.expect("a sound folder");
        sleep(Duration::from_secs(19)).await;
        assert!(all(&registry).await.0.contains_key("key20"), "20 seconds were promised");
        sleep(Duration::from_secs(2)).await;
        assert!(!all(&registry).await.0.contains_key("key20"), "nobody has renewed it");
    });
    disk.crash();
    on(&disk, SimConfig::new(3), async {
        let registry = open().await.expect("a sound folder");
        assert_eq!((left(&registry, 20).await, all(&registry).await.0.len()), (-1, 1));
    });
}

#[test]
fn renewals_write_nothing() {
    let disk = Disk::new(1);
    on(&disk, SimConfig::new(1), async {
        let registry = open().await.expect("an empty folder");
        grant(&registry, 20).await;
        sleep(Duration::from_secs(1)).await;
        let before = fs::read(LOG, 1 << 20).await.expect("a log");
        for _ in 0..10 {
            assert_eq!(registry.renew_lease(20).ttl, 20);
            sleep(Duration::from_secs(1)).await;
        }
        assert!(fs::read(LOG, 1 << 20).await.expect("a log") == before);
    });
}

/// The leases that are told, the time of one of them, and its keys.
async fn told_of_leases(registry: &Registry, id: i64) -> (Vec<i64>, i64, Vec<Bytes>) {
    let leases = registry.lease_leases(LeaseLeasesRequest {}).await.expect("it answers").leases;
    let request = LeaseTimeToLiveRequest { id, keys: true };
    let told = registry.lease_time_to_live(request).await.expect("it answers");
    (leases.into_iter().map(|lease| lease.id).collect(), told.ttl, told.keys)
}

#[test]
fn leases_are_told_as_the_log_has_them() {
    let disk = Disk::with_capacity(1, 40_000);
    on(&disk, SimConfig::new(1), async {
        let registry = open().await.expect("an empty folder");
        grant(&registry, 600).await;
        grant(&registry, 700).await;
        let logged = (vec![600, 700], 599, vec![Bytes::from_static(b"key600")]);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(told_of_leases(&registry, 600).await, logged);
        fill(0).await;
        // Nothing of this fits on the disk, nor comes before anything else.
        let under_way = spawn({
            let registry = registry.clone();
            async move {
                let large = PutRequest { value: vec![0; 1_000].into(), ..put_request("large", 0) };
                registry.put(large).await.is_err()
            }
        });
        let changes = [
            spawn({
                let registry = registry.clone();
                async move { registry.lease_grant(LeaseGrantRequest { id: 5, ttl: 60 }).await.is_ok() }
            }),
            spawn({
                let registry = registry.clone();
                let put = PutRequest { lease: 600, ..put_request("late", 1) };
                async move { registry.put(put).await.is_ok() }
            }),
            spawn({
                let registry = registry.clone();
                async move { registry.lease_revoke(LeaseRevokeRequest { id: 600 }).await.is_ok() }
            }),
            spawn({
                let registry = registry.clone();
                let again = LeaseGrantRequest { id: 600, ttl: 60 };
                async move { registry.lease_grant(again).await.is_ok() }
            }),
        ];
        assert!(under_way.await.expect("no panic"), "there is no room");
        for change in changes {
            assert!(!change.await.expect("no panic"), "it is not on the disk");
        }
        assert_eq!(told_of_leases(&registry, 600).await, logged);
        assert_eq!(told_of_leases(&registry, 5).await.1, -1);
        assert_eq!(registry.renew_lease(5).ttl, 0);
        assert_eq!(registry.renew_lease(700).ttl, 700, "renewals go on");
        fs::remove_file("/filler").await.expect("it was there");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(told_of_leases(&registry, 600).await, (vec![60, 5, 700], 59, vec![]));
    });
}
