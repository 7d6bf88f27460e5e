//! The numbers that a client has assigned to methods (section 3).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{MetaReader, Tag, Violation, checksum};

/// The assigned method numbers, each with a fingerprint of its name: enough to detect a client that
/// assigns one number to two methods. The methods themselves are known to the caller. Memory is
/// used only for assigned numbers, however large they are.
#[derive(Debug, Default)]
pub(super) struct Names {
    prints: BTreeMap<u32, u64>,
}

impl Names {
    /// Records the name that came with a method number; 0 means that the call has no number.
    ///
    /// # Errors
    ///
    /// Fails when there is no name, the number is above `max`, or it was assigned to another name.
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
            Entry::Vacant(vacant) => {
                vacant.insert(print);
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
    fn a_number_cannot_be_assigned_to_a_second_name() {
        let mut names = Names::default();
        let meta = |name| {
            let mut meta = vec![];
            MetaWriter::new(&mut meta).entry("k", b"v").method(name);
            meta
        };
        assert_eq!(names.note(3, &meta("a.B/C"), 4), Ok(()));
        assert_eq!(names.note(3, &meta("a.B/C"), 4), Ok(()), "the same name again");
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
