//! Connections behind the traits of tokio and hyper.

mod io_stream;
mod rt;

pub use io_stream::IoStream;
pub use rt::{HyperTimer, LocalExec};

use crate::connection::Connection;

impl Connection {
    /// Wraps the connection as a byte stream of tokio and hyper, which copies.
    pub fn into_io(self) -> IoStream {
        IoStream::new(self)
    }
}
