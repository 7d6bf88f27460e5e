//! Changes of a store as bytes, of which logs and snapshots consist.

use std::time::Duration;

use super::leases::LeaseId;
use super::values::Revision;

/// One step that leads from a store to the next. Times are whole milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op<'a> {
    /// The puts and deletions that follow have this revision.
    Revision(Revision),
    Put {
        key: &'a [u8],
        value: &'a [u8],
        lease: LeaseId,
    },
    Delete {
        key: &'a [u8],
    },
    Grant {
        id: LeaseId,
        ttl: Duration,
    },
    /// Of logs of former versions: renewals are not logged.
    Renew {
        id: LeaseId,
    },
    /// The lease has ended. Its keys are deleted by operations of their own.
    End {
        id: LeaseId,
    },
    Compact(Revision),
    /// A snapshot begins.
    State {
        revision: Revision,
        compacted: Revision,
    },
    /// A lease of a snapshot, and the time that it has left.
    Lease {
        id: LeaseId,
        ttl: Duration,
        left: Duration,
    },
    /// A key of a snapshot at one of its revisions.
    Version {
        key: &'a [u8],
        value: &'a [u8],
        lease: LeaseId,
        create_revision: Revision,
        mod_revision: Revision,
        version: i64,
    },
    /// The deletion of a key of a snapshot.
    Gone {
        key: &'a [u8],
        revision: Revision,
    },
    /// A snapshot ends.
    Complete,
}

impl<'a> Op<'a> {
    /// Appends the operation: a byte for its kind, and its fields, little-endian, bytes after their length.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut out = Encoder(out);
        match *self {
            Op::Revision(revision) => out.kind(1).number(revision.0),
            Op::Put { key, value, lease } => out.kind(2).number(lease.0).bytes(key).bytes(value),
            Op::Delete { key } => out.kind(3).bytes(key),
            Op::Grant { id, ttl } => out.kind(4).number(id.0).time(ttl),
            Op::Renew { id } => out.kind(5).number(id.0),
            Op::End { id } => out.kind(6).number(id.0),
            Op::Compact(revision) => out.kind(7).number(revision.0),
            Op::State { revision, compacted } => out.kind(8).number(revision.0).number(compacted.0),
            Op::Lease { id, ttl, left } => out.kind(9).number(id.0).time(ttl).time(left),
            Op::Version { key, value, lease, create_revision, mod_revision, version } => out
                .kind(10)
                .number(lease.0)
                .number(create_revision.0)
                .number(mod_revision.0)
                .number(version)
                .bytes(key)
                .bytes(value),
            Op::Gone { key, revision } => out.kind(11).number(revision.0).bytes(key),
            Op::Complete => out.kind(12),
        };
    }

    /// Takes the first operation off the bytes. `None` if they are not one.
    pub(crate) fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let mut from = Decoder(bytes);
        Some(match from.kind()? {
            1 => Op::Revision(from.revision()?),
            2 => Op::Put { lease: from.lease()?, key: from.bytes()?, value: from.bytes()? },
            3 => Op::Delete { key: from.bytes()? },
            4 => Op::Grant { id: from.lease()?, ttl: from.time()? },
            5 => Op::Renew { id: from.lease()? },
            6 => Op::End { id: from.lease()? },
            7 => Op::Compact(from.revision()?),
            8 => Op::State { revision: from.revision()?, compacted: from.revision()? },
            9 => Op::Lease { id: from.lease()?, ttl: from.time()?, left: from.time()? },
            10 => Op::Version {
                lease: from.lease()?,
                create_revision: from.revision()?,
                mod_revision: from.revision()?,
                version: from.number()?,
                key: from.bytes()?,
                value: from.bytes()?,
            },
            11 => Op::Gone { revision: from.revision()?, key: from.bytes()? },
            12 => Op::Complete,
            _ => return None,
        })
    }
}

struct Encoder<'a>(&'a mut Vec<u8>);

impl Encoder<'_> {
    fn kind(&mut self, kind: u8) -> &mut Self {
        self.0.push(kind);
        self
    }

    fn number(&mut self, number: i64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn time(&mut self, time: Duration) -> &mut Self {
        self.number(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let length = u32::try_from(bytes.len()).expect("requests are far shorter");
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }
}

struct Decoder<'a, 'b>(&'b mut &'a [u8]);

impl<'a> Decoder<'a, '_> {
    fn kind(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn number(&mut self) -> Option<i64> {
        let bytes = self.0.split_off(..8)?;
        bytes.try_into().ok().map(i64::from_le_bytes)
    }

    fn revision(&mut self) -> Option<Revision> {
        self.number().map(Revision)
    }

    fn lease(&mut self) -> Option<LeaseId> {
        self.number().map(LeaseId)
    }

    fn time(&mut self) -> Option<Duration> {
        u64::try_from(self.number()?).ok().map(Duration::from_millis)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.0.split_off(..4)?.try_into().ok()?);
        self.0.split_off(..usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_survive_and_half_of_one_is_none() {
        let (key, value, lease) = (&b"key"[..], &b"value"[..], LeaseId(-7));
        let (revision, second) = (Revision(1 << 40), Duration::from_millis(1_001));
        let ops = [
            Op::Revision(revision),
            Op::Put { key, value, lease },
            Op::Delete { key },
            Op::Grant { id: lease, ttl: second },
            Op::Renew { id: lease },
            Op::End { id: lease },
            Op::Compact(revision),
            Op::State { revision, compacted: Revision(3) },
            Op::Lease { id: lease, ttl: second, left: Duration::ZERO },
            Op::Version {
                key,
                value: b"",
                lease,
                create_revision: Revision(2),
                mod_revision: revision,
                version: 9,
            },
            Op::Gone { key, revision },
            Op::Complete,
        ];
        let mut bytes = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut bytes));
        let mut rest = &bytes[..];
        for op in ops {
            let whole = rest;
            assert_eq!(Op::decode(&mut rest), Some(op));
            let length = whole.len() - rest.len();
            for cut in 0..length {
                assert_eq!(Op::decode(&mut &whole[..cut]), None, "{op:?} cut at {cut}");
            }
        }
        assert!(rest.is_empty());
        assert_eq!(Op::decode(&mut &b"\0"[..]), None);
        assert_eq!(Op::decode(&mut &b"\x03\xFF\xFF\xFF\xFFkey"[..]), None);
    }
}
