//! Error codes (section 5.1 of the specification), and the statuses of calls that they stand for.

use std::fmt;

/// The code of an error.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::ErrorNumber;
///
/// assert_eq!(ErrorNumber::METHOD_NOT_FOUND.status(), 12); // UNIMPLEMENTED
/// assert_eq!(ErrorNumber::of_status(5), ErrorNumber(-32005)); // NOT_FOUND
/// assert_eq!(ErrorNumber(-32601).text(), "Method not found");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorNumber(pub i64);

impl ErrorNumber {
    /// The text is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The JSON is not a request.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// There is no such method.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The method does not take these parameters.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The server failed.
    pub const INTERNAL_ERROR: Self = Self(-32603);

    /// The code of a failed call, by its status as gRPC numbers them. OK, and what is no status, is that of
    /// UNKNOWN.
    #[must_use]
    pub fn of_status(status: u8) -> Self {
        match status {
            3 => Self::INVALID_PARAMS,
            12 => Self::METHOD_NOT_FOUND,
            13 => Self::INTERNAL_ERROR,
            1 | 2 | 4..=11 | 14..=16 => Self(SERVER_ERROR - i64::from(status)),
            _ => Self(SERVER_ERROR - i64::from(UNKNOWN)),
        }
    }

    /// The status of a call that failed with this code. One of INTERNAL may say that the request was
    /// malformed, and one of UNKNOWN that the code means something between the ends alone.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Self::INVALID_PARAMS => 3,
            Self::METHOD_NOT_FOUND => 12,
            Self::INTERNAL_ERROR | Self::PARSE_ERROR | Self::INVALID_REQUEST => 13,
            Self(code) => {
                let status = u8::try_from(SERVER_ERROR.saturating_sub(code)).unwrap_or(UNKNOWN);
                if status != 0 && Self::of_status(status) == self { status } else { UNKNOWN }
            }
        }
    }

    /// Whether the specification says what it means.
    #[must_use]
    pub fn is_predefined(self) -> bool {
        matches!(
            self,
            Self::PARSE_ERROR
                | Self::INVALID_REQUEST
                | Self::METHOD_NOT_FOUND
                | Self::INVALID_PARAMS
                | Self::INTERNAL_ERROR
        )
    }

    /// Whether the specification leaves it to servers: -32099 to -32000.
    #[must_use]
    pub fn is_server_error(self) -> bool {
        (-32099..=SERVER_ERROR).contains(&self.0)
    }

    /// What the specification calls it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::PARSE_ERROR => "Parse error",
            Self::INVALID_REQUEST => "Invalid Request",
            Self::METHOD_NOT_FOUND => "Method not found",
            Self::INVALID_PARAMS => "Invalid params",
            Self::INTERNAL_ERROR => "Internal error",
            _ if self.is_server_error() => "Server error",
            _ => "Application error",
        }
    }
}

impl fmt::Display for ErrorNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.0)
    }
}

/// The first of the codes that servers define.
const SERVER_ERROR: i64 = -32000;

/// The status UNKNOWN.
const UNKNOWN: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_the_codes_of_the_table_and_come_back() {
        let codes: Vec<i64> = (1..=16).map(|status| ErrorNumber::of_status(status).0).collect();
        let expected = [
            -32001, -32002, -32602, -32004, -32005, -32006, -32007, -32008, -32009, -32010, -32011,
            -32601, -32603, -32014, -32015, -32016,
        ];
        assert_eq!(codes, expected);
        for status in 1..=16 {
            assert_eq!(ErrorNumber::of_status(status).status(), status);
        }
        for none in [0, 17, 255] {
            assert_eq!(ErrorNumber::of_status(none).0, -32002);
        }
    }

    #[test]
    fn other_codes_are_unknown_and_malformed_requests_internal() {
        for (code, status) in [(-32700, 13), (-32600, 13), (-32603, 13)] {
            assert_eq!(ErrorNumber(code).status(), status);
        }
        for code in [0, 1, -1, -32000, -32003, -32012, -32013, -32017, -32099, i64::MIN, i64::MAX] {
            assert_eq!(ErrorNumber(code).status(), 2, "{code}");
        }
    }

    #[test]
    fn codes_have_names() {
        for (code, text) in [
            (-32700, "Parse error (-32700)"),
            (-32600, "Invalid Request (-32600)"),
            (-32099, "Server error (-32099)"),
            (-32000, "Server error (-32000)"),
            (-32100, "Application error (-32100)"),
            (7, "Application error (7)"),
        ] {
            assert_eq!(ErrorNumber(code).to_string(), text);
        }
    }
}
