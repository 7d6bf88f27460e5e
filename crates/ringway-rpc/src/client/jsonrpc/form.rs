//! What the first message of a call is on a JSON-RPC connection.

/// The form of a call's message. Calls carry it as the number of their codec, which no other protocol sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(in crate::client) enum TextForm {
    /// A request up to its id.
    Call = 120,
    /// The same, for a stream of replies.
    Subscription = 121,
    /// A whole text that is not answered.
    Notification = 122,
    /// The number of a batch, then its text.
    Batch = 123,
}

impl TextForm {
    /// The number that stands in place of a codec's.
    pub(in crate::client) const fn codec(self) -> u8 {
        self as u8
    }

    pub(super) const fn of(codec: u8) -> Option<Self> {
        Some(match codec {
            120 => Self::Call,
            121 => Self::Subscription,
            122 => Self::Notification,
            123 => Self::Batch,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::TextForm;

    #[test]
    fn forms_have_numbers_that_no_codec_has() {
        for form in
            [TextForm::Call, TextForm::Subscription, TextForm::Notification, TextForm::Batch]
        {
            assert_eq!(TextForm::of(form.codec()), Some(form));
        }
        for codec in (0..=3).chain(crate::call::codec::BY_AGREEMENT..=255) {
            assert_eq!(TextForm::of(codec), None);
        }
    }
}
