//! Header compression (RFC 7541): field blocks into meanings, and fields into blocks.

mod codes;
mod decoder;
mod dynamic_table;
mod encoder;
pub(crate) mod fuzz;
mod huffman;
mod integer;
mod line;
mod runs;
mod static_table;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub(super) use encoder::SHORT_MAX;
pub use line::Line;
pub(super) use static_table::{STATIC_LEN, STATIC_TABLE};

/// Bytes that an entry counts besides its name and its value (section 4.1).
pub(super) const ENTRY_OVERHEAD: usize = 32;

/// Size of a dynamic table before any setting says otherwise (RFC 9113, section 6.5.2).
pub(super) const TABLE_SIZE_DEFAULT: u32 = 4096;
