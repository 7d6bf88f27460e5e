//! Simulated disks: their content after a crash, and programs on disks that fail.

use std::io::{self, ErrorKind};
use std::time::Duration;

use ringway_runtime::fs::{self, File, OpenOptions};
use ringway_runtime::sim::{Disk, Faults, SimConfig, mount};
use ringway_runtime::{Builder, now, sleep, spawn};

use crate::files::{names_in, pattern};

const SEEDS: u64 = 60;

/// Runs `main` with `disk` as the only disk.
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

/// The contents of a disk after a crash, as `content` reads them, over many seeds.
fn after_crashes<F, T>(
    config: fn(u64) -> SimConfig,
    before: fn() -> F,
    after: fn() -> T,
) -> Vec<T::Output>
where
    F: Future<Output = io::Result<()>> + 'static,
    T: Future + 'static,
    T::Output: 'static,
{
    let run = |seed| {
        let disk = Disk::new(seed);
        on(&disk, config(seed), before()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        disk.crash();
        on(&disk, config(seed), after())
    };
    (0..SEEDS).map(run).collect()
}

#[test]
fn a_file_is_replaced_as_a_whole_or_not_at_all() {
    let before = || async {
        fs::write_atomic("/state", vec![1; 1_000]).await?;
        let second = spawn(async { fs::write_atomic("/state", vec![2; 5_000]).await });
        // The crash comes at any moment.
        sleep(Duration::from_micros(u64::from(now_in_micros() % 1_500))).await;
        drop(second);
        Ok(())
    };
    let states = after_crashes(SimConfig::harsh, before, || fs::read("/state", 10_000));
    let states: Vec<_> = states.into_iter().map(|state| state.expect("it was synced")).collect();
    let old = states.iter().filter(|state| **state == [1; 1_000]).count();
    let new = states.iter().filter(|state| **state == [2; 5_000]).count();
    assert_eq!(old + new, states.len(), "a mixture");
    assert!(old > 0 && new > 0, "{old} times the old one, {new} times the new one");
}

/// A number that differs between seeds, made of the virtual time that has passed.
fn now_in_micros() -> u32 {
    now().duration_since(ringway_runtime::origin()).subsec_micros()
}

#[test]
fn a_file_that_is_only_renamed_may_be_empty_after_a_crash() {
    // `write_atomic` exists to prevent this mistake.
    let before = || async {
        let file = File::create("/new").await?;
        file.write_all_at(0, "content").await?;
        fs::rename("/new", "/state").await?;
        fs::sync_dir("/").await
    };
    let states = after_crashes(SimConfig::new, before, || fs::read("/state", 100));
    let whole =
        |state: &io::Result<Vec<u8>>| state.as_ref().expect("its name is durable") == b"content";
    let broken = states.iter().filter(|state| !whole(state)).count();
    assert!(broken > 0 && broken < states.len(), "{broken} times");
}

#[test]
fn names_without_a_sync_of_their_directory_may_be_lost() {
    let before = || async {
        let file = File::create("/file").await?;
        file.write_all_at(0, "content").await?;
        file.sync_all().await // of the file, not of its name
    };
    let found = after_crashes(SimConfig::new, before, || fs::read("/file", 100));
    let lost = found.iter().filter(|found| found.is_err()).count();
    assert!(lost > 0 && lost < found.len(), "{lost} times");
    for content in found.into_iter().flatten() {
        assert_eq!(content, b"content", "it has its name, and its content was synced");
    }
}

#[test]
fn a_new_directory_needs_the_sync_of_its_parent() {
    let before = || async {
        fs::create_dir("/dir").await?;
        File::create("/dir/file").await?;
        fs::sync_dir("/dir").await
    };
    let found = after_crashes(SimConfig::new, before, || fs::metadata("/dir/file"));
    assert!(found.iter().any(Result::is_ok) && found.iter().any(Result::is_err));
    let before = || async {
        fs::create_dir("/dir").await?;
        fs::sync_dir("/").await?;
        File::create("/dir/file").await?;
        fs::sync_dir("/dir").await
    };
    let found = after_crashes(SimConfig::new, before, || fs::metadata("/dir/file"));
    assert!(found.iter().all(Result::is_ok));
}

#[test]
fn removed_and_renamed_files_may_be_back() {
    let before = || async {
        for name in ["/removed", "/from"] {
            File::create(name).await?;
        }
        fs::sync_dir("/").await?;
        fs::remove_file("/removed").await?;
        fs::rename("/from", "/to").await
    };
    let found = after_crashes(SimConfig::new, before, || names_in("/".as_ref()));
    for names in [&["from", "removed"][..], &["from"], &["to"]] {
        assert!(found.iter().any(|found| found == names), "never {names:?}");
    }
    // Changes are lost in their order, and a rename is one step.
    assert!(found.iter().all(|found| *found == ["from", "removed"] || found.len() == 1));
}

#[test]
fn a_log_is_a_prefix_of_what_was_written_and_has_all_that_was_synced() {
    const RECORD: usize = 100;
    for seed in 0..SEEDS {
        let disk = Disk::new(seed);
        // Each record contains its number. A record is synced before the next but two is written.
        let write = async {
            let log = OpenOptions::new().write(true).create(true).open("/log").await?;
            fs::sync_dir("/").await?;
            for number in 0..20_u8 {
                log.append(vec![number + 1; RECORD]).await?;
                if number == 16 {
                    log.sync_data().await?;
                }
            }
            io::Result::Ok(())
        };
        on(&disk, SimConfig::harsh(seed), write).expect("no faults but short writes");
        disk.crash();
        let log =
            on(&disk, SimConfig::new(seed), fs::read("/log", 10_000)).expect("its name is synced");
        assert!(log.len() >= 17 * RECORD, "seed {seed}: {} bytes", log.len());
        for (at, &byte) in log.iter().enumerate() {
            let written = (at / RECORD) as u8 + 1;
            let is_lost = byte == 0 && at >= 17 * RECORD;
            assert!(byte == written || is_lost, "seed {seed}: {byte} at {at}");
        }
    }
}

#[test]
fn one_seed_has_one_outcome() {
    let run = |seed| {
        let disk = Disk::new(seed);
        let faults = Faults { sync_errors: 200, disk_full: 50, ..Faults::harsh() };
        let config = SimConfig { faults, ..SimConfig::new(seed) };
        let told = on(&disk, config, async {
            let mut told = Vec::new();
            for number in 0..30 {
                let name = format!("/{number}");
                told.push(format!("{:?}", fs::write_atomic(&name, pattern(number * 100)).await));
            }
            told
        });
        disk.crash();
        let left = on(&disk, SimConfig::new(seed), async {
            let mut left = Vec::new();
            for name in names_in("/".as_ref()).await {
                left.push((fs::read(format!("/{name}"), 10_000).await.expect("there"), name));
            }
            left
        });
        (told, left)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_sync_that_fails_is_not_mended_by_the_next() {
    let faults = Faults { sync_errors: 1_000, ..Faults::none() };
    let mut lost = 0;
    for seed in 0..SEEDS {
        let disk = Disk::new(seed);
        on(&disk, SimConfig::new(seed), async { fs::write_atomic("/file", "old").await })
            .expect("works");
        let failed = on(&disk, SimConfig { faults, ..SimConfig::new(seed) }, async {
            let file = OpenOptions::new().write(true).open("/file").await?;
            file.write_all_at(0, "NEW").await?;
            io::Result::Ok(file.sync_all().await.expect_err("it always fails").kind())
        });
        failed.expect("only syncs fail");
        let read = on(&disk, SimConfig::new(seed), async {
            let file = OpenOptions::new().read(true).write(true).open("/file").await?;
            file.sync_all().await?;
            file.read_exact_at(0, 3, Vec::new()).await
        });
        assert_eq!(read.expect("works"), b"NEW", "what is in memory is read");
        disk.crash();
        let left = on(&disk, SimConfig::new(seed), fs::read("/file", 10)).expect("there");
        lost += u32::from(left == b"old");
    }
    assert_eq!(lost, SEEDS as u32, "the second sync had nothing to write any more");
}

#[test]
fn a_full_disk_refuses_and_goes_on() {
    let disk = Disk::with_capacity(1, 10_000);
    on(&disk, SimConfig::new(1), async {
        let file = File::create("/file").await.expect("room");
        file.write_all_at(0, vec![1; 9_000]).await.expect("room");
        let refused = file.write_all_at(9_000, vec![2; 2_000]).await.expect_err("full");
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        assert_eq!(file.set_len(20_000).await.expect_err("full").kind(), ErrorKind::StorageFull);
        assert_eq!(
            file.allocate(0, 20_000).await.expect_err("full").kind(),
            ErrorKind::StorageFull
        );
        assert_eq!(
            file.write_at(1 << 60, "x").await.expect_err("full").kind(),
            ErrorKind::StorageFull
        );
        // A full disk allows changes of existing bytes, and a removal makes room.
        file.write_all_at(0, vec![3; 9_000]).await.expect("no more than before");
        drop(file);
        fs::remove_file("/file").await.expect("there");
        fs::write_atomic("/other", vec![4; 9_000]).await.expect("room again");
    });
}

#[test]
fn hosts_have_disks_of_their_own_and_crash_apart() {
    let run = Builder::simulate(SimConfig::new(3), async {
        let (one, other) = (Disk::new(1), Disk::new(2));
        mount("/one", &one).expect("free");
        mount("/other", &other).expect("free");
        let lost = File::create("/one/file").await.expect("room");
        let kept = File::create("/other/file").await.expect("room");
        lost.write_all_at(0, "content").await.expect("room");
        kept.write_all_at(0, "content").await.expect("room");
        let crossed = fs::rename("/one/file", "/other/moved").await.expect_err("two disks");
        assert_eq!(crossed.kind(), ErrorKind::CrossesDevices);
        // The crash comes in the middle of a write.
        let mut write = std::pin::pin!(lost.write_all_at(0, "CONTENT"));
        let begun =
            std::future::poll_fn(|cx| std::task::Poll::Ready(write.as_mut().poll(cx).is_pending()));
        assert!(begun.await);
        one.crash();
        assert!(write.await.is_err(), "its host is gone");
        assert!(lost.metadata().await.is_err(), "and so is the file that it had open");
        assert_eq!(kept.read_exact_at(0, 7, Vec::new()).await.expect("read"), b"content");
        // The host is up again.
        fs::write_atomic("/one/file", "again").await.expect("room");
        assert_eq!(fs::read("/one/file", 10).await.expect("read"), b"again");
        assert_eq!(
            mount("/one", &Disk::new(3)).expect_err("a file is open").kind(),
            ErrorKind::ResourceBusy
        );
    });
    run.expect("no descriptor is left, nothing is stuck");
}

#[test]
fn only_simulations_have_disks() {
    let disk = Disk::new(1);
    let run = crate::support::block_on(ringway_runtime::Backend::Epoll, async move {
        mount("/", &disk).expect_err("no simulation").kind()
    });
    assert_eq!(run.expect("a core"), ErrorKind::Unsupported);
}

#[test]
fn descriptors_run_out_and_come_back() {
    let config = SimConfig { descriptors_max: 3, ..SimConfig::new(1) };
    let run = Builder::simulate(config, async {
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(File::create("/file").await.expect("room"));
        }
        let refused = File::create("/file").await.expect_err("no descriptor");
        assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
        open.pop();
        sleep(Duration::from_millis(10)).await;
        File::open("/file").await.expect("one is free again");
    });
    run.expect("not stuck");
}
