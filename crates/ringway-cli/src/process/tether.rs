//! Ties a peer program to this one: it cannot outlive us, even if we are killed.
//!
//! Our own servers end with their standard input. Peers read none, so they are started through the hidden
//! subcommand `tether`, which asks the kernel for SIGKILL at the parent's death and then becomes the peer.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::args::TetherConfig;

/// A command that runs `program` tied to the **thread** that starts it: the kernel takes the end of that
/// thread for the parent's death, so start it from one that lives as long as the program shall.
///
/// # Errors
/// The system's, if it does not know where this program is.
pub(super) fn tethered<A: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("tether").arg(std::process::id().to_string()).arg(program).args(args);
    Ok(command)
}

/// Ties this process to its parent and becomes the command; returns only if that fails.
pub(crate) fn become_command(config: &TetherConfig) -> io::Error {
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return errno.into();
    }
    // The parent may have gone before the kernel was asked to watch it.
    if getppid().map(Pid::as_raw_pid) != Some(config.parent) {
        return io::Error::other("the process that asked for it has ended");
    }
    let [program, args @ ..] = config.command.as_slice() else {
        return io::Error::other("no command to become");
    };
    Command::new(program).args(args).exec()
}
