//! Files: read, written, synced, renamed and listed without holding up a core.
//!
//! Under io_uring each call is one operation of the ring; what the kernel offers no operation for (listing a
//! directory, and `set_len` before Linux 6.9), and everything under epoll, is a job of the blocking pool. In a
//! [simulation](crate::sim) there is a file system in memory that can crash.
//!
//! Memory that the kernel reads or writes belongs to the operation until it has ended, so dropping a future
//! is always sound; whether the operation is done then, and when, is left open. A dropped [`File`] is closed
//! once its last operation has ended, by the kernel or the pool and not by the core.
//!
//! What is left of a write after a power cut is told by `docs/runtime.md`, section "Files": in short, content
//! is durable after [`File::sync_data`], a name after [`sync_dir`], and [`write_atomic`] does both.
//!
//! Only regular files and directories are opened. A pipe or a device may keep a read waiting for ever, so
//! opening one is refused, and waits for nothing itself.
//!
//! ```
//! use ringway_runtime::fs;
//!
//! # let dir = std::env::temp_dir().join(format!("ringway-fs-{}", std::process::id()));
//! # let root = dir.clone();
//! ringway_runtime::block_on(async move {
//!     fs::create_dir_all(dir.join("conf")).await?;
//!     let path = dir.join("conf/limits");
//!     fs::write_atomic(&path, "connections = 100\n").await?;
//!     assert_eq!(fs::read(&path, 4096).await?, b"connections = 100\n");
//!     fs::remove_file(&path).await?;
//!     assert_eq!(fs::metadata(&path).await.unwrap_err().kind(), std::io::ErrorKind::NotFound);
//!     std::io::Result::Ok(())
//! })??;
//! # std::fs::remove_dir_all(root)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod dir;
mod file;
mod options;
mod pieces;
mod run;
mod watch;
mod whole;

pub use dir::{
    ReadDir, create_dir, create_dir_all, metadata, read_dir, remove_dir, remove_file, rename,
    sync_dir,
};
pub use file::File;
pub use options::OpenOptions;
pub use pieces::Pieces;
pub use watch::{Watch, watch};
pub use whole::{read, write_atomic};

pub use crate::driver::files::{Changes, DirEntry, FileKind, Metadata};
