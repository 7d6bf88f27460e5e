//! Encodes fields into field blocks (RFC 7541, section 6).
//!
//! Only a fixed set of fields is added to the peer's table, and only while there is room. No entry
//! ever evicts another, so an entry's index is the number of entries added after it.

use super::static_table::index_of_name;
use super::{Line, STATIC_LEN, TABLE_SIZE_DEFAULT, huffman, integer};
use crate::http2::fields::field_size;

/// Most fields of a short block. A response has two, its trailers one.
pub(in crate::http2) const SHORT_MAX: usize = 8;

/// The encoder of a connection's field blocks.
#[derive(Debug)]
pub struct Encoder {
    /// By the caller's field id: the number of entries when its entry was added, or 0 if it has
    /// none.
    added_at: Vec<u16>,
    entries: u16,
    size: u16,
    size_max: u16,
    /// The smallest size since the last block, to be announced at the start of the next.
    said_least: Option<u16>,
    /// Number of changes of the table, by which indices and sizes change, modulo 2^32.
    version: u32,
}

/// A block whose fields are one byte each. It means the same until the table changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShortBlock {
    pub(in crate::http2) bytes: [u8; SHORT_MAX],
    pub(in crate::http2) len: u8,
    version: u32,
}

impl Default for Encoder {
    fn default() -> Self {
        let size_max = TABLE_SIZE_DEFAULT as u16;
        Self { added_at: Vec::new(), entries: 0, size: 0, size_max, said_least: None, version: 0 }
    }
}

impl Encoder {
    /// Changes the size limit of the peer's table. No more than the default size is used.
    pub fn set_limit(&mut self, limit: u32) {
        let limit = limit.min(TABLE_SIZE_DEFAULT) as u16;
        if limit == self.size_max {
            return;
        }
        let least = self.said_least.map_or(limit, |least| least.min(limit));
        if limit < self.size {
            // Which entries the peer keeps is not worth tracking.
            self.added_at.clear();
            (self.entries, self.size) = (0, 0);
            self.said_least = Some(0);
        } else {
            self.said_least = Some(least);
        }
        self.size_max = limit;
        self.version = self.version.wrapping_add(1);
    }

    /// Frees the memory that is kept for more entries.
    pub(in crate::http2) fn drop_spare(&mut self) {
        self.added_at.shrink_to_fit();
    }

    /// Starts a block with any pending table size updates.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(least) = self.said_least.take() {
            if least < self.size_max {
                integer::encode(0x20, 0x1f, least.into(), out);
            }
            integer::encode(0x20, 0x1f, self.size_max.into(), out);
        }
    }

    /// Encodes a block whose fields are one byte each; `None` if some are not.
    #[inline]
    pub(in crate::http2) fn short_block(&self, lines: &[Line<'_>]) -> Option<ShortBlock> {
        let mut bytes = [0; SHORT_MAX];
        if self.said_least.is_some() || lines.len() > SHORT_MAX {
            return None;
        }
        for (byte, line) in bytes.iter_mut().zip(lines) {
            let index = match *line {
                Line::Static(index) => usize::from(index),
                Line::Fixed { id, .. } => self.index(id)?,
                Line::Named { .. } | Line::Once { .. } | Line::Secret { .. } => return None,
            };
            if index >= 0x7f {
                return None;
            }
            *byte = 0x80 | index as u8;
        }
        Some(ShortBlock { bytes, len: lines.len() as u8, version: self.version })
    }

    /// Whether a block means to the peer what it meant when it was encoded.
    #[inline]
    pub(in crate::http2) fn is_current(&self, block: &ShortBlock) -> bool {
        block.version == self.version
    }

    /// Appends a field to a started block.
    #[inline]
    pub fn put(&mut self, line: &Line<'_>, out: &mut Vec<u8>) {
        match *line {
            Line::Static(index) => out.push(0x80 | index),
            Line::Fixed { id, name, value } => match self.index(id) {
                Some(index) => integer::encode(0x80, 0x7f, index, out),
                None => self.put_first(id, name, value, out),
            },
            Line::Named { id, name, value } => match self.index(id) {
                Some(index) => {
                    integer::encode(0x00, 0x0f, index, out);
                    put_string(value, out);
                }
                None => self.put_first(id, name, value, out),
            },
            Line::Once { name, value } => put_literal(0x00, 0x0f, name, value, out),
            Line::Secret { name, value } => put_literal(0x10, 0x0f, name, value, out),
        }
    }

    /// Appends a field without using or changing the table, so that the block may be sent after
    /// blocks that are encoded later.
    pub fn put_apart(line: &Line<'_>, out: &mut Vec<u8>) {
        match *line {
            Line::Static(index) => out.push(0x80 | index),
            Line::Secret { name, value } => put_literal(0x10, 0x0f, name, value, out),
            Line::Fixed { name, value, .. }
            | Line::Named { name, value, .. }
            | Line::Once { name, value } => put_literal(0x00, 0x0f, name, value, out),
        }
    }

    #[inline]
    fn index(&self, id: u16) -> Option<usize> {
        let added_at = *self.added_at.get(usize::from(id))?;
        (added_at != 0).then(|| STATIC_LEN + 1 + usize::from(self.entries - added_at))
    }

    /// Adds a field to the table if there is room for it.
    #[cold]
    fn put_first(&mut self, id: u16, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let size = field_size(name.len(), value.len());
        if size > (self.size_max - self.size).into() {
            return put_literal(0x00, 0x0f, name, value, out);
        }
        put_literal(0x40, 0x3f, name, value, out);
        self.size += size as u16;
        self.entries += 1;
        self.version = self.version.wrapping_add(1);
        let id = usize::from(id);
        if self.added_at.len() <= id {
            self.added_at.resize(id + 1, 0);
        }
        self.added_at[id] = self.entries;
    }
}

fn put_literal(form: u8, mask: u8, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let index = index_of_name(name);
    integer::encode(form, mask, index.unwrap_or(0), out);
    if index.is_none() {
        put_string(name, out);
    }
    // An inserted value is decoded once, so it is made as short as possible.
    match form == 0x40 && huffman::encoded_len(value) < value.len() {
        true => put_huffman(value, out),
        false => put_string(value, out),
    }
}

fn put_huffman(string: &[u8], out: &mut Vec<u8>) {
    integer::encode(0x80, 0x7f, huffman::encoded_len(string), out);
    huffman::encode(string, out);
}

/// Appends a string without Huffman coding: a string sent once is not worth the work at both ends.
#[inline]
fn put_string(string: &[u8], out: &mut Vec<u8>) {
    integer::encode(0x00, 0x7f, string.len(), out);
    out.extend_from_slice(string);
}
