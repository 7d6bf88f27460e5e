//! Buffers of connections: views of received bytes, and chunks of bytes to send.

mod chunk;
pub(crate) mod here;
mod pools;
pub(crate) mod returns;
mod segment;
mod view;

pub(crate) use chunk::{Chunk, ChunkPool};
pub(crate) use pools::{BufferCounts, Pools};
pub use segment::Segment;
pub use view::View;
