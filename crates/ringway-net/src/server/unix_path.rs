//! The paths of Unix sockets: taken by one server at a time, and given back by whoever took them.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use socket2::{Domain, SockAddr, Socket, Type};

use super::log::log;
use crate::limits;

/// The file of a listening socket of ours, removed once: when its listener closes, or with the last
/// that knows of it. Another one that stands in its place meanwhile is left alone.
#[derive(Debug)]
pub(crate) struct UnixPath {
    path: PathBuf,
    /// Which file it is; `None` once it was removed.
    file: Mutex<Option<FileId>>,
}

/// A file by its device and number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Self(found.dev(), found.ino()))
    }
}

impl UnixPath {
    /// Listens at a path. From here on somebody listens there for everybody who asks, so no other
    /// server takes it for forsaken; clients wait until we accept.
    pub(crate) fn listen(path: &Path, address: &SockAddr) -> io::Result<(Socket, Self)> {
        let _until_somebody_listens = lock_directory(path);
        let socket = match listen(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                clear_stale(path, address)?;
                listen(address)?
            }
            listening => listening?,
        };
        let file = Mutex::new(Some(FileId::of(path)?));
        Ok((socket, Self { path: path.to_owned(), file }))
    }

    /// Removes the file, unless it is not ours any more.
    pub(crate) fn remove(&self) {
        let ours = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(ours) = ours else { return };
        if FileId::of(&self.path).ok() != Some(ours) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            let path = self.path.display();
            log(|| tracing::warn!(%error, %path, "cannot remove the socket's file"));
        }
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Binds an address that has no listener, a path or a name, and listens there.
pub(crate) fn listen(address: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
    socket.bind(address)?;
    socket.listen(limits::UNIX_BACKLOG)?;
    Ok(socket)
}

/// Keeps other servers of this library from looking at the path while it is bound and not yet
/// listened on, or while a forsaken file is replaced. Whoever holds the lock for longer than that
/// takes has no good reason to, so it is not waited for.
fn lock_directory(path: &Path) -> Option<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new("."))).ok()?;
    let began = Instant::now();
    while began.elapsed() < limits::PATH_LOCK_WAIT {
        match directory.try_lock() {
            Ok(()) => return Some(directory),
            Err(std::fs::TryLockError::WouldBlock) => thread::sleep(limits::PATH_LOCK_PAUSE),
            Err(std::fs::TryLockError::Error(_)) => break,
        }
    }
    None
}

/// Removes the file of a Unix socket that nobody listens on any more.
fn clear_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    let in_use = |why: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return in_use("the path is a file of another kind");
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    // A server that does not accept must not block us: its full queue is an answer too.
    let asking = Socket::new(Domain::UNIX, Type::STREAM.cloexec().nonblocking(), None)?;
    match asking.connect(address) {
        Ok(()) => in_use("somebody listens there"),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
            io::ErrorKind::NotFound => Ok(()),
            io::ErrorKind::WouldBlock => in_use("somebody listens there, and is behind"),
            _ => in_use(&format!("it cannot be told whether somebody listens there: {error}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::address::unix_sock_addr;

    fn listen_at(path: &Path) -> io::Result<(Socket, UnixPath)> {
        UnixPath::listen(path, &unix_sock_addr(path).expect("a short path"))
    }

    #[test]
    fn a_file_is_removed_by_whose_it_is_and_by_nobody_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("one.sock");
        let (socket, taken) = listen_at(&path).expect("a free path");
        assert!(listen_at(&path).is_err(), "somebody listens there");
        taken.remove();
        assert!(!path.exists());
        let (_successors, successor) = listen_at(&path).expect("given back");
        drop((socket, taken));
        assert!(UnixStream::connect(&path).is_ok(), "the successor's file is still there");
        drop(successor);
        assert!(!path.exists());
    }

    #[test]
    fn of_many_who_find_a_forsaken_file_one_gets_the_path() {
        let directory = tempfile::tempdir().expect("a directory");
        for round in 0..20 {
            let path = directory.path().join(format!("{round}.sock"));
            drop(UnixListener::bind(&path).expect("bound"));
            let winners = AtomicUsize::new(0);
            let begin = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                let tries: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            begin.wait();
                            listen_at(&path).inspect(|_| {
                                winners.fetch_add(1, Ordering::Relaxed);
                            })
                        })
                    })
                    .collect();
                // All are kept until the last has tried.
                let held: Vec<_> =
                    tries.into_iter().map(|one| one.join().expect("no panic")).collect();
                drop(held);
            });
            assert_eq!(winners.into_inner(), 1);
        }
    }

    #[test]
    fn a_server_that_does_not_accept_blocks_nobody() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hangs.sock");
        let hangs = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        hangs.bind(&SockAddr::unix(&path).expect("short")).expect("bound");
        hangs.listen(0).expect("listening");
        let _fills_its_queue = UnixStream::connect(&path).expect("connected");
        let error = listen_at(&path).expect_err("it is in use");
        assert!(error.to_string().contains("is behind"), "{error}");
        assert!(path.exists());
    }
}
