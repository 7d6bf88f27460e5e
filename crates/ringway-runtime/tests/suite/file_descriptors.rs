//! Descriptors of files in the whole process: none is left, and things that are no files get none.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ringway_runtime::fs::{self, File, OpenOptions};
use ringway_runtime::{Backend, Runtime, spawn, yield_now};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::file_ends::begin;
use crate::files::pattern;
use crate::support::block_on;

on_every_kernel_driver!(
    dropped_operations_leave_no_descriptor,
    what_is_no_file_is_refused_at_once,
    files_made_up_by_the_kernel_are_read,
    a_core_ends_while_files_are_worked_on,
    files_outlive_their_core,
    files_change_their_core,
);

/// A directory outside of any core.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, backend: Backend) -> Self {
        let name = format!("ringway-{name}-{backend}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory of its own");
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_dir_all(&self.0);
    }
}

fn dropped_operations_leave_no_descriptor(backend: Backend) {
    let scratch = Scratch::new("descriptors", backend);
    let path = scratch.at("file");
    std::fs::write(&path, "content").expect("room");
    let run = block_on(backend, async move {
        let file = File::open(&path).await.expect("there");
        let before = links_to(&path);
        for _ in 0..300 {
            begin(File::open(&path));
            let open = File::open(&path).await.expect("there");
            begin(open.read_at(0, 100, Vec::new()));
        }
        // Each operation ends after those that began before it, so this ends soon, or never.
        while links_to(&path) > before {
            file.metadata().await.expect("open");
        }
    });
    run.expect("a core");
}

/// The descriptors of this process that are open on `path`.
fn links_to(path: &Path) -> usize {
    let listing = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted");
    let targets = listing.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target == path).count()
}

fn what_is_no_file_is_refused_at_once(backend: Backend) {
    let scratch = Scratch::new("pipes", backend);
    let pipe = scratch.at("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let socket = scratch.at("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let run = block_on(backend, async move {
        for path in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
            let Err(refused) = File::open(path).await else { panic!("{path:?} is a file") };
            // A process without a terminal has no /dev/tty.
            let is_refused = refused.kind() == ErrorKind::InvalidInput;
            assert!(
                is_refused || refused.raw_os_error() == Some(libc::ENXIO),
                "{path:?}: {refused}"
            );
        }
        assert!(File::open(&socket).await.is_err());
        // Nobody reads that pipe, and opening it for writing must not wait for a reader.
        assert!(OpenOptions::new().write(true).open(&pipe).await.is_err());
        assert!(OpenOptions::new().read(true).write(true).open(&pipe).await.is_err());
        assert_eq!(fs::metadata(&pipe).await.expect("there").kind, fs::FileKind::Other);
    });
    run.expect("a core");
}

fn files_made_up_by_the_kernel_are_read(backend: Backend) {
    let run = block_on(backend, async {
        let status = fs::read("/proc/self/status", 1 << 20).await.expect("/proc is mounted");
        assert!(status.starts_with(b"Name:"), "{}", status.escape_ascii());
        let refused = fs::read("/proc/self/status", 10).await.expect_err("it is longer");
        assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
    });
    run.expect("a core");
}

fn a_core_ends_while_files_are_worked_on(backend: Backend) {
    let scratch = Scratch::new("ends", backend);
    for round in 0..6 {
        let path = scratch.at(&format!("{round}"));
        let run = block_on(backend, async move {
            let file = File::create(&path).await.expect("made");
            for at in 0..50 {
                let file = file.clone();
                spawn(async move {
                    let content = pattern(100_000);
                    file.write_all_at(at * 100_000, content).await.expect("room");
                    file.sync_data().await.expect("a disk");
                });
            }
            for _ in 0..round {
                yield_now().await;
            }
        });
        run.expect("a core");
    }
    // The end of the suite checks that nothing is left.
}

fn files_outlive_their_core(backend: Backend) {
    let scratch = Scratch::new("outlive", backend);
    let path = scratch.at("file");
    let made = path.clone();
    let file = block_on(backend, async move { File::create(&made).await }).expect("a core");
    let file = file.expect("made");
    assert_eq!(links_to(&path), 1);
    // Another core of this process uses it.
    let used = file.clone();
    let run = block_on(backend, async move { used.write_all_at(0, "used").await });
    run.expect("a core").expect("room");
    // A job of the pool may close it.
    while links_to(&path) > 1 {
        std::thread::yield_now();
    }
    drop(file);
    assert_eq!(links_to(&path), 0, "closed on the spot, where there is no core");
    assert_eq!(std::fs::read(&path).expect("there"), b"used");
}

fn files_change_their_core(backend: Backend) {
    let scratch = Scratch::new("change", backend);
    let path = scratch.at("file");
    let runtime = Runtime::builder().threads(2).backend(backend).start().expect("two cores");
    let made = path.clone();
    let file = runtime.cores()[0].spawn(async move || File::create(made).await);
    let file = file.expect("room").wait().expect("no panic").expect("made");
    let there = file.clone();
    let written = runtime.cores()[1].spawn(async move || there.append("from afar").await);
    written.expect("room").wait().expect("no panic").expect("room");
    drop((file, runtime));
    assert_eq!(std::fs::read(&path).expect("there"), b"from afar");
}
