//! The numbers that a client has given to methods (section 3).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{MetaReader, Tag, Violation, checksum};

/// Which numbers have names, by a fingerprint of the name: enough to find out a client that gives
/// one number to two methods. The names themselves are for those who have the methods. It takes up
/// memory for each name that was said, whatever its number.
#[derive(Debug, Default)]
pub(super) struct Names {
    prints: BTreeMap<u32, u64>,
}

impl Names {
    /// Notes the name that came with a number; 0 is no number.
    ///
    /// # Errors
    ///
    /// When there is no name, the number is above `max`, or it has another name.
    #[cold]
    pub(super) fn note(&mut self, method: u32, meta: &[u8], max: u32) -> Result<(), Violation> {
        if method == 0 {
            return Ok(());
        }
        if method > max {
            return Err(Violation::TooManyMethods { max });
        }
        let print = fingerprint(name(meta)?);
        match self.prints.entry(method) {
            Entry::Vacant(place) => {
                place.insert(print);
            }
            Entry::Occupied(known) if *known.get() == print => {}
            Entry::Occupied(_) => return Err(Violation::MethodRebound { method }),
        }
        Ok(())
    }
}

fn name(meta: &[u8]) -> Result<&[u8], Violation> {
    for piece in MetaReader::new(meta) {
        if let (Tag::Method, name) = piece? {
            return Ok(name);
        }
    }
    Err(Violation::TornMetadata { tag: Tag::Method })
}

fn fingerprint(name: &[u8]) -> u64 {
    u64::from(checksum(&[name])) | (name.len() as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::Names;
    use crate::native::{MetaWriter, Tag, Violation};

    #[test]
    fn a_number_has_one_name() {
        let mut names = Names::default();
        let meta = |name| {
            let mut meta = vec![];
            MetaWriter::new(&mut meta).entry("k", b"v").method(name);
            meta
        };
        assert_eq!(names.note(3, &meta("a.B/C"), 4), Ok(()));
        assert_eq!(names.note(3, &meta("a.B/C"), 4), Ok(()), "said twice");
        let rebound = Violation::MethodRebound { method: 3 };
        assert_eq!(names.note(3, &meta("a.B/D"), 4), Err(rebound));
        assert_eq!(names.note(4, &meta(""), 4), Ok(()));
        let many = Violation::TooManyMethods { max: 4 };
        assert_eq!(names.note(5, &meta("a.B/C"), 4), Err(many));
        let nameless = Violation::TornMetadata { tag: Tag::Method };
        assert_eq!(names.note(1, b"\0\x03\x01kv", 4), Err(nameless));
        assert_eq!(names.note(0, b"", 4), Ok(()), "no number, no name to keep");
    }
}
