//! The paths of Unix sockets: each is taken by one server at a time, which removes the file.

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

/// The file of a listening Unix socket. It is removed once, when the listener closes or with the
/// last reference to it. A file that has replaced it meanwhile is left alone.
#[derive(Debug)]
pub(crate) struct UnixPath {
    path: PathBuf,
    /// The identity of the file; `None` once it was removed.
    file: Mutex<Option<FileId>>,
}

/// A file by its device and inode number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Self(found.dev(), found.ino()))
    }
}

impl UnixPath {
    /// Listens at a path. Other servers then find a listener there and do not take the file for
    /// stale; clients wait until the server accepts.
    pub(crate) fn listen(path: &Path, address: &SockAddr) -> io::Result<(Socket, Self)> {
        Self::bind(path, address, begin_listening)
    }

    /// Binds a path and does the rest with the socket. The file is removed if that fails.
    fn bind(
        path: &Path,
        address: &SockAddr,
        rest: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> io::Result<(Socket, Self)> {
        let _until_somebody_listens = lock_directory(path);
        let socket = match bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                clear_stale(path, address)?;
                bind(address)?
            }
            bound => bound?,
        };
        let file = Mutex::new(Some(FileId::of(path)?));
        let taken = Self { path: path.to_owned(), file };
        rest(&socket)?;
        Ok((socket, taken))
    }

    /// Removes the file, unless another one has replaced it.
    pub(crate) fn remove(&self) {
        let ours = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(ours) = ours else { return };
        if FileId::of(&self.path).ok() != Some(ours) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            let path = self.path.display();
            log(|| tracing::warn!(%error, %path, "cannot remove the file of a Unix socket"));
        }
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Binds a Unix address, a path or an abstract name, and listens.
pub(crate) fn listen(address: &SockAddr) -> io::Result<Socket> {
    let socket = bind(address)?;
    begin_listening(&socket)?;
    Ok(socket)
}

fn bind(address: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
    socket.bind(address)?;
    Ok(socket)
}

fn begin_listening(socket: &Socket) -> io::Result<()> {
    socket.listen(limits::UNIX_BACKLOG)
}

/// Locks the directory, so that no other server of this library inspects the path between `bind`
/// and `listen`, or while a stale file is replaced. A lock that is held for longer than that takes
/// is not waited for.
fn lock_directory(path: &Path) -> Option<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new("."))).ok()?;
    let began = Instant::now();
    while began.elapsed() < limits::PATH_LOCK_WAIT {
        match directory.try_lock() {
            Ok(()) => return Some(directory),
            #[expect(clippy::disallowed_methods, reason = "a lock of a file tells nobody")]
            Err(std::fs::TryLockError::WouldBlock) => thread::sleep(limits::PATH_LOCK_PAUSE),
            Err(std::fs::TryLockError::Error(_)) => break,
        }
    }
    None
}

/// Removes the file of a Unix socket without a listener.
fn clear_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    let in_use = |why: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return in_use("the path is not a socket");
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    // The connect must not block on a server that does not accept: its full queue shows that it
    // listens.
    let asking = Socket::new(Domain::UNIX, Type::STREAM.cloexec().nonblocking(), None)?;
    match asking.connect(address) {
        Ok(()) => in_use("another process listens there"),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
            io::ErrorKind::NotFound => Ok(()),
            io::ErrorKind::WouldBlock => {
                in_use("another process listens there, and its queue is full")
            }
            _ => in_use(&format!("cannot find out whether another process listens there: {error}")),
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
    fn only_its_owner_removes_a_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("one.sock");
        let (socket, taken) = listen_at(&path).expect("a free path");
        assert!(listen_at(&path).is_err(), "another listens there");
        taken.remove();
        assert!(!path.exists());
        let (_successors, successor) = listen_at(&path).expect("given back");
        drop((socket, taken));
        assert!(UnixStream::connect(&path).is_ok(), "the successor's file is still there");
        drop(successor);
        assert!(!path.exists());
    }

    #[test]
    fn a_failure_behind_the_bind_leaves_no_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("one.sock");
        let address = unix_sock_addr(&path).expect("a short path");
        let outcome = UnixPath::bind(&path, &address, |_socket| {
            assert!(path.exists());
            Err(io::Error::from_raw_os_error(12)) // ENOMEM
        });
        assert_eq!(outcome.err().and_then(|error| error.raw_os_error()), Some(12));
        assert!(!path.exists());
    }

    #[test]
    fn one_of_many_servers_gets_the_path_of_a_stale_file() {
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
                // Each result is kept until the last attempt.
                let held: Vec<_> =
                    tries.into_iter().map(|one| one.join().expect("no panic")).collect();
                drop(held);
            });
            assert_eq!(winners.into_inner(), 1);
        }
    }

    #[test]
    fn server_that_does_not_accept_does_not_block_another() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hangs.sock");
        let hangs = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        hangs.bind(&SockAddr::unix(&path).expect("short")).expect("bound");
        hangs.listen(0).expect("listening");
        let _fills_its_queue = UnixStream::connect(&path).expect("connected");
        let error = listen_at(&path).expect_err("it is in use");
        assert!(error.to_string().contains("its queue is full"), "{error}");
        assert!(path.exists());
    }
}
