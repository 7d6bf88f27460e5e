//! One operation from its first poll to its answer.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::blocking::SubmitError;
use crate::core::{Core, FileOutcome, try_with_current, with_current};
use crate::driver::Key;
use crate::driver::files::{FileAnswer, FileDescriptor, FileOp, perform};
use crate::limits;
use crate::spawn::spawn_blocking;
use crate::sync::Semaphore;

/// Does `op` on the driver of this core, or on the blocking pool where that has no such operation.
///
/// # Panics
/// Outside of a runtime's thread.
pub(super) async fn run(op: FileOp) -> io::Result<FileAnswer> {
    let core = with_current(Rc::clone);
    let op = match core.start_file_op(op) {
        Ok(name) => match (RunningOp { core, name: Some(name) }).await {
            Ok(answer) => return answer,
            Err(op) => op,
        },
        Err(refused) => refused?,
    };
    let turns = POOLED.with(Semaphore::clone);
    let _turn = turns.acquire(1).await.map_err(io::Error::other)?;
    let job = spawn_blocking(move || perform(op)).map_err(refused)?;
    job.await.unwrap_or_else(|_panic| {
        Err(io::Error::other("an operation on a file ended without an answer"))
    })
}

thread_local! {
    /// The turns of this core at the blocking pool.
    static POOLED: Semaphore = Semaphore::new(limits::POOLED_FILE_OPS_MAX);
}

/// Does `op` without telling anybody of it. Where there is no core it is done here and now.
pub(super) fn detach(op: FileOp) {
    let mut op = Some(op);
    try_with_current(|core| op = op.take().and_then(|op| core.detach_file_op(op).err()));
    let Some(op) = op else { return };
    // A pool that is full drops the operation, and with it what was to be closed.
    let is_here = try_with_current(|_| ()).is_some();
    if is_here {
        let _at_once = spawn_blocking(move || perform(op));
    } else {
        let _nobody_asked = perform(op);
    }
}

/// Closes a descriptor once nobody has it any more.
pub(super) fn release(file: Arc<FileDescriptor>) {
    if let Some(file) = Arc::into_inner(file) {
        detach(FileOp::Close(file));
    }
}

/// An operation that the driver has. Dropping this leaves it there.
struct RunningOp {
    core: Rc<Core>,
    /// `None` when the answer was told.
    name: Option<Key>,
}

impl Future for RunningOp {
    type Output = FileOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let name = self.name.expect("polled after its end");
        let outcome = ready!(self.core.poll_file_op(name, cx));
        self.name = None;
        Poll::Ready(outcome)
    }
}

impl Drop for RunningOp {
    fn drop(&mut self) {
        if let Some(name) = self.name {
            self.core.abandon_file_op(name);
        }
    }
}

/// A path as the kernel takes it.
///
/// # Errors
/// `InvalidInput` for a path with a zero byte in it.
pub(super) fn kernel_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "a path must not contain a zero byte")
    })
}

/// For an operation whose answer has another form than every driver gives it.
pub(super) fn unexpected(answer: &FileAnswer) -> io::Error {
    debug_assert!(false, "{answer:?} is no answer to that");
    io::Error::other("the driver's answer does not fit the operation")
}

fn refused(error: SubmitError) -> io::Error {
    match error {
        SubmitError::Full { .. } => io::Error::new(io::ErrorKind::ResourceBusy, error),
        error => io::Error::other(error),
    }
}
