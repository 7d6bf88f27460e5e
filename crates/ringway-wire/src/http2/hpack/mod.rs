//! Header compression (RFC 7541): decodes field blocks into meanings, and encodes fields into
//! blocks.

mod again;
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
pub(crate) use encoder::ShortBlock;
pub use line::Line;
pub(super) use static_table::{STATIC_LEN, STATIC_TABLE};

/// Bytes added to an entry's name and value when its size is counted (section 4.1).
pub(super) const ENTRY_OVERHEAD: usize = 32;

/// Size of a dynamic table before any SETTINGS (RFC 9113, section 6.5.2).
pub(super) const TABLE_SIZE_DEFAULT: u32 = 4096;
