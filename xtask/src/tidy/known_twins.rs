//! The types that share their name with another of their crate. The list may only shrink.

/// Types of one name in one crate.
pub(super) struct KnownTwins {
    /// As in `crates/name/src`.
    pub(super) root: &'static str,
    pub(super) name: &'static str,
    /// How many there are.
    pub(super) count: usize,
    /// Why they may stand, or what is to become of them.
    pub(super) why: &'static str,
}

const fn twins(
    root: &'static str,
    name: &'static str,
    count: usize,
    why: &'static str,
) -> KnownTwins {
    KnownTwins { root, name, count, why }
}

pub(super) const KNOWN: [KnownTwins; 5] = [
    twins(
        "crates/ringway-runtime/src",
        "Receiver",
        2,
        "named with its module: channel::Receiver, oneshot::Receiver",
    ),
    twins(
        "crates/ringway-runtime/src",
        "Sender",
        2,
        "named with its module: channel::Sender, oneshot::Sender",
    ),
    twins("crates/ringway-runtime/src", "TryRecvError", 2, "named with its module, as Sender is"),
    twins(
        "crates/ringway-wire/src",
        "Line",
        2,
        "the codec of text lines, and a line of a header block: http2::Line",
    ),
    twins(
        "crates/ringway-wire/src",
        "Violation",
        2,
        "named with its protocol: http2::Violation, native::Violation",
    ),
];
