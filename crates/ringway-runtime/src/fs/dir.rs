//! Names: directories, and what moves a file from one name to another.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::file::File;
use super::options::open_as;
use super::run::{kernel_path, run, unexpected};
use crate::driver::files::{DirEntry, FileAnswer, FileKind, FileOp, Metadata};

/// What there is at `path`; symbolic links are followed.
///
/// # Errors
/// The kernel's, such as `NotFound`.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = kernel_path(path.as_ref())?;
    match run(FileOp::DescribePath { path }).await? {
        FileAnswer::Described(metadata) => Ok(metadata),
        other => Err(unexpected(&other)),
    }
}

/// Gives a file or directory another name, in one step: at any time there is the former file of that name or
/// the new one. It is not durable before [`sync_dir`] of the directory.
///
/// # Errors
/// The kernel's, such as `CrossesDevices` between two file systems.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (kernel_path(from.as_ref())?, kernel_path(to.as_ref())?);
    run(FileOp::Rename { from, to }).await.map(drop)
}

/// Removes the name of a file. Its content goes when nobody has it open any more.
///
/// # Errors
/// The kernel's, such as `NotFound` and `IsADirectory`.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    run(FileOp::RemoveFile { path: kernel_path(path.as_ref())? }).await.map(drop)
}

/// Removes an empty directory.
///
/// # Errors
/// The kernel's, such as `DirectoryNotEmpty`.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    run(FileOp::RemoveDir { path: kernel_path(path.as_ref())? }).await.map(drop)
}

/// Makes a directory, open to whomever the process's umask lets in.
///
/// # Errors
/// The kernel's, such as `AlreadyExists`, and `NotFound` where its parent is missing.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = kernel_path(path.as_ref())?;
    run(FileOp::CreateDir { path, mode: 0o777 }).await.map(drop)
}

/// Makes a directory, with those above it that are missing. One that exists is as good.
///
/// # Errors
/// The kernel's.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let mut missing: Vec<PathBuf> = Vec::new();
    // As many rounds as the path has parts.
    for ancestor in path.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
        match create_dir(ancestor).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.push(ancestor.to_owned());
            }
            Ok(()) => break,
            Err(error) => match metadata(ancestor).await {
                Ok(found) if found.is_dir() => break,
                _ => return Err(error),
            },
        }
    }
    while let Some(next) = missing.pop() {
        match create_dir(&next).await {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Waits until the names in a directory are on the disk as they are now: files that were made, renamed or
/// removed there.
///
/// # Errors
/// The disk's, or as of opening the directory.
pub async fn sync_dir(path: impl AsRef<Path>) -> io::Result<()> {
    open_dir(path.as_ref()).await?.sync_all().await
}

/// Opens a directory to list what is in it.
///
/// # Errors
/// The kernel's, such as `NotADirectory`.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    Ok(ReadDir { dir: open_dir(path.as_ref()).await? })
}

async fn open_dir(path: &Path) -> io::Result<File> {
    open_as(path, OFlags::RDONLY | OFlags::DIRECTORY, 0, FileKind::Directory).await
}

/// A directory that is being listed.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("ringway-read-dir-{}", std::process::id()));
/// # std::fs::create_dir_all(dir.join("sub"))?;
/// # let path = dir.clone();
/// ringway_runtime::block_on(async move {
///     let mut listing = ringway_runtime::fs::read_dir(&path).await?;
///     let mut names = Vec::new();
///     loop {
///         let batch = listing.next_batch().await?;
///         if batch.is_empty() {
///             break;
///         }
///         names.extend(batch.into_iter().map(|entry| entry.name));
///     }
///     assert_eq!(names, ["sub"]);
///     std::io::Result::Ok(())
/// })??;
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadDir {
    dir: File,
}

impl ReadDir {
    /// The next entries, in the order of the file system; none at the end. A batch has some hundred to a
    /// thousand of them, so a directory of millions takes no more memory than a small one. What comes or goes
    /// meanwhile may be told or not. The entries of a future that is dropped may be lost.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn next_batch(&mut self) -> io::Result<Vec<DirEntry>> {
        match run(FileOp::ReadDir { dir: self.dir.share() }).await? {
            FileAnswer::Entries(entries) => Ok(entries),
            other => Err(unexpected(&other)),
        }
    }
}
