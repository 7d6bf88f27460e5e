//! The tokio runtime that a process uses beside its cores.

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use ringway_runtime::affinity::CoreSet;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::limits;

struct Side {
    handle: Handle,
    /// Our own runtime, kept alive until the process ends.
    _runtime: Option<Runtime>,
}

static SIDE: OnceLock<Side> = OnceLock::new();

/// Returns the tokio runtime that [`run`](crate::run) and [`enter`](crate::enter) use: the one that was
/// [set](set_handle), or one with a single thread, which this starts.
///
/// # Errors
/// Fails if there is none yet and the system refuses the thread or the descriptors for one.
pub fn handle() -> io::Result<&'static Handle> {
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(side) = SIDE.get() {
        return Ok(&side.handle);
    }
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if SIDE.get().is_none() {
        let runtime = start()?;
        let side = Side { handle: runtime.handle().clone(), _runtime: Some(runtime) };
        if let Err(second) = SIDE.set(side) {
            second._runtime.expect("it was just started").shutdown_background();
        }
    }
    Ok(&SIDE.get().expect("it was set").handle)
}

/// Makes `run` and `enter` use the program's own runtime. Call it before their first use.
///
/// ```
/// #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
/// async fn main() {
///     ringway_tokio::set_handle(tokio::runtime::Handle::current()).expect("this comes first");
///     // start Ringway servers, and await `ServerHandle::ended`
/// }
/// ```
///
/// # Errors
/// Returns the handle if there is a runtime already.
pub fn set_handle(handle: Handle) -> Result<(), Handle> {
    SIDE.set(Side { handle, _runtime: None }).map_err(|side| side.handle)
}

fn start() -> io::Result<Runtime> {
    // Threads inherit the pinning of the core that starts them.
    let cores = ringway_runtime::unpinned_cores();
    Builder::new_multi_thread()
        .worker_threads(limits::THREADS)
        .max_blocking_threads(limits::BLOCKING_THREADS_MAX)
        .thread_name("ringway-tokio")
        .on_thread_start(move || {
            let _worse_placement = cores.as_ref().map(CoreSet::confine_current_thread);
        })
        .enable_all()
        .build()
}
