//! Being told of changes.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dir::metadata;
use super::run::{kernel_path, release, run, unexpected};
use crate::core::with_current;
use crate::driver::files::{Changes, FileAnswer, FileDescriptor, FileOp, Metadata};

/// Watches a directory, or the file at `path`: one that is changed in place, replaced by another of its name,
/// or comes to be only later.
///
/// Of a directory, every change of its names is told, and of each file in it that a writer has closed it; what
/// is below its directories is not. Of a file, that is told for its own name, and any change of names beside
/// it that makes the path lead somewhere else: so it is seen how an editor renames a new file over the old
/// one, and how Kubernetes swaps the symbolic link to a whole directory of settings. Where the path is a link
/// into another directory, what is written there in place is not seen.
///
/// ```
/// use ringway_runtime::fs;
///
/// # let dir = std::env::temp_dir().join(format!("ringway-watch-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("settings");
/// ringway_runtime::block_on(async move {
///     let mut watch = fs::watch(&path).await?;
///     let mut settings = Vec::new();
///     fs::write_atomic(&path, "level = 2\n").await?;
///     while settings.is_empty() {
///         watch.changed().await?;
///         settings = fs::read(&path, 4096).await?;
///     }
///     assert_eq!(settings, b"level = 2\n");
///     std::io::Result::Ok(())
/// })??;
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The kernel's: `NotFound` where there is no such directory, or none that the file could be in. Each watch
/// takes one of the 128 inotify instances that a user may have by default; `EMFILE` says that there are none.
pub async fn watch(path: impl AsRef<Path>) -> io::Result<Watch> {
    let path = path.as_ref();
    let is_dir = match metadata(path).await {
        Ok(found) => found.is_dir(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if is_dir {
        return Watch::of(path).await;
    }
    let Some(name) = path.file_name() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut watch = Watch::of(directory.unwrap_or(Path::new("."))).await?;
    // Looked up when it is watched already: nothing gets lost in between.
    let found = identity(path).await;
    watch.file = Some(WatchedFile { path: path.to_owned(), name: name.to_owned(), found });
    Ok(watch)
}

/// Tells of changes, those included that nobody has waited for: at most 1,024 names, and that there were more.
/// Made by [`watch`].
#[derive(Debug)]
pub struct Watch {
    descriptor: Option<Arc<FileDescriptor>>,
    file: Option<WatchedFile>,
    /// Not told yet.
    taken: Changes,
}

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    name: OsString,
    /// What the path led to.
    found: Option<Metadata>,
}

impl Watch {
    async fn of(directory: &Path) -> io::Result<Watch> {
        let path = kernel_path(directory)?;
        match run(FileOp::Watch { path }).await? {
            FileAnswer::Opened(descriptor) => {
                let descriptor = Some(Arc::new(descriptor));
                Ok(Watch { descriptor, file: None, taken: Changes::default() })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Waits for changes since this was last asked for, and tells them all in one. A program may be told of a
    /// change that it knows by then, and of one before it is complete: whoever writes a file in place is seen
    /// when the file is made, and when it is closed. Dropping the future loses nothing: the next call tells it.
    ///
    /// # Errors
    /// `NotFound` when the directory has been removed or renamed; the watch tells nothing more then.
    pub async fn changed(&mut self) -> io::Result<Changes> {
        loop {
            if self.taken.is_empty() {
                self.take().await?;
            }
            if self.taken.is_gone() {
                let why = "the watched directory is not there any more";
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            }
            let Some(file) = &mut self.file else {
                return Ok(std::mem::take(&mut self.taken));
            };
            let found = identity(&file.path).await;
            let changes = std::mem::take(&mut self.taken);
            let leads_elsewhere = std::mem::replace(&mut file.found, found) != found;
            if changes.look_again() {
                return Ok(changes);
            }
            if leads_elsewhere || changes.has(&file.name) {
                return Ok(Changes::of_name(file.name.clone()));
            }
        }
    }

    /// Waits until there is something to tell, and takes it: nothing is lost where this is dropped.
    async fn take(&mut self) -> io::Result<()> {
        while self.taken.is_empty() {
            let watch = self.descriptor.as_ref().expect("present until the drop");
            run(FileOp::AwaitChanges { watch: Arc::clone(watch) }).await?;
            self.taken = with_current(|core| core.driver.borrow_mut().take_changes(watch))?;
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            release(descriptor);
        }
    }
}

/// What tells one file from another, and from itself after a change.
async fn identity(path: &Path) -> Option<Metadata> {
    metadata(path).await.ok()
}
