//! The names in a registry's folder, and what keeps it from others.
//!
//! A registry holds its folder open, and finds its files by that and not by the folder's name. If the folder is moved while it is
//! in use, the files go along, and another folder of that name has nothing to do with them.

use std::fs::TryLockError;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringway_runtime::fs;

use crate::endpoint::Error;
use crate::limits;

/// The folder of a registry. Clones share its lock.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// The name that it was opened by.
    path: PathBuf,
    /// The bytes of a log after which the next one begins.
    pub(super) log_bytes_max: usize,
    /// The bytes of zeros that are written behind a log's frames at once.
    pub(super) log_ahead_bytes: usize,
    /// `None` in a simulation, whose disks nobody else has.
    hold: Option<Arc<Hold>>,
}

/// What keeps a folder from others until it is dropped.
#[derive(Debug)]
struct Hold {
    folder: std::fs::File,
    /// Whether the folder itself is locked, as network file systems cannot do. Then whoever removes the file `lock` has
    /// not unlocked it.
    is_folder_locked: bool,
    /// The file `lock`, which every file system can lock.
    lock: std::fs::File,
    /// Where the kernel has the folder, whatever its name is by now.
    place: PathBuf,
}

/// The numbers of the files in a folder, ascending.
#[derive(Default, Debug)]
pub(super) struct FolderFiles {
    pub(super) logs: Vec<u64>,
    pub(super) snapshots: Vec<u64>,
    /// Snapshots that were not finished.
    pub(super) unfinished: Vec<String>,
}

pub(super) fn log_name(number: u64) -> String {
    format!("log-{number:016}")
}

pub(super) fn snapshot_name(number: u64) -> String {
    format!("snapshot-{number:016}")
}

pub(super) fn unfinished_name(number: u64) -> String {
    format!("snapshot-{number:016}.tmp")
}

/// The number in a name, if a registry has made it: others may lie there, such as copies, and are left alone.
fn number_of(name: &str, name_of: fn(u64) -> String) -> Option<u64> {
    let digits = name.trim_matches(|letter: char| !letter.is_ascii_digit());
    digits.parse().ok().filter(|number| name_of(*number) == name)
}

impl Folder {
    /// Makes the folder where there is none, and takes its lock.
    ///
    /// # Errors
    /// Fails if another registry has the folder, or as the disk does.
    pub(crate) async fn open(path: &Path) -> Result<Self, Error> {
        let folder = Self::open_unlocked(path).await?;
        let hold = Some(Arc::new(Hold::take(path)?));
        Ok(Self { hold, ..folder })
    }

    /// The folder without a lock.
    pub(crate) async fn open_unlocked(path: &Path) -> Result<Self, Error> {
        make(path).await.map_err(|error| cannot("make", path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            log_bytes_max: limits::LOG_FILE_BYTES,
            log_ahead_bytes: limits::LOG_AHEAD_BYTES,
            hold: None,
        })
    }

    /// Where a file is found.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.own_place().join(name)
    }

    fn own_place(&self) -> &Path {
        self.hold.as_ref().map_or(&self.path, |hold| &hold.place)
    }

    /// A file as whoever operates the registry knows it.
    pub(super) fn shown(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// An operation on a file has failed.
    pub(super) fn failed(&self, what: &str, name: &str, error: &io::Error) -> Error {
        cannot(what, &self.shown(name), error)
    }

    /// Checks that the folder still has its name, by which the next start looks for it, and that it is locked.
    ///
    /// # Errors
    /// Fails if another folder has the name, or none, or if nothing keeps others from the folder any more.
    pub(super) async fn check(&self) -> io::Result<()> {
        let Some(hold) = &self.hold else { return Ok(()) };
        let is_same = async |path: &Path, held: &std::fs::File| {
            let held = held.metadata()?;
            Ok(match fs::metadata(path).await {
                Ok(found) => (found.device, found.inode) == (held.dev(), held.ino()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            })
        };
        let path = self.path.display();
        if !is_same(&self.path, &hold.folder).await? {
            return Err(io::Error::other(format!("{path} was moved away while it was in use")));
        }
        let lock = self.place("lock");
        if !hold.is_folder_locked && !is_same(&lock, &hold.lock).await? {
            return Err(io::Error::other(format!("{path}/lock was removed while it was in use")));
        }
        Ok(())
    }

    /// Waits until the names are on the disk as they are now.
    pub(super) async fn sync(&self) -> io::Result<()> {
        fs::sync_dir(self.own_place()).await
    }

    pub(super) async fn list(&self) -> Result<FolderFiles, Error> {
        let failed = |error: io::Error| cannot("list", &self.path, &error);
        let mut listing = FolderFiles::default();
        let mut directory = fs::read_dir(self.own_place()).await.map_err(failed)?;
        loop {
            let batch = directory.next_batch().await.map_err(failed)?;
            if batch.is_empty() {
                break;
            }
            for name in batch.iter().filter_map(|entry| entry.name.to_str()) {
                if let Some(log) = number_of(name, log_name) {
                    listing.logs.push(log);
                } else if let Some(snapshot) = number_of(name, snapshot_name) {
                    listing.snapshots.push(snapshot);
                } else if number_of(name, unfinished_name).is_some() {
                    listing.unfinished.push(name.to_owned());
                }
            }
            if listing.logs.len() + listing.snapshots.len() > limits::DATA_FILES_MAX {
                let path = self.path.display();
                return Err(Error::new(format!("{path} has too many files of a registry")));
            }
        }
        listing.logs.sort_unstable();
        listing.snapshots.sort_unstable();
        Ok(listing)
    }

    /// Removes the files of which a later snapshot has everything.
    pub(super) async fn remove_before(&self, snapshot: u64) -> Result<(), Error> {
        let FolderFiles { logs, snapshots, .. } = self.list().await?;
        let old = |number: &u64| *number < snapshot;
        let logs = logs.into_iter().filter(old).map(log_name);
        let snapshots = snapshots.into_iter().filter(old).map(snapshot_name);
        for name in logs.chain(snapshots) {
            self.remove(&name).await?;
        }
        Ok(())
    }

    pub(super) async fn remove(&self, name: &str) -> Result<(), Error> {
        let removed = fs::remove_file(self.place(name)).await;
        removed.map_err(|error| self.failed("remove", name, &error))
    }

    /// Reads a file as a whole.
    pub(super) async fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let read = fs::read(self.place(name), limits::DATA_FILE_BYTES_MAX).await;
        read.map_err(|error| self.failed("read", name, &error))
    }

    /// Waits until the names that were found are on the disk.
    pub(super) async fn settle(&self) -> Result<(), Error> {
        self.sync().await.map_err(|error| cannot("sync", &self.path, &error))
    }
}

impl Hold {
    fn take(path: &Path) -> Result<Self, Error> {
        let open = std::fs::File::open(path);
        let folder = open.map_err(|error| cannot("open", path, &error))?;
        let is_folder_locked = match folder.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => return Err(in_use(path)),
            Err(TryLockError::Error(_)) => false,
        };
        let place = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let held = folder.metadata().map_err(|error| cannot("read", path, &error))?;
        let is_there =
            |found: std::fs::Metadata| (found.dev(), found.ino()) == (held.dev(), held.ino());
        if !std::fs::metadata(&place).is_ok_and(is_there) {
            let path = path.display();
            return Err(Error::new(format!("cannot hold {path}: /proc is not mounted")));
        }
        let file = place.join("lock");
        let options = std::fs::File::options().write(true).create(true).truncate(false).to_owned();
        let failed = |what, error: &io::Error| cannot(what, &path.join("lock"), error);
        let lock = options.open(file).map_err(|error| failed("open", &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder, is_folder_locked, lock, place }),
            Err(TryLockError::WouldBlock) => Err(in_use(path)),
            Err(TryLockError::Error(error)) => Err(failed("lock", &error)),
        }
    }
}

fn in_use(path: &Path) -> Error {
    let path = path.display();
    Error::new(format!("{path} is in use by another registry; give each a folder of its own"))
}

/// Makes a folder and those above it. When this returns, the disk has the name of each that was missing.
async fn make(path: &Path) -> io::Result<()> {
    let mut made = Vec::new();
    for folder in path.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
        match fs::metadata(folder).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made.push(folder),
            Ok(_) => break,
            Err(error) => return Err(error),
        }
    }
    fs::create_dir_all(path).await?;
    for folder in made {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        fs::sync_dir(parent.unwrap_or(Path::new("."))).await?;
    }
    Ok(())
}

/// An operation has failed.
fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a folder of the real disk on a core.
    fn open(path: &Path) -> Result<Folder, Error> {
        let path = path.to_owned();
        ringway_runtime::block_on(async move { Folder::open(&path).await }).expect("a core")
    }

    fn check(folder: &Folder) -> io::Result<()> {
        let folder = folder.clone();
        ringway_runtime::block_on(async move { folder.check().await }).expect("a core")
    }

    #[test]
    fn a_folder_whose_lock_was_removed_is_still_in_use() {
        let directory = tempfile::tempdir().expect("a folder");
        let held = open(directory.path()).expect("nobody has it");
        std::fs::remove_file(directory.path().join("lock")).expect("it is there");
        let second = open(directory.path()).expect_err("the first has it");
        assert!(second.to_string().contains("in use by another registry"), "{second}");
        check(&held).expect("it is locked itself");
        drop(held);
        open(directory.path()).expect("nobody has it any more");
    }

    #[test]
    fn a_folder_that_was_moved_goes_on_where_it_is_and_is_told() {
        let directory = tempfile::tempdir().expect("a folder");
        let [data, moved] = ["data", "moved"].map(|name| directory.path().join(name));
        let held = open(&data).expect("nobody has it");
        check(&held).expect("nothing has happened");
        std::fs::rename(&data, &moved).expect("it is moved");
        assert!(check(&held).expect_err("it is not there").to_string().contains("moved away"));
        let second = open(&data).expect("another folder of that name");
        std::fs::write(held.place("log-1"), "the first").expect("it is written");
        std::fs::write(second.place("log-1"), "the second").expect("it is written");
        for (folder, text) in [(&moved, "the first"), (&data, "the second")] {
            assert_eq!(std::fs::read_to_string(folder.join("log-1")).expect("text"), text);
        }
        assert!(check(&held).expect_err("another is there").to_string().contains("moved away"));
        check(&second).expect("it is there");
    }
}
