//! How a file is opened.

use std::io;
use std::path::Path;

use rustix::fs::OFlags;

use super::file::File;
use super::run::{kernel_path, run, unexpected};
use crate::driver::files::{FileAnswer, FileKind, FileOp, OpenRequest};

/// How a file is opened, and made where there is none; as [`std::fs::OpenOptions`].
///
/// ```
/// use ringway_runtime::fs::OpenOptions;
///
/// # let dir = std::env::temp_dir().join(format!("ringway-options-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("log");
/// # let kept = path.clone();
/// ringway_runtime::block_on(async move {
///     let log = OpenOptions::new().write(true).create(true).mode(0o600).open(&path).await?;
///     log.append("started\n").await?;
///     log.sync_data().await
/// })??;
/// # assert_eq!(std::fs::read(kept)?, b"started\n");
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
}

impl OpenOptions {
    /// Nothing is allowed yet: neither to read nor to write.
    #[must_use]
    pub fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
        }
    }

    /// Allows to read.
    #[must_use]
    pub fn read(mut self, read: bool) -> Self {
        self.read = read;
        self
    }

    /// Allows to write.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Allows to write, and has every write go to the end: Linux takes no notice of the place that
    /// [`File::write_at`] names then. [`File::append`] needs only [`write`](Self::write).
    #[must_use]
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// Empties a file that exists. Needs [`write`](Self::write).
    #[must_use]
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Makes the file where there is none. Needs the right to write.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Makes the file, and fails where there is one already, a symbolic link included.
    #[must_use]
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// The rights on a file that is made, less the process's umask; `0o666` unless this is called.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Opens the regular file at `path`. Symbolic links are followed.
    ///
    /// # Errors
    /// The kernel's, such as `NotFound`, `PermissionDenied` and `AlreadyExists`. `InvalidInput` for options
    /// that make no sense together, and for a pipe, socket or device; `IsADirectory` for a directory.
    ///
    /// # Panics
    /// Outside of a runtime's thread, as everything that is awaited here.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let flags = self.flags()?;
        open_as(path.as_ref(), flags, self.mode, FileKind::File).await
    }

    fn flags(&self) -> io::Result<OFlags> {
        let writes = self.write || self.append;
        let mut flags = match (self.read, writes) {
            (true, true) => OFlags::RDWR,
            (true, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (false, false) => return Err(senseless("a file is opened to read or to write it")),
        };
        if (self.create || self.create_new) && !writes {
            return Err(senseless("a file that is only read is not made"));
        }
        if self.truncate && (!self.write || self.append) {
            return Err(senseless("only what is written, and not appended to, is emptied"));
        }
        flags.set(OFlags::APPEND, self.append);
        flags.set(OFlags::TRUNC, self.truncate && !self.create_new);
        flags.set(OFlags::CREATE, self.create || self.create_new);
        flags.set(OFlags::EXCL, self.create_new);
        Ok(flags)
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

pub(super) async fn open_as(
    path: &Path,
    flags: OFlags,
    mode: u32,
    kind: FileKind,
) -> io::Result<File> {
    let path = kernel_path(path)?;
    match run(FileOp::Open(OpenRequest { path, flags, mode, kind })).await? {
        FileAnswer::Opened(descriptor) => Ok(File::of(descriptor)),
        other => Err(unexpected(&other)),
    }
}

fn senseless(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
