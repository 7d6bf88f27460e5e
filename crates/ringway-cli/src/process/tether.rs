//! Ties a peer program to this one: it cannot outlive this program, even one that is killed.
//!
//! Our own servers end with their standard input. Peers read none, so the hidden subcommand `tether` starts them:
//! it asks the kernel for SIGKILL at the parent's death and then becomes the peer.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::args::TetherConfig;

/// Returns a command that runs `program` tied to the **thread** that starts it: the kernel takes the end of that
/// thread for the parent's death, so start it from a thread that lives long enough.
///
/// # Errors
/// The system does not know the path of this program.
pub(super) fn tethered<A: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
) -> io::Result<Command> {
    let mut command = tether(None)?;
    command.arg(program).args(args);
    Ok(command)
}

/// Does the same for a program that does not pin itself to a core.
///
/// # Errors
/// Fails as [`tethered`] does.
pub(super) fn tethered_to_core<A: AsRef<OsStr>>(
    core: usize,
    program: &Path,
    args: impl IntoIterator<Item = A>,
) -> io::Result<Command> {
    let mut command = tether(Some(core))?;
    command.arg(program).args(args);
    Ok(command)
}

fn tether(core: Option<usize>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("tether");
    if let Some(core) = core {
        command.arg("--core").arg(core.to_string());
    }
    command.arg(std::process::id().to_string());
    Ok(command)
}

/// Ties this process to its parent and becomes the command; returns only an error.
pub(crate) fn become_command(config: &TetherConfig) -> io::Error {
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return errno.into();
    }
    // The parent may have ended before the kernel was asked to watch it.
    if getppid().map(Pid::as_raw_pid) != Some(config.parent) {
        return io::Error::other("the process that asked for it has ended");
    }
    if let Some(core) = config.core {
        let mut cores = CpuSet::new();
        cores.set(core);
        if let Err(errno) = sched_setaffinity(None, &cores) {
            return errno.into();
        }
    }
    let [program, args @ ..] = config.command.as_slice() else {
        return io::Error::other("no command to become");
    };
    Command::new(program).args(args).exec()
}
