//! The traits of tokio and hyper over a connection.

mod io_stream;
mod rt;

pub use io_stream::IoStream;
pub use rt::{HyperTimer, LocalExec};

use crate::connection::Connection;

impl Connection {
    /// The connection as a byte stream of tokio and hyper, which copies.
    pub fn into_io(self) -> IoStream {
        IoStream::new(self)
    }
}
