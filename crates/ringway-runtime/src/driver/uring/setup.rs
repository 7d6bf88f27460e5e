//! Creation of the ring.

use std::io;

use io_uring::{EnterFlags, IoUring};

use crate::limits;
use crate::sys::Ring;

/// Creates a ring owned by the calling thread, and returns the names of its flags.
///
/// # Errors
/// Returns the errors of `io_uring_setup`: `EPERM` or `ENOSYS` if it is refused, `EINVAL` if the
/// kernel is older than 6.1, `ENOMEM` if the memory lock limit is too small.
pub(super) fn make_ring() -> io::Result<(Ring, String)> {
    let (ring, no_sqarray) = match build(true) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (build(false)?, false),
        built => (built?, true),
    };
    // Those that work on files, and all others. Kernels before 5.15 have no such bound.
    let mut workers = [limits::KERNEL_FILE_WORKERS_MAX, limits::KERNEL_WORKERS_MAX];
    let _too_old = ring.submitter().register_iowq_max_workers(&mut workers);
    let ring = Ring::new(ring);
    let flags = describe(ring.enter_flags(), no_sqarray);
    Ok((ring, flags))
}

fn build(no_sqarray: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder
        .dontfork()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(limits::COMPLETIONS);
    if no_sqarray {
        builder.setup_no_sqarray();
    }
    builder.build(limits::SUBMISSIONS)
}

fn describe(enter_flags: EnterFlags, no_sqarray: bool) -> String {
    let always = "SINGLE_ISSUER|DEFER_TASKRUN|COOP_TASKRUN|TASKRUN_FLAG|SUBMIT_ALL";
    let named = |is_set: bool, name: &'static str| if is_set { name } else { "" };
    let no_sqarray = named(no_sqarray, "|NO_SQARRAY");
    let no_iowait = named(enter_flags.contains(EnterFlags::NO_IOWAIT), "|NO_IOWAIT");
    let is_registered = enter_flags.contains(EnterFlags::REGISTERED_RING);
    let registered = named(is_registered, "|REGISTERED_RING");
    [always, no_sqarray, no_iowait, registered].concat()
}
