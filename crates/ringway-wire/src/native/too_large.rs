//! Messages that are too large for their receiver.

use crate::limits::NATIVE_ASSEMBLY_MAX;

/// The reason why a message is too large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TooLarge {
    /// The message has `len` bytes, more than `max`.
    Message { len: usize, max: u32 },
    /// The message has more than `max` bytes, and did not announce its length.
    Unannounced { max: u32 },
    /// Together with the other incomplete messages it would need too much memory.
    Together,
}

impl TooLarge {
    /// The text with which the call ends. `receiver` is "client" or "server".
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
