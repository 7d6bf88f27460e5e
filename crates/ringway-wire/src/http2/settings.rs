//! The settings of a peer (RFC 9113, section 6.5).

use super::Violation;
use super::frames::MAX_31;

/// Identifiers of settings (section 6.5.2); others are ignored.
pub(super) mod setting {
    pub(in crate::http2) const HEADER_TABLE_SIZE: u16 = 1;
    pub(in crate::http2) const ENABLE_PUSH: u16 = 2;
    pub(in crate::http2) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(in crate::http2) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(in crate::http2) const MAX_FRAME_SIZE: u16 = 5;
    pub(in crate::http2) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// The initial window before any SETTINGS (section 6.9.2).
pub(super) const WINDOW_DEFAULT: u32 = 65_535;

/// The smallest and default value of SETTINGS_MAX_FRAME_SIZE.
pub(super) const FRAME_DEFAULT: u32 = 1 << 14;

/// The largest value of SETTINGS_MAX_FRAME_SIZE.
pub(super) const FRAME_MAX: u32 = (1 << 24) - 1;

/// The peer's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerSettings {
    pub(super) table_size: u32,
    pub(super) max_streams: u32,
    pub(super) initial_window: u32,
    pub(super) max_frame: u32,
    pub(super) max_header_list: u32,
}

/// Sizes of the encoder's table that a SETTINGS frame asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableSizes {
    pub(super) least: u32,
    pub(super) last: u32,
}

impl PeerSettings {
    /// Applies the settings of a frame, in order. Of several table sizes, the smallest matters as
    /// well as the last (RFC 7541, section 4.2).
    ///
    /// # Errors
    ///
    /// Fails when a value is out of range. `from_server` says that the peer is a server, which must
    /// not enable push.
    pub(super) fn take(
        &mut self,
        payload: &[u8],
        from_server: bool,
    ) -> Result<TableSizes, Violation> {
        let mut least = u32::MAX;
        for pair in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([pair[0], pair[1]]);
            let value = u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]);
            match id {
                setting::HEADER_TABLE_SIZE => {
                    self.table_size = value;
                    least = least.min(value);
                }
                setting::ENABLE_PUSH if value > u32::from(!from_server) => {
                    return Err(Violation::WrongPushSetting);
                }
                setting::MAX_CONCURRENT_STREAMS => self.max_streams = value,
                setting::INITIAL_WINDOW_SIZE if value > MAX_31 => {
                    return Err(Violation::WindowSettingTooLarge);
                }
                setting::INITIAL_WINDOW_SIZE => self.initial_window = value,
                setting::MAX_FRAME_SIZE if !(FRAME_DEFAULT..=FRAME_MAX).contains(&value) => {
                    return Err(Violation::WrongFrameSizeSetting);
                }
                setting::MAX_FRAME_SIZE => self.max_frame = value,
                setting::MAX_HEADER_LIST_SIZE => self.max_header_list = value,
                _ => {}
            }
        }
        Ok(TableSizes { least: least.min(self.table_size), last: self.table_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_and_unknown_settings_skipped() {
        use Violation::*;
        let before = PeerSettings {
            table_size: 4096,
            max_streams: 100,
            initial_window: WINDOW_DEFAULT,
            max_frame: FRAME_DEFAULT,
            max_header_list: u32::MAX,
        };
        for (id, value, from_server, expected) in [
            (1, 0, false, Ok(PeerSettings { table_size: 0, ..before })),
            (2, 0, true, Ok(before)),
            (2, 1, false, Ok(before)),
            (2, 1, true, Err(WrongPushSetting)),
            (2, 2, false, Err(WrongPushSetting)),
            (3, 7, true, Ok(PeerSettings { max_streams: 7, ..before })),
            (4, MAX_31, false, Ok(PeerSettings { initial_window: MAX_31, ..before })),
            (4, MAX_31 + 1, false, Err(WindowSettingTooLarge)),
            (5, FRAME_MAX, false, Ok(PeerSettings { max_frame: FRAME_MAX, ..before })),
            (5, FRAME_MAX + 1, false, Err(WrongFrameSizeSetting)),
            (5, FRAME_DEFAULT - 1, false, Err(WrongFrameSizeSetting)),
            (6, 9, false, Ok(PeerSettings { max_header_list: 9, ..before })),
            (7, u32::MAX, false, Ok(before)),
        ] {
            let mut payload = u16::to_be_bytes(id).to_vec();
            payload.extend_from_slice(&u32::to_be_bytes(value));
            let mut settings = before;
            let result = settings.take(&payload, from_server).map(|_| settings);
            assert_eq!(result, expected, "{id} = {value}");
        }
    }
}
