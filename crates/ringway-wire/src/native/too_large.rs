//! Messages that their receiver does not take.

use crate::limits::NATIVE_ASSEMBLY_MAX;

/// Why a message is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TooLarge {
    /// It has so many bytes.
    Message { len: usize, max: u32 },
    /// It has more bytes than `max`, and did not announce how many.
    Unannounced { max: u32 },
    /// There is no memory for it beside the others that are not whole.
    Together,
}

impl TooLarge {
    /// In words, for the end of the call. `receiver` is "client" or "server".
    #[cold]
    pub(super) fn text(self, receiver: &str) -> String {
        let setting =
            |max| format!("is longer than the {receiver} takes: its message_bytes_max is {max}");
        match self {
            Self::Message { len, max } => format!("a message of {len} bytes {}", setting(max)),
            Self::Unannounced { max } => format!("a message {}", setting(max)),
            Self::Together => format!(
                "the {receiver} has no room for another long message: those of the connection that are not \
                 whole have {NATIVE_ASSEMBLY_MAX} bytes"
            ),
        }
    }
}
