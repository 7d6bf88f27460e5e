//! The ways in which a peer can break the protocol, with their error codes and sections.

use std::fmt;

use super::ErrorCode;

macro_rules! violations {
    ($($name:ident: $code:ident, $text:literal;)*) => {
        /// A violation of the protocol by a peer (RFC 9113 and, for header fields, RFC 7541).
        ///
        /// Returned as an error by a machine, it ends the connection with a GOAWAY with its
        /// [`code`](Self::code). Some violations only reset one stream with that code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Violation {
            $(#[doc = $text] $name,)*
        }

        impl Violation {
            /// The error code of the GOAWAY or RST_STREAM.
            #[must_use]
            pub fn code(self) -> ErrorCode {
                match self {
                    $(Self::$name => ErrorCode::$code,)*
                }
            }

            fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

violations! {
    NotHttp2: PROTOCOL_ERROR, "the client did not send the preface of HTTP/2 (3.4)";
    NoSettings: PROTOCOL_ERROR, "the first frame is not SETTINGS (3.4)";

    FrameTooLong: FRAME_SIZE_ERROR, "a frame is longer than the announced maximum (4.2)";
    WrongLength: FRAME_SIZE_ERROR, "a frame has a length that its type does not allow (4.2, 6)";
    PaddingTooLong: PROTOCOL_ERROR, "padding is longer than its frame (6.1, 6.2)";
    NeedsStream: PROTOCOL_ERROR, "a frame that needs a stream names none (6)";
    NeedsConnection: PROTOCOL_ERROR, "a frame of the connection names a stream (6)";
    NotContinued: PROTOCOL_ERROR, "a field block is interrupted by another frame (6.10)";
    NothingToContinue: PROTOCOL_ERROR, "CONTINUATION follows no open field block (6.10)";
    Pushed: PROTOCOL_ERROR, "PUSH_PROMISE came although push is switched off (8.4)";
    SelfDependency: PROTOCOL_ERROR, "a stream depends on itself (RFC 7540, 5.3.1)";

    WrongPushSetting: PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH has a value that is not allowed (6.5.2)";
    WindowSettingTooLarge: FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31-1 (6.5.2)";
    WrongFrameSizeSetting: PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE is out of its range (6.5.2)";
    SettingsTimeout: SETTINGS_TIMEOUT, "SETTINGS were not acknowledged in time (6.5.3)";

    IdleStream: PROTOCOL_ERROR, "a frame names a stream that was never opened (5.1)";
    WrongParity: PROTOCOL_ERROR, "a stream id has the wrong parity (5.1.1)";
    StreamIdWentBack: PROTOCOL_ERROR, "a new stream id is not above the ones before (5.1.1)";
    StreamClosed: STREAM_CLOSED, "a frame names a stream that the peer has closed (5.1)";

    ZeroIncrement: PROTOCOL_ERROR, "WINDOW_UPDATE adds nothing (6.9)";
    WindowOverflow: FLOW_CONTROL_ERROR, "a flow-control window exceeds 2^31-1 (6.9.1)";
    WindowExceeded: FLOW_CONTROL_ERROR, "DATA exceeds its flow-control window (6.9.1)";

    HuffmanPadding: COMPRESSION_ERROR, "a Huffman string ends in wrong padding (RFC 7541, 5.2)";
    HuffmanEos: COMPRESSION_ERROR, "a Huffman string contains EOS (RFC 7541, 5.2)";
    IntegerTooLarge: COMPRESSION_ERROR, "an integer in a field block is too large (RFC 7541, 5.1)";
    BlockTruncated: COMPRESSION_ERROR, "a field block ends inside a field (RFC 7541, 5)";
    NoSuchIndex: COMPRESSION_ERROR, "a field refers to an entry that does not exist (RFC 7541, 2.3.3)";
    SizeUpdateTooLarge: COMPRESSION_ERROR, "the table's size exceeds the setting (RFC 7541, 6.3)";
    SizeUpdateMisplaced: COMPRESSION_ERROR, "a size update follows a field (RFC 7541, 4.2)";
    SizeUpdateMissing: COMPRESSION_ERROR, "the table was not made smaller as required (RFC 7541, 4.2)";

    BadFieldName: PROTOCOL_ERROR, "a field name contains a forbidden character (8.2.1)";
    BadFieldValue: PROTOCOL_ERROR, "a field value contains a forbidden character (8.2.1)";
    ConnectionField: PROTOCOL_ERROR, "a field is allowed on HTTP/1.1 connections only (8.2.2)";
    BadPseudoField: PROTOCOL_ERROR, "a pseudo-field is unknown, misplaced, repeated or missing (8.3)";
    InformationalEnd: PROTOCOL_ERROR, "an informational response ends its stream (8.1)";
    MisplacedFields: PROTOCOL_ERROR, "a second field section does not end its stream (8.1)";
    BadContentLength: PROTOCOL_ERROR, "content-length does not match the data (8.1.1)";

    BlockTooLong: ENHANCE_YOUR_CALM, "a field block is longer than the limit (10.5.1)";
    TooManyResets: ENHANCE_YOUR_CALM, "too many streams were opened and reset (10.5)";
    TooManyPings: ENHANCE_YOUR_CALM, "the peer sent too many PINGs (10.5)";
    TooManySettings: ENHANCE_YOUR_CALM, "the peer sent too many SETTINGS (10.5)";
    TooManyIdleFrames: ENHANCE_YOUR_CALM, "the peer sent too many frames without content (10.5)";
    AnswersUnread: ENHANCE_YOUR_CALM, "the peer does not read the answers to its PINGs and other frames (10.5)";
    HandshakeTimeout: PROTOCOL_ERROR, "the peer's preface and SETTINGS did not arrive in time";
    BlockTimeout: ENHANCE_YOUR_CALM, "a field block did not arrive completely in time";
    Silent: NO_ERROR, "the peer did not answer a PING in time";
}

impl Violation {
    /// The reason text of the GOAWAY. gRPC clients know one, at which they send fewer PINGs (gRFC
    /// A8).
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::TooManyPings => "too_many_pings",
            other => other.text(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Violation {}
