//! Watches of files and directories, over every driver.

use std::ffi::OsStr;
use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use ringway_runtime::fs::{self, Changes, File, OpenOptions, Watch};
use ringway_runtime::sim::{Disk, SimConfig, mount};
use ringway_runtime::{Backend, Builder, timeout};

use crate::files::Place;
use crate::support::{Driver, block_on};

on_every_driver!(
    a_directory_tells_what_changes_in_it,
    a_file_is_seen_to_be_written_replaced_removed_and_made,
    changes_nobody_waited_for_are_told_as_one,
    a_dropped_wait_loses_nothing,
    a_directory_that_goes_ends_its_watch,
    several_watches_are_told_apart,
    what_is_not_there_cannot_be_watched,
    many_changes_say_look_again,
);

mod kernel {
    use super::{a_swapped_link_is_a_change, watches_leave_no_descriptor};

    on_every_kernel_driver!(a_swapped_link_is_a_change, watches_leave_no_descriptor);
}

fn names(changes: &Changes) -> Vec<&OsStr> {
    changes.names().collect()
}

/// Waits until exactly the `expected` changes were reported.
async fn told(watch: &mut Watch, expected: &[&str]) {
    let mut missing: Vec<_> = expected.to_vec();
    while !missing.is_empty() {
        let changes = watch.changed().await.expect("it tells");
        for name in names(&changes) {
            assert!(expected.iter().any(|expected| name == *expected), "{name:?}");
            missing.retain(|missing| name != *missing);
        }
    }
}

async fn write(path: impl AsRef<Path>, content: &'static str) {
    let options = OpenOptions::new().write(true).create(true).truncate(true);
    let file = options.open(path).await.expect("made");
    file.write_all_at(0, content).await.expect("room");
}

async fn a_directory_tells_what_changes_in_it(driver: Driver) {
    let place = Place::new(driver).await;
    write(place.at("old"), "old").await;
    let mut watch = fs::watch(place.path()).await.expect("there");
    write(place.at("file"), "content").await;
    told(&mut watch, &["file"]).await;
    fs::rename(place.at("file"), place.at("moved")).await.expect("moved");
    told(&mut watch, &["file", "moved"]).await;
    fs::remove_file(place.at("old")).await.expect("there");
    told_at_last(&mut watch, "old").await;
    fs::create_dir(place.at("below")).await.expect("made");
    told_at_last(&mut watch, "below").await;
}

/// Waits until `name` is reported. Earlier changes may be reported again.
async fn told_at_last(watch: &mut Watch, name: &str) {
    while !watch.changed().await.expect("it tells").names().any(|told| told == name) {}
}

async fn a_file_is_seen_to_be_written_replaced_removed_and_made(driver: Driver) {
    let place = Place::new(driver).await;
    let path = place.at("settings");
    let mut watch = fs::watch(&path).await.expect("its directory is there");
    let mut expected = ["made", "written", "replaced"].into_iter();
    write(&path, "made").await;
    read_until(&mut watch, &path, expected.next()).await;
    write(&path, "written").await;
    read_until(&mut watch, &path, expected.next()).await;
    write(place.at("other"), "beside it").await;
    fs::write_atomic(&path, "replaced").await.expect("room");
    read_until(&mut watch, &path, expected.next()).await;
    fs::remove_file(&path).await.expect("there");
    read_until(&mut watch, &path, None).await;
    write(&path, "made again").await;
    read_until(&mut watch, &path, Some("made again")).await;
}

/// Reads the file after each change until it has the `expected` content, as a program with settings does.
async fn read_until(watch: &mut Watch, path: &Path, expected: Option<&str>) {
    loop {
        let changes = watch.changed().await.expect("it tells");
        assert_eq!(names(&changes), ["settings"]);
        let content = fs::read(path, 1_000).await.ok();
        if content.as_deref() == expected.map(str::as_bytes) {
            return;
        }
    }
}

async fn changes_nobody_waited_for_are_told_as_one(driver: Driver) {
    let place = Place::new(driver).await;
    let mut watch = fs::watch(place.path()).await.expect("there");
    for round in 0..50 {
        write(place.at(if round % 2 == 0 { "even" } else { "odd" }), "content").await;
    }
    let changes = watch.changed().await.expect("it tells");
    assert_eq!(names(&changes), ["even", "odd"]);
    assert!(!changes.look_again());
    fs::create_dir(place.at("later")).await.expect("made");
    told_at_last(&mut watch, "later").await;
}

async fn a_dropped_wait_loses_nothing(driver: Driver) {
    let place = Place::new(driver).await;
    let mut watch = fs::watch(place.path()).await.expect("there");
    for round in 0..20 {
        let name = format!("{round}");
        let gave_up = timeout(Duration::from_micros(1), watch.changed()).await;
        assert!(gave_up.is_err(), "nothing has changed");
        fs::create_dir(place.at(&name)).await.expect("made");
        // The future is polled, a change is reported, and the future is dropped.
        let _given_up = timeout(Duration::ZERO, watch.changed()).await.map(|told| {
            assert_eq!(names(&told.expect("it tells")), [OsStr::new(&name)]);
        });
        if _given_up.is_err() {
            told(&mut watch, &[&name]).await;
        }
    }
}

async fn a_directory_that_goes_ends_its_watch(driver: Driver) {
    let place = Place::new(driver).await;
    for is_moved in [false, true] {
        fs::create_dir(place.at("directory")).await.expect("made");
        let mut watch = fs::watch(place.at("directory")).await.expect("there");
        let mut of_file = fs::watch(place.at("directory/file")).await.expect("there");
        match is_moved {
            true => fs::rename(place.at("directory"), place.at("moved")).await.expect("moved"),
            false => fs::remove_dir(place.at("directory")).await.expect("empty"),
        }
        for watch in [&mut watch, &mut of_file] {
            assert_eq!(watch.changed().await.expect_err("gone").kind(), ErrorKind::NotFound);
            assert_eq!(watch.changed().await.expect_err("for good").kind(), ErrorKind::NotFound);
        }
    }
}

async fn several_watches_are_told_apart(driver: Driver) {
    let place = Place::new(driver).await;
    let mut watches = Vec::new();
    for number in 0..5 {
        let directory = place.at(&format!("{number}"));
        fs::create_dir(&directory).await.expect("made");
        let watch = fs::watch(&directory).await.expect("there");
        watches.push((directory, watch));
    }
    for (number, (directory, _)) in watches.iter().enumerate() {
        File::create(directory.join(format!("file-{number}"))).await.expect("made");
    }
    for (number, (_, watch)) in watches.iter_mut().enumerate().rev() {
        told(watch, &[&format!("file-{number}")]).await;
    }
}

async fn what_is_not_there_cannot_be_watched(driver: Driver) {
    let place = Place::new(driver).await;
    let refused = fs::watch(place.at("none/file")).await.expect_err("no such directory");
    assert_eq!(refused.kind(), ErrorKind::NotFound);
}

async fn many_changes_say_look_again(driver: Driver) {
    let place = Place::new(driver).await;
    let mut watch = fs::watch(place.path()).await.expect("there");
    for number in 0..1_100 {
        fs::create_dir(place.at(&format!("{number}"))).await.expect("made");
    }
    let changes = watch.changed().await.expect("it tells");
    assert_eq!(names(&changes).len(), 1_024);
    assert!(changes.look_again());
}

fn a_swapped_link_is_a_change(backend: Backend) {
    // Kubernetes changes the files of a ConfigMap in this way.
    let run = block_on(backend, async {
        let place = Place::new(Driver::Uring).await;
        let link = |to: &str, at: &str| {
            std::os::unix::fs::symlink(to, place.at(at)).expect("a link");
        };
        for version in ["one", "two"] {
            fs::create_dir(place.at(version)).await.expect("made");
            let path = format!("{version}/settings");
            fs::write_atomic(place.at(&path), version).await.expect("room");
        }
        link("one", "..data");
        link("..data/settings", "settings");
        let mut watch = fs::watch(place.at("settings")).await.expect("there");
        assert_eq!(fs::read(place.at("settings"), 100).await.expect("there"), b"one");
        link("two", "..data_tmp");
        fs::rename(place.at("..data_tmp"), place.at("..data")).await.expect("swapped");
        assert_eq!(names(&watch.changed().await.expect("it tells")), ["settings"]);
        assert_eq!(fs::read(place.at("settings"), 100).await.expect("there"), b"two");
    });
    run.expect("a core");
}

fn watches_leave_no_descriptor(backend: Backend) {
    let run = block_on(backend, async {
        let place = Place::new(Driver::Uring).await;
        for _ in 0..60 {
            let mut watch =
                fs::watch(place.path()).await.expect("the former one is closed, or will be");
            crate::file_ends::begin(watch.changed());
            drop(watch);
            // The close comes after that.
            while instances() > 20 {
                fs::metadata(place.path()).await.expect("there");
            }
        }
    });
    run.expect("a core");
}

fn instances() -> usize {
    let listing = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted");
    let targets = listing.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target == Path::new("anon_inode:inotify")).count()
}

#[test]
fn a_watch_ends_when_its_host_crashes() {
    let run = Builder::simulate(SimConfig::harsh(1), async {
        let disk = Disk::new(1);
        mount("/host", &disk).expect("free");
        let mut watch = fs::watch("/host").await.expect("there");
        let mut waits = std::pin::pin!(watch.changed());
        let begun =
            std::future::poll_fn(|cx| std::task::Poll::Ready(waits.as_mut().poll(cx).is_pending()));
        assert!(begun.await);
        disk.crash();
        assert!(waits.await.is_err(), "its host is gone");
    });
    run.expect("not stuck");
}
