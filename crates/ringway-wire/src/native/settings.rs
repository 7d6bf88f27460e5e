//! Settings, which announce what a side accepts (section 9).

use crate::limits::{
    NATIVE_CREDIT_MAX, NATIVE_INITIAL_CREDIT_MIN, NATIVE_METHODS_DEFAULT, NATIVE_PAYLOAD_DEFAULT,
    NATIVE_PAYLOAD_MAX, NATIVE_SETTINGS_LEN_MAX, NATIVE_STREAMS_DEFAULT,
};

use super::{StreamId, Violation};

/// The body of a SETTINGS frame: the limits and abilities of its sender.
///
/// The default applies before the first SETTINGS arrives. Each frame states all settings: those it
/// leaves out have their defaults.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::Settings;
///
/// let settings = Settings { max_payload: 262_144, ..Settings::default() };
/// let mut body = Vec::new();
/// settings.encode(&mut body);
/// assert_eq!(body, [1, 0, 0, 0, 4, 0]);
/// assert_eq!(Settings::decode(&body)?, settings);
/// # Ok::<(), ringway_wire::native::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// 1: largest payload of one frame, in bytes; 65,536 to 262,144.
    pub max_payload: u32,
    /// 2: number of streams open at a time, which also bounds slot numbers; at most 524,288.
    pub max_streams: u32,
    /// 3: bytes that a stream opened by the peer may send before a CREDIT arrives; 65,536 to 2^31 −
    /// 1.
    pub initial_credit: u32,
    /// 4: largest message in bytes, compressed or not; at most 2^31 − 1.
    pub max_message: u32,
    /// 5: largest metadata of one frame in bytes; at most 65,535.
    pub max_meta: u32,
    /// 6: asks the peer to send frames with a checksum.
    pub checksum: bool,
    /// 7: asks the peer to send load reports with replies.
    pub load_report: bool,
    /// 8: supported compressions, as bit n for compression n.
    pub compressions: u32,
    /// 9: this side accepts calls although it opened the connection.
    pub callbacks: bool,
    /// 10: how many method names this side keeps numbers for.
    pub max_methods: u32,
}

impl Settings {
    /// Reads the body of a SETTINGS frame. Unknown settings are skipped; if a setting is repeated,
    /// the last value counts.
    ///
    /// # Errors
    ///
    /// Returns [`TornSettings`](Violation::TornSettings) when the body is too long or does not
    /// consist of pairs, and [`BadSetting`](Violation::BadSetting) when a value is out of range.
    pub fn decode(body: &[u8]) -> Result<Self, Violation> {
        let (pairs, rest) = body.as_chunks::<PAIR_LEN>();
        if !rest.is_empty() || body.len() > NATIVE_SETTINGS_LEN_MAX {
            return Err(Violation::TornSettings { len: body.len() });
        }
        let mut settings = Self::default();
        for &[id_low, id_high, v0, v1, v2, v3] in pairs {
            let id = u16::from_le_bytes([id_low, id_high]);
            settings.set(id, u32::from_le_bytes([v0, v1, v2, v3]))?;
        }
        Ok(settings)
    }

    /// Appends the body of a SETTINGS frame to `out`, with the settings that differ from the
    /// default.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let defaults = Self::default().pairs();
        for ((id, value), (_, default)) in self.pairs().into_iter().zip(defaults) {
            if value != default {
                out.extend_from_slice(&id.to_le_bytes());
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    /// Whether every value is in range, so that a peer will accept them.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.pairs().into_iter().all(|(id, value)| Self::default().set(id, value).is_ok())
    }

    fn pairs(&self) -> [(u16, u32); 10] {
        [
            (1, self.max_payload),
            (2, self.max_streams),
            (3, self.initial_credit),
            (4, self.max_message),
            (5, self.max_meta),
            (6, u32::from(self.checksum)),
            (7, u32::from(self.load_report)),
            (8, self.compressions),
            (9, u32::from(self.callbacks)),
            (10, self.max_methods),
        ]
    }

    fn set(&mut self, id: u16, value: u32) -> Result<(), Violation> {
        let within = |min, max| {
            let fits = (min..=max).contains(&value);
            if fits { Ok(value) } else { Err(Violation::BadSetting { id, value }) }
        };
        match id {
            1 => self.max_payload = within(NATIVE_PAYLOAD_DEFAULT, NATIVE_PAYLOAD_MAX)?,
            2 => self.max_streams = within(0, StreamId::SLOTS)?,
            3 => self.initial_credit = within(NATIVE_INITIAL_CREDIT_MIN, NATIVE_CREDIT_MAX)?,
            4 => self.max_message = within(0, i32::MAX as u32)?,
            5 => self.max_meta = within(0, u32::from(u16::MAX))?,
            6 => self.checksum = within(0, 1)? == 1,
            7 => self.load_report = within(0, 1)? == 1,
            8 => self.compressions = value,
            9 => self.callbacks = within(0, 1)? == 1,
            10 => self.max_methods = value,
            _ => {}
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_payload: NATIVE_PAYLOAD_DEFAULT,
            max_streams: NATIVE_STREAMS_DEFAULT,
            initial_credit: NATIVE_INITIAL_CREDIT_MIN,
            max_message: 4 << 20,
            max_meta: 16 << 10,
            checksum: false,
            load_report: false,
            compressions: 0,
            callbacks: false,
            max_methods: NATIVE_METHODS_DEFAULT,
        }
    }
}

/// Length of one setting: two bytes of id and four of value.
const PAIR_LEN: usize = 6;

#[cfg(test)]
mod tests {
    use super::Settings;
    use crate::native::Violation;

    #[test]
    fn the_default_is_an_empty_body() {
        let mut body = Vec::new();
        Settings::default().encode(&mut body);
        assert_eq!(body, [0u8; 0]);
        assert_eq!(Settings::decode(&[]), Ok(Settings::default()));
        assert!(Settings::default().is_valid());
    }

    #[test]
    fn every_setting_round_trips() {
        let settings = Settings {
            max_payload: 100_000,
            max_streams: 524_288,
            initial_credit: 0x7fff_ffff,
            max_message: 0,
            max_meta: 65_535,
            checksum: true,
            load_report: true,
            compressions: 0x8000_0001,
            callbacks: true,
            max_methods: u32::MAX,
        };
        let mut body = vec![];
        settings.encode(&mut body);
        assert_eq!(body.len(), 60);
        assert_eq!(Settings::decode(&body), Ok(settings));
        assert!(settings.is_valid());
    }

    #[test]
    fn values_out_of_range_are_rejected() {
        let cases = [
            (1, [65_535, 262_145].as_slice()),
            (2, &[524_289]),
            (3, &[65_535, 0x8000_0000]),
            (4, &[0x8000_0000]),
            (5, &[65_536]),
            (6, &[2]),
            (7, &[2]),
            (9, &[u32::MAX]),
        ];
        for (id, values) in cases {
            for &value in values {
                let error = Err(Violation::BadSetting { id, value });
                assert_eq!(Settings::decode(&pair(id, value)), error);
            }
        }
        let invalid = Settings { max_payload: 1, ..Settings::default() };
        assert!(!invalid.is_valid());
    }

    #[test]
    fn unknown_settings_are_skipped_and_the_last_of_two_counts() {
        let body = [pair(0, 7), pair(11, 7), pair(2, 5), pair(0xffff, 7), pair(2, 6)].concat();
        let expected = Settings { max_streams: 6, ..Settings::default() };
        assert_eq!(Settings::decode(&body), Ok(expected));
    }

    #[test]
    fn torn_and_overlong_bodies_are_rejected() {
        for len in [1, 5, 7, 390] {
            let error = Err(Violation::TornSettings { len });
            assert_eq!(Settings::decode(&vec![0; len]), error);
        }
        assert_eq!(Settings::decode(&[0; 384]), Ok(Settings::default()));
    }

    fn pair(id: u16, value: u32) -> Vec<u8> {
        [&id.to_le_bytes()[..], &value.to_le_bytes()].concat()
    }
}
