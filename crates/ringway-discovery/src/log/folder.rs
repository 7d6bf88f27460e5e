//! The names in a registry's folder, and the lock on it.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringway_runtime::fs;

use crate::endpoint::Error;
use crate::limits;

/// The folder of a registry. Clones share its lock.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The bytes of a log after which the next one begins.
    pub(super) log_bytes_max: u64,
    /// The bytes of zeros that are written behind a log's frames at once.
    pub(super) log_ahead_bytes: usize,
    /// Held until the last clone is dropped; `None` in a simulation, whose disks nobody else has.
    _lock: Option<Arc<std::fs::File>>,
}

/// The numbers of the files in a folder, ascending.
#[derive(Default, Debug)]
pub(super) struct FolderFiles {
    pub(super) logs: Vec<u64>,
    pub(super) snapshots: Vec<u64>,
    /// Snapshots that were not finished.
    pub(super) unfinished: Vec<PathBuf>,
}

impl Folder {
    /// Makes the folder where there is none, and takes its lock.
    ///
    /// # Errors
    /// Fails if another registry has the folder, or as the disk does.
    pub(crate) async fn open(path: &Path) -> Result<Self, Error> {
        let folder = Self::open_unlocked(path).await?;
        let lock = folder.path.join("lock");
        let options = std::fs::File::options().write(true).create(true).truncate(false).to_owned();
        let file = options.open(&lock).map_err(|error| failed("open", &lock, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _lock: Some(Arc::new(file)), ..folder }),
            Err(TryLockError::WouldBlock) => Err(Error::new(format!(
                "{} is in use by another registry; give each a folder of its own",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed("lock", &lock, &error)),
        }
    }

    /// The folder without a lock.
    pub(crate) async fn open_unlocked(path: &Path) -> Result<Self, Error> {
        make(path).await.map_err(|error| failed("make", path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            log_bytes_max: limits::LOG_FILE_BYTES,
            log_ahead_bytes: limits::LOG_AHEAD_BYTES,
            _lock: None,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn log(&self, number: u64) -> PathBuf {
        self.path.join(format!("log-{number:016}"))
    }

    pub(super) fn snapshot(&self, number: u64) -> PathBuf {
        self.path.join(format!("snapshot-{number:016}"))
    }

    pub(super) fn unfinished(&self, number: u64) -> PathBuf {
        self.path.join(format!("snapshot-{number:016}.tmp"))
    }

    /// Waits until the names are on the disk as they are now.
    pub(super) async fn sync(&self) -> io::Result<()> {
        fs::sync_dir(&self.path).await
    }

    pub(super) async fn list(&self) -> Result<FolderFiles, Error> {
        let failed = |error: io::Error| failed("list", &self.path, &error);
        let mut listing = FolderFiles::default();
        let mut directory = fs::read_dir(&self.path).await.map_err(failed)?;
        loop {
            let batch = directory.next_batch().await.map_err(failed)?;
            if batch.is_empty() {
                break;
            }
            for name in batch.iter().filter_map(|entry| entry.name.to_str()) {
                let number = |prefix| name.strip_prefix(prefix)?.parse::<u64>().ok();
                if let Some(log) = number("log-") {
                    listing.logs.push(log);
                } else if let Some(snapshot) = number("snapshot-") {
                    listing.snapshots.push(snapshot);
                } else if name.starts_with("snapshot-") && name.ends_with(".tmp") {
                    listing.unfinished.push(self.path.join(name));
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
        let logs = logs.into_iter().filter(old).map(|number| self.log(number));
        let snapshots = snapshots.into_iter().filter(old).map(|number| self.snapshot(number));
        for path in logs.chain(snapshots) {
            fs::remove_file(&path).await.map_err(|error| failed("remove", &path, &error))?;
        }
        Ok(())
    }
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

/// An operation on a file has failed.
pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(format!("cannot {what} {}: {error}", path.display()))
}
