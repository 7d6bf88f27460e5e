//! What a connection's bytes are held in: views of received buffers, chunks of bytes to send.

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
