//! A side of a row does on standard input's command what is due, and says on standard output that it
//! is done. In between nothing happens, so marks are set while the process sleeps.

use std::alloc::System;
use std::cell::Cell;
use std::error::Error;
use std::hint::black_box;
use std::io::{Write, stdin, stdout};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ringway_runtime::{Backend, CoreHandle, Runtime};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::load::Load;
use crate::rows::{Row, Work};
use crate::servers;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

thread_local! {
    /// The client, while no operation runs.
    static LOAD: Cell<Option<Load>> = const { Cell::new(None) };
}

/// Runs a server until standard input ends.
///
/// # Errors
/// It does not start.
pub(crate) fn serve(row: &Row, backend: Backend, folder: &Path) -> Result<(), Box<dyn Error>> {
    let server = servers::start(row.work, backend, folder)?;
    say(&format!("{}", server.addresses()[0]))?;
    obey(&server.cores()[0], |_| Err("a server only marks".into()))
}

/// Runs a client until standard input ends.
///
/// # Errors
/// An operation fails.
pub(crate) fn call(row: &Row, backend: Backend, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().threads(1).backend(backend).spin(Duration::ZERO);
    let runtime = runtime.start()?;
    let core = &runtime.cores()[0];
    let work = row.work;
    obey(core, |count| {
        let operations = core.spawn(async move || operate(work, address, count).await)?;
        Ok(operations.wait()??)
    })
}

async fn operate(work: Work, address: SocketAddr, count: u32) -> Result<(), String> {
    let run = async {
        let mut load = match LOAD.take() {
            Some(load) => load,
            None => Load::connect(work, address).await?,
        };
        load.run(count).await?;
        LOAD.set(Some(load));
        Ok::<_, Box<dyn Error>>(())
    };
    run.await.map_err(|error| error.to_string())
}

fn obey(
    core: &CoreHandle,
    run: impl Fn(u32) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    for line in stdin().lines() {
        match line?.split_once(' ') {
            Some(("run", count)) => {
                run(count.parse()?)?;
                say("done")?;
            }
            _ => {
                mark();
                let stats = ALLOCATOR.stats();
                let allocations = stats.allocations + stats.reallocations;
                let bytes = stats.bytes_allocated;
                say(&format!("{allocations} {bytes} {}", core.counters().syscalls))?;
            }
        }
    }
    Ok(())
}

/// Callgrind writes its counts, and begins anew, when this is called.
#[inline(never)]
fn mark() {
    black_box(());
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
