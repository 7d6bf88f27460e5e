//! The bytes that the specification of the native protocol contains.

use std::collections::BTreeMap;
use std::ops::Index;
use std::path::Path;

/// The `hex` blocks of `docs/protocol.md`, by name.
pub(crate) struct Vectors(BTreeMap<String, Vec<u8>>);

impl Vectors {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
        let text = std::fs::read_to_string(path).expect("the specification is there");
        let mut blocks = BTreeMap::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(name) = line.strip_prefix("```hex ") else {
                continue;
            };
            let rows = lines.by_ref().take_while(|row| *row != "```");
            let previous = blocks.insert(name.to_owned(), rows.flat_map(bytes).collect());
            assert!(previous.is_none(), "two blocks are named `{name}`");
        }
        Self(blocks)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Index<&str> for Vectors {
    type Output = Vec<u8>;

    fn index(&self, name: &str) -> &Vec<u8> {
        self.0.get(name).unwrap_or_else(|| panic!("docs/protocol.md has no block `{name}`"))
    }
}

/// The bytes at the front of a row. An explanation follows them.
fn bytes(row: &str) -> impl Iterator<Item = u8> {
    let is_byte = |word: &&str| {
        let digits = word.bytes().filter(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F'));
        word.len() == 2 && digits.count() == 2
    };
    row.split_whitespace()
        .take_while(is_byte)
        .map(|word| u8::from_str_radix(word, 16).expect("two digits"))
}
