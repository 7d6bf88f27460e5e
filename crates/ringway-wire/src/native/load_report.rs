//! The load report of a server (section 4, tag `82`).

use super::{Tag, Violation};

/// The load of a server, for load balancing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadReport {
    /// Processor use, in 1/65,535 of all processors.
    pub cpu: u16,
    /// Calls that wait for execution.
    pub queue: u16,
    /// Moving average of a call's service time, in microseconds.
    pub service_us: u32,
}

impl LoadReport {
    /// Encodes the report for the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; 8] {
        let whole =
            u64::from(self.cpu) | u64::from(self.queue) << 16 | u64::from(self.service_us) << 32;
        whole.to_le_bytes()
    }

    /// Reads the value of a [`LoadReport`](Tag::LoadReport) tag. Bytes after the eighth belong to
    /// later versions and are skipped.
    ///
    /// # Errors
    ///
    /// Returns [`TornMetadata`](Violation::TornMetadata) when there are fewer than eight bytes.
    pub fn decode(value: &[u8]) -> Result<Self, Violation> {
        let [c0, c1, q0, q1, s0, s1, s2, s3, ..] = *value else {
            return Err(Violation::TornMetadata { tag: Tag::LoadReport });
        };
        Ok(Self {
            cpu: u16::from_le_bytes([c0, c1]),
            queue: u16::from_le_bytes([q0, q1]),
            service_us: u32::from_le_bytes([s0, s1, s2, s3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LoadReport;
    use crate::native::{Tag, Violation};

    #[test]
    fn fields_are_encoded_at_their_offsets() {
        let report = LoadReport { cpu: 0x0201, queue: 0x0403, service_us: 0x0807_0605 };
        assert_eq!(report.encode(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(LoadReport::decode(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), Ok(report));
        let torn = Violation::TornMetadata { tag: Tag::LoadReport };
        assert_eq!(LoadReport::decode(&[1, 2, 3, 4, 5, 6, 7]), Err(torn));
    }
}
