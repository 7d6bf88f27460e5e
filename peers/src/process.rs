//! What is set for the whole process before anything else is created.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Pins this thread, and so all it will start, and lifts the descriptor limit to its ceiling.
pub(crate) fn prepare(core: Option<usize>) -> io::Result<()> {
    if let Some(core) = core {
        pin(core)?;
    }
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(())
}

fn pin(core: usize) -> io::Result<()> {
    let explain = |why: String| io::Error::other(format!("cannot run on core {core}: {why}"));
    if core >= CpuSet::MAX_CPU {
        return Err(explain(format!("cores go up to {}", CpuSet::MAX_CPU - 1)));
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(|error| explain(error.to_string()))
}
