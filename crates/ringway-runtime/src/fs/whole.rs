//! Files as a whole.

use std::ffi::CString;
use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use super::dir::{metadata, sync_dir};
use super::file::File;
use super::options::OpenOptions;
use super::run::{detach, kernel_path, run};
use crate::core::with_current;
use crate::driver::files::FileOp;
use crate::limits;

/// Reads a whole file of at most `bytes_max` bytes.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("ringway-read-{}", std::process::id()));
/// # std::fs::write(&path, "key = 1\n")?;
/// # let kept = path.clone();
/// ringway_runtime::block_on(async move {
///     let settings = ringway_runtime::fs::read(&path, 64 * 1024).await?;
///     assert_eq!(settings, b"key = 1\n");
///     let refused = ringway_runtime::fs::read(&path, 4).await.unwrap_err();
///     assert_eq!(refused.kind(), std::io::ErrorKind::FileTooLarge);
///     std::io::Result::Ok(())
/// })??;
/// # std::fs::remove_file(kept)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// `FileTooLarge` where it is longer, or as [`OpenOptions::open`] and [`File::read_at`].
pub async fn read(path: impl AsRef<Path>, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path).await?;
    // What the kernel makes up as it is read has no length: files of /proc, for one.
    let told = usize::try_from(file.metadata().await?.len).unwrap_or(usize::MAX);
    if told > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = Vec::new();
    content.try_reserve_exact(told + 1)?;
    loop {
        let before = content.len();
        // One more than is to be there, by which a file that has grown is told.
        let wanted = (told - before.min(told)).max(limits::FILE_PROBE_BYTES);
        let wanted = wanted.min(bytes_max + 1 - before);
        content = file.read_at(before as u64, wanted, content).await?;
        if content.len() == before {
            return Ok(content);
        }
        if content.len() > bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
}

/// Replaces what there is at `path` by a file of these bytes, all of it or not at all, also where the power
/// fails: when this has returned `Ok`, the new content is on the disk.
///
/// The bytes are written to a file `.ringway-….tmp` beside it, synced, and renamed; then the directory is
/// synced. The new file has the rights of the one that it replaces, less the umask, and belongs to this
/// process's user; a symbolic link at `path` is replaced, not followed. An error or a dropped future removes
/// the other file again; a crash leaves it there, and so may a future that is dropped while it makes it. After an error either content may be there.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("ringway-atomic-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("state");
/// # let kept = path.clone();
/// ringway_runtime::block_on(async move {
///     ringway_runtime::fs::write_atomic(&path, "generation 2\n").await
/// })??;
/// # assert_eq!(std::fs::read(kept)?, b"generation 2\n");
/// # assert_eq!(std::fs::read_dir(&dir)?.count(), 1);
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of each step; `InvalidInput` for a path that ends in no name.
pub async fn write_atomic(path: impl AsRef<Path>, bytes: impl Into<Bytes>) -> io::Result<()> {
    let path = path.as_ref();
    if path.file_name().is_none() {
        let why = "a file is replaced by its name, and this path ends in none";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mode = match metadata(path).await {
        Ok(present) => present.mode & 0o777,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0o666,
        Err(error) => return Err(error),
    };
    let (file, mut temporary) = create_beside(directory, mode).await?;
    file.write_all_at(0, bytes).await?;
    file.sync_all().await?;
    let made = temporary.path.clone().expect("it has not its proper name yet");
    let to = kernel_path(path)?;
    run(FileOp::Rename { from: made, to }).await?;
    temporary.path = None;
    sync_dir(directory).await
}

/// Makes a file of a name that nobody else has.
async fn create_beside(directory: &Path, mode: u32) -> io::Result<(File, Temporary)> {
    let options = OpenOptions::new().write(true).create_new(true).mode(mode);
    let mut refused = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..limits::TEMPORARY_NAMES_TRIED {
        let path = directory.join(temporary_name());
        match options.open(&path).await {
            Ok(file) => return Ok((file, Temporary { path: Some(kernel_path(&path)?) })),
            Err(error) => refused = error,
        }
        if refused.kind() != io::ErrorKind::AlreadyExists {
            break;
        }
    }
    Err(refused)
}

/// A name that is not in use, but for what simulations before a crash have left.
fn temporary_name() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    static STARTED: LazyLock<u128> = LazyLock::new(|| {
        UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos()) // of two processes of one number
    });
    let simulated =
        with_current(|core| core.driver.borrow().is_simulated().then(|| core.files.next_number()));
    match simulated {
        Some(number) => format!(".ringway-{number}.tmp"),
        None => {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            format!(".ringway-{}-{:x}-{number}.tmp", std::process::id(), *STARTED)
        }
    }
}

/// A file that is removed again unless it gets its proper name.
struct Temporary {
    path: Option<CString>,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            detach(FileOp::RemoveFile { path });
        }
    }
}
