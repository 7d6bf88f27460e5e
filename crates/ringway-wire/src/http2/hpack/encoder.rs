//! Fields into field blocks (RFC 7541, section 6).
//!
//! Only a fixed set of fields is inserted into the peer's table, and only as far as there is room: no
//! entry is ever evicted by another, so an entry's index is the number of those behind it.

use super::static_table::index_of_name;
use super::{Line, STATIC_LEN, TABLE_SIZE_DEFAULT, huffman, integer};
use crate::http2::fields::field_size;

/// Fields of a short block. A response has two, its trailers one.
pub(in crate::http2) const SHORT_MAX: usize = 8;

/// The state of a connection's sent field blocks.
#[derive(Debug)]
pub struct Encoder {
    /// For each id of a caller's field: how many entries there were with it, or 0.
    places: Vec<u16>,
    entries: u16,
    size: usize,
    size_max: usize,
    /// The smallest size since the last block, to be said in front of the next.
    said_least: Option<usize>,
}

impl Default for Encoder {
    fn default() -> Self {
        let size_max = TABLE_SIZE_DEFAULT as usize;
        Self { places: Vec::new(), entries: 0, size: 0, size_max, said_least: None }
    }
}

impl Encoder {
    /// The peer's table may have so many bytes from now on. We use no more than the default size.
    pub fn set_limit(&mut self, limit: u32) {
        let limit = limit.min(TABLE_SIZE_DEFAULT) as usize;
        if limit == self.size_max {
            return;
        }
        let least = self.said_least.map_or(limit, |least| least.min(limit));
        if limit < self.size {
            // What the peer keeps of the entries is not worth knowing.
            self.places.clear();
            (self.entries, self.size) = (0, 0);
            self.said_least = Some(0);
        } else {
            self.said_least = Some(least);
        }
        self.size_max = limit;
    }

    /// Says what has become of the table's size. Each block begins with it.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(least) = self.said_least.take() {
            if least < self.size_max {
                integer::encode(0x20, 0x1f, least, out);
            }
            integer::encode(0x20, 0x1f, self.size_max, out);
        }
    }

    /// The block of fields that are one byte each, and how long it is; `None` where some are not.
    #[inline]
    pub(in crate::http2) fn short_block(
        &self,
        lines: &[Line<'_>],
    ) -> Option<([u8; SHORT_MAX], usize)> {
        let mut block = [0; SHORT_MAX];
        if self.said_least.is_some() || lines.len() > SHORT_MAX {
            return None;
        }
        for (byte, line) in block.iter_mut().zip(lines) {
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
        Some((block, lines.len()))
    }

    /// Appends a field to a block that has begun.
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

    /// Appends a field that depends on no entry and makes none, so that the block may leave after
    /// others that are put together later.
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
        let place = *self.places.get(usize::from(id))?;
        (place != 0).then(|| STATIC_LEN + 1 + usize::from(self.entries - place))
    }

    /// Inserts a field if there is room for it.
    #[cold]
    fn put_first(&mut self, id: u16, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let size = field_size(name.len(), value.len());
        if self.size + size > self.size_max {
            return put_literal(0x00, 0x0f, name, value, out);
        }
        put_literal(0x40, 0x3f, name, value, out);
        self.size += size;
        self.entries += 1;
        let id = usize::from(id);
        if self.places.len() <= id {
            self.places.resize(id + 1, 0);
        }
        self.places[id] = self.entries;
    }
}

fn put_literal(form: u8, mask: u8, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let index = index_of_name(name);
    integer::encode(form, mask, index.unwrap_or(0), out);
    if index.is_none() {
        put_string(name, out);
    }
    // What is inserted is read once, so it is made as short as can be.
    match form == 0x40 && huffman::encoded_len(value) < value.len() {
        true => put_huffman(value, out),
        false => put_string(value, out),
    }
}

fn put_huffman(string: &[u8], out: &mut Vec<u8>) {
    integer::encode(0x80, 0x7f, huffman::encoded_len(string), out);
    huffman::encode(string, out);
}

/// A string as it is: what is sent once is not worth the work at both ends.
#[inline]
fn put_string(string: &[u8], out: &mut Vec<u8>) {
    integer::encode(0x00, 0x7f, string.len(), out);
    out.extend_from_slice(string);
}
