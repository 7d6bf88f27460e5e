//! Files on every driver: reads return what was written, refusals say why, and dropped futures and files
//! leave nothing behind.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use ringway_runtime::fs::{self, File, FileKind, OpenOptions};

use crate::support::Driver;

on_every_driver!(
    what_is_written_is_read,
    pieces_beyond_one_operation,
    reads_behind_the_end,
    options_say_what_may_be_done,
    appends_go_to_the_end,
    lengths_are_set,
    metadata_tells_what_there_is,
    names_move_and_go,
    directories_are_made_and_removed,
    directories_are_listed_in_batches,
    whole_files_within_a_bound,
    files_are_replaced_atomically,
    paths_that_lead_nowhere,
    paths_do_not_leave_a_root,
    many_operations_at_once,
    clones_share_a_file,
);

/// A directory of one test: of the kernel's, removed at the end, or of the simulation's.
pub(crate) struct Place {
    path: PathBuf,
    of_kernel: bool,
}

impl Place {
    pub(crate) async fn new(driver: Driver) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let of_kernel = driver != Driver::Sim;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = match of_kernel {
            true => std::env::temp_dir().join(format!("ringway-{}-{number}", std::process::id())),
            false => PathBuf::from("/place"),
        };
        fs::create_dir(&path).await.expect("a directory of its own");
        Self { path, of_kernel }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.of_kernel {
            let _gone_already = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Bytes that name their position.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

#[track_caller]
fn kind_of<T: std::fmt::Debug>(result: std::io::Result<T>) -> ErrorKind {
    result.expect_err("this is refused").kind()
}

async fn what_is_written_is_read(driver: Driver) {
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    assert_eq!(file.write_at(0, "hello").await.expect("room"), 5);
    file.write_all_at(5, Bytes::from_static(b", world")).await.expect("room");
    file.sync_data().await.expect("a disk");
    file.sync_all().await.expect("a disk");
    let content = file.read_exact_at(0, 12, Vec::new()).await.expect("read");
    assert_eq!(content, b"hello, world");
    // This reads behind the content of the buffer, into the buffer's own memory.
    let mut buffer = Vec::with_capacity(64);
    buffer.extend_from_slice(b"> ");
    let memory = buffer.as_ptr();
    let buffer = file.read_exact_at(7, 5, buffer).await.expect("read");
    assert_eq!((buffer.as_slice(), buffer.as_ptr()), (b"> world".as_slice(), memory));
    // A gap is filled with zeros.
    file.write_all_at(14, "!").await.expect("room");
    let end = file.read_exact_at(11, 4, Vec::new()).await.expect("read");
    assert_eq!(end, b"d\0\0!");
}

async fn pieces_beyond_one_operation(driver: Driver) {
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    let content = pattern(1_500_000);
    file.write_all_at(0, content.clone()).await.expect("room");
    let read = file.read_exact_at(0, content.len(), Vec::new()).await.expect("read");
    assert!(read == content, "bytes changed");
    let part = file.read_at(1, usize::MAX, Vec::new()).await.expect("read");
    assert!(!part.is_empty() && part.len() <= 512 * 1024, "{}", part.len());
    assert!(part == content[1..=part.len()]);
    let written = file.write_at(0, content).await.expect("room");
    assert!((1..=512 * 1024).contains(&written), "{written}");
}

async fn reads_behind_the_end(driver: Driver) {
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    file.write_all_at(0, "abc").await.expect("room");
    assert_eq!(file.read_at(3, 10, b"kept".to_vec()).await.expect("read"), b"kept");
    assert_eq!(file.read_at(1 << 40, 10, Vec::new()).await.expect("read"), b"");
    assert_eq!(kind_of(file.read_exact_at(1, 3, Vec::new()).await), ErrorKind::UnexpectedEof);
    assert_eq!(file.read_exact_at(3, 0, Vec::new()).await.expect("nothing"), b"");
    assert_eq!(file.read_at(0, 0, Vec::new()).await.expect("nothing"), b"");
}

async fn options_say_what_may_be_done(driver: Driver) {
    let place = Place::new(driver).await;
    let path = place.at("file");
    let options = OpenOptions::new;
    assert_eq!(kind_of(options().open(&path).await), ErrorKind::InvalidInput);
    assert_eq!(
        kind_of(options().read(true).create(true).open(&path).await),
        ErrorKind::InvalidInput
    );
    assert_eq!(kind_of(options().read(true).open(&path).await), ErrorKind::NotFound);
    let file = options().write(true).create_new(true).mode(0o600).open(&path).await.expect("new");
    file.write_all_at(0, "0123456789").await.expect("room");
    assert_eq!(file.metadata().await.expect("open").mode, 0o600);
    assert!(file.read_at(0, 1, Vec::new()).await.is_err(), "opened to write");
    let again = options().write(true).create_new(true).open(&path).await;
    assert_eq!(kind_of(again), ErrorKind::AlreadyExists);
    let reader = File::open(&path).await.expect("there");
    assert!(reader.write_at(0, "x").await.is_err(), "opened to read");
    let kept = options().write(true).create(true).open(&path).await.expect("there");
    assert_eq!(kept.metadata().await.expect("open").len, 10);
    let emptied = options().write(true).truncate(true).open(&path).await.expect("there");
    assert_eq!(emptied.metadata().await.expect("open").len, 0);
    assert_eq!(kind_of(File::open(place.path()).await), ErrorKind::IsADirectory);
}

async fn appends_go_to_the_end(driver: Driver) {
    let place = Place::new(driver).await;
    let path = place.at("log");
    let log = OpenOptions::new().write(true).create(true).open(&path).await.expect("made");
    log.append("one ").await.expect("room");
    let other = OpenOptions::new().append(true).open(&path).await.expect("there");
    other.append("two ").await.expect("room");
    log.append("three ").await.expect("room");
    assert_eq!(other.write_at(0, "four").await.expect("room"), 4);
    assert_eq!(fs::read(&path, 100).await.expect("read"), b"one two three four");
}

async fn lengths_are_set(driver: Driver) {
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    file.write_all_at(0, "0123456789").await.expect("room");
    file.set_len(4).await.expect("shorter");
    file.set_len(6).await.expect("longer");
    assert_eq!(file.read_at(0, 100, Vec::new()).await.expect("read"), b"0123\0\0");
    match file.allocate(0, 10_000).await {
        Ok(()) => assert_eq!(file.metadata().await.expect("open").len, 10_000),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
}

async fn metadata_tells_what_there_is(driver: Driver) {
    let place = Place::new(driver).await;
    let path = place.at("file");
    let file = File::create(&path).await.expect("made");
    file.write_all_at(0, "12345").await.expect("room");
    let by_path = fs::metadata(&path).await.expect("there");
    let by_file = file.metadata().await.expect("open");
    assert_eq!(by_path, by_file);
    assert_eq!((by_file.kind, by_file.len, by_file.links), (FileKind::File, 5, 1));
    assert!(by_file.is_file() && !by_file.is_dir());
    assert!(fs::metadata(place.path()).await.expect("there").is_dir());
    let other = File::create(place.at("other")).await.expect("made");
    assert_ne!(other.metadata().await.expect("open").inode, by_file.inode);
}

async fn names_move_and_go(driver: Driver) {
    let place = Place::new(driver).await;
    let (from, to) = (place.at("from"), place.at("to"));
    let file = File::create(&from).await.expect("made");
    file.write_all_at(0, "new").await.expect("room");
    let former = File::create(&to).await.expect("made");
    former.write_all_at(0, "former").await.expect("room");
    fs::rename(&from, &to).await.expect("moved");
    fs::sync_dir(place.path()).await.expect("a disk");
    assert_eq!(fs::read(&to, 100).await.expect("there"), b"new");
    assert_eq!(kind_of(fs::metadata(&from).await), ErrorKind::NotFound);
    // An open file stays, whatever happens to its name.
    assert_eq!(former.read_at(0, 100, Vec::new()).await.expect("open"), b"former");
    fs::remove_file(&to).await.expect("there");
    assert_eq!(kind_of(fs::remove_file(&to).await), ErrorKind::NotFound);
    assert_eq!(kind_of(fs::rename(&from, &to).await), ErrorKind::NotFound);
    assert_eq!(file.read_at(0, 100, Vec::new()).await.expect("open"), b"new");
    assert_eq!(file.metadata().await.expect("open").links, 0);
    assert_eq!(kind_of(fs::remove_file(place.path()).await), ErrorKind::IsADirectory);
}

async fn directories_are_made_and_removed(driver: Driver) {
    let place = Place::new(driver).await;
    let deep = place.at("a/b/c");
    assert_eq!(kind_of(fs::create_dir(&deep).await), ErrorKind::NotFound);
    fs::create_dir_all(&deep).await.expect("made");
    fs::create_dir_all(&deep).await.expect("there already");
    assert!(fs::metadata(&deep).await.expect("there").is_dir());
    assert_eq!(kind_of(fs::create_dir(&deep).await), ErrorKind::AlreadyExists);
    assert_eq!(kind_of(fs::remove_dir(place.at("a")).await), ErrorKind::DirectoryNotEmpty);
    File::create(deep.join("file")).await.expect("made");
    assert_eq!(kind_of(fs::remove_dir(deep.join("file")).await), ErrorKind::NotADirectory);
    let below_a_file = fs::create_dir_all(deep.join("file/d")).await;
    assert_eq!(kind_of(below_a_file), ErrorKind::NotADirectory);
    fs::rename(place.at("a/b"), place.at("moved")).await.expect("moved");
    fs::remove_file(place.at("moved/c/file")).await.expect("there");
    fs::remove_dir(place.at("moved/c")).await.expect("empty");
    fs::remove_dir(place.at("a")).await.expect("empty");
    assert_eq!(kind_of(fs::metadata(&deep).await), ErrorKind::NotFound);
}

async fn directories_are_listed_in_batches(driver: Driver) {
    let place = Place::new(driver).await;
    // There are more entries than one batch holds, with names long enough for that.
    let mut expected = Vec::new();
    for number in 0..600 {
        let name = format!("{number:0>100}");
        File::create(place.at(&name)).await.expect("made");
        expected.push((name, Some(FileKind::File)));
    }
    fs::create_dir(place.at("directory")).await.expect("made");
    expected.push(("directory".to_owned(), Some(FileKind::Directory)));
    let mut listing = fs::read_dir(place.path()).await.expect("there");
    let mut found = Vec::new();
    let mut batches = 0;
    loop {
        let batch = listing.next_batch().await.expect("listed");
        if batch.is_empty() {
            break;
        }
        batches += 1;
        let named = |entry: fs::DirEntry| (entry.name.into_string().expect("ascii"), entry.kind);
        found.extend(batch.into_iter().map(named));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, expected);
    assert!(batches > 1, "all at once");
    assert!(listing.next_batch().await.expect("at its end").is_empty());
    assert_eq!(kind_of(fs::read_dir(place.at("none")).await), ErrorKind::NotFound);
    let file = place.at(&expected[0].0);
    assert_eq!(kind_of(fs::read_dir(file).await), ErrorKind::NotADirectory);
}

async fn whole_files_within_a_bound(driver: Driver) {
    let place = Place::new(driver).await;
    let path = place.at("file");
    let content = pattern(700_000);
    File::create(&path).await.expect("made").write_all_at(0, content.clone()).await.expect("room");
    assert!(fs::read(&path, content.len()).await.expect("read") == content);
    assert_eq!(kind_of(fs::read(&path, content.len() - 1).await), ErrorKind::FileTooLarge);
    File::create(&path).await.expect("emptied");
    assert_eq!(fs::read(&path, 0).await.expect("read"), b"");
}

async fn files_are_replaced_atomically(driver: Driver) {
    let place = Place::new(driver).await;
    let path = place.at("state");
    for content in ["first", "second, longer", ""] {
        fs::write_atomic(&path, content).await.expect("written");
        assert_eq!(fs::read(&path, 100).await.expect("read"), content.as_bytes());
    }
    let secret = place.at("secret");
    OpenOptions::new().write(true).create(true).mode(0o600).open(&secret).await.expect("made");
    fs::write_atomic(&secret, "hidden").await.expect("written");
    assert_eq!(fs::metadata(&secret).await.expect("there").mode, 0o600);
    // A directory cannot be replaced by a file, and the temporary file is removed again.
    fs::create_dir(place.at("directory")).await.expect("made");
    assert!(fs::write_atomic(place.at("directory"), "x").await.is_err());
    assert_eq!(kind_of(fs::write_atomic("/", "x").await), ErrorKind::InvalidInput);
    let mut names = names_in(place.path()).await;
    while names.len() > 3 {
        // The removal is still in progress.
        ringway_runtime::yield_now().await;
        names = names_in(place.path()).await;
    }
    assert_eq!(names, ["directory", "secret", "state"]);
}

pub(crate) async fn names_in(path: &Path) -> Vec<String> {
    let mut listing = fs::read_dir(path).await.expect("there");
    let mut names = Vec::new();
    loop {
        let batch = listing.next_batch().await.expect("listed");
        if batch.is_empty() {
            names.sort();
            return names;
        }
        names.extend(batch.into_iter().map(|entry| entry.name.into_string().expect("utf-8")));
    }
}

async fn paths_that_lead_nowhere(driver: Driver) {
    let place = Place::new(driver).await;
    File::create(place.at("file")).await.expect("made");
    assert_eq!(kind_of(File::open("zero\0byte").await), ErrorKind::InvalidInput);
    assert_eq!(kind_of(File::open("").await), ErrorKind::NotFound);
    assert_eq!(kind_of(File::open(place.at("file/x")).await), ErrorKind::NotADirectory);
    assert_eq!(kind_of(File::create(place.at("none/x")).await), ErrorKind::NotFound);
    assert_eq!(kind_of(File::create(place.at(&"n".repeat(300))).await), ErrorKind::InvalidFilename);
    assert_eq!(
        kind_of(fs::metadata(place.at(&"n/".repeat(3_000))).await),
        ErrorKind::InvalidFilename
    );
    assert_eq!(fs::read(place.at("./file"), 1).await.expect("there"), b"");
}

async fn paths_do_not_leave_a_root(driver: Driver) {
    let place = Place::new(driver).await;
    fs::create_dir_all(place.at("root/sub")).await.expect("made");
    for (name, content) in [("secret", "no"), ("root/file", "yes"), ("root/sub/file", "sub")] {
        fs::write_atomic(place.at(name), content).await.expect("written");
    }
    let root = place.at("root");
    let read = async |path: &str| {
        let file = File::open_beneath(&root, path).await?;
        file.read_at(0, 100, Vec::new()).await
    };
    for (path, content) in [
        ("file", "yes"),
        ("./file", "yes"),
        ("sub/file", "sub"),
        ("sub/../file", "yes"),
        ("sub//file", "sub"),
    ] {
        assert_eq!(read(path).await.expect(path), content.as_bytes(), "{path}");
    }
    let absolute = place.at("root/file").to_string_lossy().into_owned();
    for path in ["..", "../secret", "sub/../../secret", "../root/file", "/etc/passwd", &absolute] {
        assert_eq!(kind_of(read(path).await), ErrorKind::CrossesDevices, "{path}");
    }
    for (path, kind) in [
        ("", ErrorKind::NotFound),
        ("none", ErrorKind::NotFound),
        ("sub", ErrorKind::IsADirectory),
        (".", ErrorKind::IsADirectory),
        ("file/x", ErrorKind::NotADirectory),
        ("zero\0byte", ErrorKind::InvalidInput),
    ] {
        assert_eq!(kind_of(read(path).await), kind, "{path}");
    }
    assert_eq!(kind_of(File::open_beneath(place.at("none"), "file").await), ErrorKind::NotFound);
    if driver != Driver::Sim {
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, place.at(name)).expect("a link");
        };
        link("sub/file", "root/inside");
        link("../secret", "root/outside");
        link(&absolute, "root/absolute");
        link("..", "root/sub/up");
        assert_eq!(read("inside").await.expect("a link below"), b"sub");
        assert_eq!(read("sub/up/file").await.expect("a link below"), b"yes");
        for path in ["outside", "absolute", "sub/up/../secret"] {
            assert_eq!(kind_of(read(path).await), ErrorKind::CrossesDevices, "{path}");
        }
    }
}

async fn many_operations_at_once(driver: Driver) {
    const TASKS: usize = 600;
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    // More operations than may run at once, so the others wait for their turn.
    let tasks: Vec<_> = (0..TASKS)
        .map(|at| {
            let file = file.clone();
            ringway_runtime::spawn(async move {
                let bytes = vec![at as u8; 1_000];
                file.write_all_at(at as u64 * 1_000, bytes.clone()).await?;
                let read = file.read_exact_at(at as u64 * 1_000, 1_000, Vec::new()).await?;
                assert!(read == bytes, "somebody else's bytes at {at}");
                std::io::Result::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("written and read");
    }
    assert_eq!(file.metadata().await.expect("open").len, TASKS as u64 * 1_000);
}

async fn clones_share_a_file(driver: Driver) {
    let place = Place::new(driver).await;
    let file = File::create(place.at("file")).await.expect("made");
    let clone = file.clone();
    drop(file);
    clone.write_all_at(0, "still open").await.expect("room");
    assert_eq!(clone.metadata().await.expect("open").len, 10);
}
