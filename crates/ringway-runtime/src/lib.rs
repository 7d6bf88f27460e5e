//! One io_uring thread per core: drivers, executor, timers, buffers and the core-to-core mesh.
//!
//! A [`Runtime`] starts one thread a core. Each owns a ring (or an epoll instance, where io_uring
//! is refused), its tasks, timers, sockets and buffers; nothing on the path of a message is shared,
//! locked or allocated. Tasks need not be `Send` and never move. Work crosses cores only by
//! [`CoreHandle::spawn`].
//!
//! The kernel sees only memory of the runtime: received bytes are lent as [`View`]s, bytes to send
//! are moved in as [`Segment`]s, so dropping a future loses nothing.
//!
//! ```
//! use std::rc::Rc;
//! use ringway_runtime::io::{ListenOptions, Listener, Stream};
//!
//! ringway_runtime::block_on(async {
//!     let any_port = std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into();
//!     let listener = Listener::bind(&any_port, ListenOptions::default())?;
//!     let address = listener.local_addr().clone();
//!     let server = ringway_runtime::spawn(async move {
//!         let stream = listener.accept().await?.into_stream(&Rc::default())?;
//!         while let Some(view) = stream.recv().await? {
//!             stream.send(view);
//!         }
//!         std::io::Result::Ok(())
//!     });
//!     let client = Stream::connect(&address).await?;
//!     client.write(b"hello");
//!     client.shutdown();
//!     let reply = client.recv().await?.expect("an echo");
//!     assert_eq!(&*reply, b"hello");
//!     server.await.expect("no panic")
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// A waker is a number stored in a pointer: core, generation and index of a task.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("ringway-runtime needs a target with pointers of 64 bits");

pub mod affinity;
pub mod blocking;
mod buf;
mod contain;
mod core;
mod counters;
mod driver;
pub mod fs;
pub mod io;
mod label;
mod limits;
mod mailbox;
mod names;
mod park;
mod runtime;
pub mod sim;
mod slab;
mod spawn;
pub mod sync;
mod sys;
mod task;
mod time;
mod timer;
mod watchdog;

pub use buf::{Segment, View};
#[doc(hidden)] // for higher crates, which run foreign code too
pub use contain::{contain, drop_contained, drop_each, panic_message};
#[doc(hidden)] // for tests
pub use core::cores_alive;
pub use counters::{CoreCounters, Stall};
pub use label::PollLabel;
pub use runtime::{
    Backend, Builder, CoreFailure, CoreHandle, Failed, RemoteHandle, Runtime, SpawnError, block_on,
};
#[doc(hidden)] // for the crates above this one, which start threads too
pub use spawn::unpinned_cores;
pub use spawn::{spawn, spawn_blocking, spawn_detached, spawn_named, yield_now};
#[doc(hidden)] // for the crates above this one, which keep wakers too
pub use sys::is_own as is_own_waker;
pub use sys::release_free_memory;
pub use task::{JoinError, JoinHandle};
pub use time::{
    Deadline, Elapsed, Interval, Sleep, interval, now, now_exact, sleep, sleep_until, timeout,
};
#[doc(hidden)] // for the crates above this one, which look at the clock for each message
pub use time::{origin, uptime};
