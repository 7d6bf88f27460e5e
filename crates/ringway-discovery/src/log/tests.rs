//! Registries on simulated disks that crash and fail.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
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
use crate::etcd::api::etcdserverpb::request_op::Request;
use crate::etcd::api::etcdserverpb::response_op::Response;
use crate::etcd::api::etcdserverpb::{
    AlarmRequest, AlarmType, DeleteRangeRequest, Kv, Lease, LeaseGrantRequest, LeaseLeasesRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, Maintenance, PutRequest, RangeRequest, RequestOp,
    StatusRequest, TxnRequest,
};
use crate::limits;
use crate::server::Registry;

const LOG: &str = "/data/log-0000000000000001";
/// Zeros behind the log's frames: room for a few.
const AHEAD: usize = 600;
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
async fn open_with(log_bytes_max: usize) -> Result<(Registry, Arc<Mutex<Vec<String>>>), Error> {
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
        let names = files().await;
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

async fn delete(registry: &Registry, key: &str) -> Result<i64, Status> {
    let key = key.to_owned().into();
    let request = DeleteRangeRequest { key, ..DeleteRangeRequest::default() };
    Ok(registry.delete_range(request).await?.deleted)
}

/// A key as a transaction reads it that changes nothing.
async fn read_by_transaction(registry: &Registry, key: &str) -> Option<Bytes> {
    let range = RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() };
    let read = RequestOp { request: Some(Request::RequestRange(range)) };
    let request = TxnRequest { success: vec![read], ..TxnRequest::default() };
    let mut answer = registry.txn(request).await.expect("reads work always");
    match answer.responses.remove(0).response {
        Some(Response::ResponseRange(mut range)) => range.kvs.pop().map(|found| found.value),
        other => panic!("{other:?}"),
    }
}

/// What was told but for snapshots, which have no room either.
fn told_of_log(notices: &Mutex<Vec<String>>) -> Vec<String> {
    let of_log = |it: &&String| !it.contains("the log grows until");
    notices.lock().expect("no panic").iter().filter(of_log).cloned().collect()
}

#[test]
fn what_a_full_disk_refuses_never_comes_and_what_frees_room_goes_on() {
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
                match put(&registry, "key", value).await {
                    Ok(_) => shared.borrow_mut().acknowledged.insert("key".to_owned(), value),
                    Err(error) => break error,
                };
            };
            assert!(error.is_resource_exhausted(), "{room}: {error}");
            assert!(error.message().contains("database space exceeded"), "as etcd's: {error}");
            let grant = LeaseGrantRequest { id: 7, ttl: 60 };
            let refused = registry.lease_grant(grant).await.expect_err("it would take room");
            assert_eq!(refused.message(), error.message());
            let status = registry.status(StatusRequest {}).await.expect("it answers");
            assert!(status.errors[0].contains("takes no puts"), "{:?}", status.errors);
            assert_eq!(registry.health().expect("a page").status().as_u16(), 503);
            let alarms =
                async || registry.alarm(AlarmRequest::default()).await.expect("a list").alarms;
            assert_eq!(alarms().await[0].alarm(), AlarmType::Nospace);
            let acknowledged = shared.borrow().acknowledged.get("key").copied();
            let key = async || all(&registry).await.0.get("key").copied();
            assert_eq!(key().await, acknowledged);
            let read = read_by_transaction(&registry, "key").await;
            assert_eq!(read, acknowledged.map(|value| value.to_string().into()));
            assert_eq!(delete(&registry, "early").await.expect("it frees room"), 1);
            sleep(Duration::from_secs(5)).await;
            assert_eq!(told_of_log(&notices), status.errors, "{room}: once");
            fs::remove_file("/filler").await.expect("it was there");
            sleep(Duration::from_secs(2)).await;
            let told = told_of_log(&notices);
            assert_eq!(told[1..], ["the registry's disk has room again, and changes are taken"]);
            assert_eq!(alarms().await, []);
            assert_eq!(key().await, acknowledged, "a refusal is a no");
            let revision = put(&registry, "late", 2).await.expect("there is room");
            let mut told = shared.borrow_mut();
            told.acknowledged.insert("late".to_owned(), 2);
            told.sent.extend([("key".to_owned(), value - 1), ("late".to_owned(), 2)]);
            told.revision = revision;
        });
        disk.crash();
        on(&disk, SimConfig::new(1), async move {
            let registry = open().await.unwrap_or_else(|error| panic!("{room}: {error}"));
            check(&registry, &told, room as u64).await;
        });
    }
}

#[test]
fn a_change_that_does_not_fit_on_the_disk_is_unknown_and_comes_when_there_is_room() {
    let disk = Disk::with_capacity(1, 40_000);
    on(&disk, SimConfig::new(1), async {
        let (registry, notices) = open_with(1 << 20).await.expect("an empty folder");
        put(&registry, "early", 1).await.expect("there is room");
        sleep(Duration::from_secs(1)).await;
        fill(0).await;
        let large = || PutRequest { value: vec![b'1'; 1_000].into(), ..put_request("large", 0) };
        let error = registry.put(large()).await.expect_err("it has no room");
        assert!(error.is_unavailable() && error.message().contains("comes when"), "{error}");
        let refused = delete(&registry, "early").await.expect_err("it comes behind the other");
        assert!(refused.is_resource_exhausted(), "{refused}");
        assert_eq!(read_by_transaction(&registry, "early").await, Some("1".into()));
        assert_eq!(read_by_transaction(&registry, "large").await, None, "it is not on the disk");
        let told = told_of_log(&notices);
        assert!(told.len() == 1 && told[0].contains("no changes until there is room"), "{told:?}");
        fs::remove_file("/filler").await.expect("it was there");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(read_by_transaction(&registry, "large").await, Some(large().value));
        assert_eq!(told_of_log(&notices).len(), 2, "it has room again");
        assert_eq!(delete(&registry, "early").await.expect("there is room"), 1);
    });
}

/// The names in the folder with the bytes of these files.
async fn files() -> BTreeMap<String, u64> {
    let mut files = BTreeMap::new();
    let mut listing = fs::read_dir("/data").await.expect("a folder");
    loop {
        let batch = listing.next_batch().await.expect("a folder");
        if batch.is_empty() {
            return files;
        }
        for entry in batch {
            let path = Path::new("/data").join(&entry.name);
            // A file that was removed meanwhile has no bytes.
            let bytes = fs::metadata(path).await.map_or(0, |found| found.len);
            files.insert(entry.name.to_string_lossy().into_owned(), bytes);
        }
    }
}

#[test]
fn snapshots_come_to_their_end_however_fast_keys_change() {
    const LOG_BYTES: usize = 300_000;
    const VALUE_BYTES: usize = 50_000;
    const CLIENTS: usize = 16;
    let disk = Disk::new(1);
    on(&disk, SimConfig::new(1), async {
        let (registry, notices) = open_with(LOG_BYTES).await.expect("an empty folder");
        let put = |at: usize, value: usize| PutRequest {
            value: vec![value as u8; VALUE_BYTES].into(),
            ..put_request(&format!("key{}", at % 60), 0)
        };
        for at in 0..60 {
            registry.put(put(at, 0)).await.expect("a sound disk");
        }
        let writers: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let registry = registry.clone();
                spawn(async move {
                    for round in 1..20 {
                        let request = put(client + round * CLIENTS, round);
                        registry.put(request).await.expect("it waits, and is not refused");
                    }
                })
            })
            .collect();
        let is_over = Rc::new(Cell::new(false));
        let ended = Rc::clone(&is_over);
        let watched = spawn(async move {
            let mut most = 0;
            loop {
                let files = files().await;
                let logs = files.iter().filter(|(name, _)| name.starts_with("log-"));
                most = most.max(logs.map(|(_, bytes)| bytes).sum());
                if ended.get() && files.len() <= 2 {
                    return most; // a log and its snapshot
                }
                sleep(Duration::from_micros(100)).await;
            }
        });
        for writer in writers {
            writer.await.expect("no panic");
        }
        is_over.set(true);
        let most = watched.await.expect("no panic");
        assert!(notices.lock().expect("no panic").is_empty(), "all snapshots were made");
        // The file before the snapshot, what the log may grow by while one is made, and a batch of all clients for each.
        let keys = 60 * VALUE_BYTES;
        let paced =
            LOG_BYTES + keys / limits::PACED_KEYS_SHARE + LOG_BYTES / limits::UNPACED_LOG_SHARE;
        let bound = (keys / limits::LOG_KEYS_SHARE).max(paced) + paced + 3 * CLIENTS * VALUE_BYTES;
        assert!(most < bound as u64, "{most} bytes of logs; {bound} are allowed");
    });
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

#[test]
fn files_of_others_are_left_alone() {
    let names = ["log-1", "log-+0000000000000001", "snapshot-copy.tmp", "log-0000000000000001.bak"];
    let (disk, ..) = three_puts();
    on(&disk, SimConfig::new(1), async move {
        for name in names {
            let path = Path::new("/data").join(name);
            fs::write_atomic(path, b"another's".to_vec()).await.expect("there is room");
        }
        let registry = open().await.expect("they are none of its files");
        assert_eq!(all(&registry).await.0.len(), 3);
        for name in names {
            fs::metadata(Path::new("/data").join(name)).await.expect("it is still there");
        }
    });
}

#[test]
fn others_have_their_turns_while_a_registry_starts() {
    let disk = Disk::new(1);
    let value = Bytes::from(vec![b'v'; limits::RESTORED_BYTES_AT_ONCE]);
    let log_bytes = 200 * value.len();
    on(&disk, SimConfig::new(1), async move {
        let (registry, _) = open_with(log_bytes).await.expect("an empty folder");
        for _ in 0..100 {
            let put = PutRequest { key: "k".into(), value: value.clone(), ..PutRequest::default() };
            registry.put(put).await.expect("a sound disk");
        }
    });
    let polls = on(&disk, SimConfig::new(1), async move {
        let mut opening = pin!(open_with(log_bytes));
        let mut polls = 0;
        let opened = poll_fn(|cx| {
            polls += 1;
            opening.as_mut().poll(cx)
        });
        opened.await.expect("its folder");
        polls
    });
    assert!(polls >= 100, "100 values in {polls} turns, most of which wait for the disk");
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
        // The first request has somebody look after the leases.
        assert!(all(&registry).await.0.contains_key("key20"));
        assert!((19..=20).contains(&left(&registry, 20).await), "20 seconds were promised");
        sleep(Duration::from_secs(19)).await;
        assert!(all(&registry).await.0.contains_key("key20"), "nor does it end before");
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
                registry.put(large).await.expect_err("there is no room").is_unavailable()
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
        assert!(under_way.await.expect("no panic"), "nobody knows whether it comes");
        for change in changes {
            assert!(!change.await.expect("no panic"), "it is not on the disk");
        }
        assert_eq!(told_of_leases(&registry, 600).await, logged);
        assert_eq!(told_of_leases(&registry, 5).await.1, -1);
        assert_eq!(registry.renew_lease(5).ttl, 0);
        assert_eq!(registry.renew_lease(700).ttl, 700, "renewals go on");
        fs::remove_file("/filler").await.expect("it was there");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(told_of_leases(&registry, 600).await, (vec![5, 600, 700], 57, vec![]));
    });
}

#[test]
fn changes_that_the_disk_does_not_keep_up_with_wait() {
    const MEBIBYTE: usize = 1 << 20;
    let disk = Disk::new(1);
    on(&disk, SimConfig::new(1), async {
        let registry = open().await.expect("an empty folder");
        // More at once than is gathered.
        let count = 2 * limits::JOURNAL_BYTES_MAX / MEBIBYTE + 1;
        let writers: Vec<_> = (0..count)
            .map(|at| {
                let (registry, value) = (registry.clone(), vec![b'v'; MEBIBYTE].into());
                let request = PutRequest { value, ..put_request(&format!("key{at}"), 0) };
                spawn(async move { registry.put(request).await.map(drop) })
            })
            .collect();
        for writer in writers {
            writer.await.expect("no panic").expect("it is not refused");
        }
    });
}

#[test]
fn snapshots_that_always_fail_end_the_log_before_it_fills_the_disk() {
    let disk = Disk::new(1);
    on(&disk, SimConfig::new(1), async {
        let (registry, notices) = open_with(300).await.expect("an empty folder");
        for number in 2..100 {
            // Something else is there already.
            let path = format!("/data/snapshot-{number:016}.tmp");
            fs::create_dir(path).await.expect("a sound disk");
        }
        let mut value = 0;
        let error = loop {
            value += 1;
            match put(&registry, "key", value).await {
                Ok(_) => sleep(Duration::from_millis(10)).await,
                Err(error) => break error,
            }
        };
        assert!(error.is_unavailable(), "{error}");
        let failures = limits::SNAPSHOT_FAILURES_MAX;
        assert!(error.message().contains(&format!("{failures} snapshots in a row")), "{error}");
        let logs = files().await.into_keys().filter(|name| name.starts_with("log-")).count();
        assert!(logs <= failures as usize + 1, "{logs} files of the log");
        let told = notices.lock().expect("no panic").len();
        assert_eq!(told, failures as usize + 1, "one for each, and one for the end");
    });
}

/// Opens a registry in a folder of the real disk, with a new log every so many bytes.
async fn open_real(path: &Path, log_bytes_max: usize) -> Result<Registry, Error> {
    let mut folder = Folder::open(path).await?;
    folder.log_bytes_max = log_bytes_max;
    Registry::builder().on_notice(|_| {}).open_in(folder).await
}

#[test]
fn a_registry_whose_folder_was_moved_leaves_the_next_one_of_that_name_alone() {
    let directory = tempfile::tempdir().expect("a folder");
    let [data, moved] = ["data", "moved"].map(|name| directory.path().join(name));
    ringway_runtime::block_on(async move {
        let first = open_real(&data, 1_000).await.expect("nobody has it");
        put(&first, "of-first", 1).await.expect("a sound disk");
        std::fs::rename(&data, &moved).expect("it is moved");
        let second = open_real(&data, 1 << 20).await.expect("a folder without keys");
        put(&second, "of-second", 1).await.expect("a sound disk");
        let mut last = 0;
        let error = loop {
            match put(&first, "of-first", last + 1).await {
                Ok(_) => last += 1,
                Err(error) => break error,
            }
        };
        assert!(error.is_unavailable() && error.message().contains("moved away"), "{error}");
        assert!(last > 5, "until its log was full: {last}");
        put(&second, "of-second", 2).await.expect("a sound disk");
        drop((first, second));
        for (path, key, value) in [(&data, "of-second", 2), (&moved, "of-first", last)] {
            let registry = loop {
                match open_real(path, 1 << 20).await {
                    Ok(registry) => break registry,
                    // The task that has written the log has still to end.
                    Err(error) => assert!(error.to_string().contains("in use"), "{error}"),
                }
                sleep(Duration::from_millis(1)).await;
            };
            let (keys, _) = all(&registry).await;
            assert!(keys.len() == 1 && keys[key] >= value, "{keys:?}");
        }
    })
    .expect("a core");
}
