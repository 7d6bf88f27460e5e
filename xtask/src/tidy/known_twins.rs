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

/// Each says what the one thing is at that its file is about, and nobody else names it.
const STATES: &str = "the states of the one type of its file, private to it";
/// Two readers need one name for two things, or two things for one name.
const TO_BE_CUT: &str = "to be cut";

pub(super) const KNOWN: [KnownTwins; 40] = [
    twins(
        "crates/ringway-net/src",
        "Inner",
        2,
        "what the handle of its file points to, private to it",
    ),
    twins(
        "crates/ringway-net/src",
        "Shared",
        2,
        "what the handle of its file points to, private to it",
    ),
    twins("crates/ringway-net/src", "State", 3, STATES),
    twins("crates/ringway-rpc/src", "Answer", 2, TO_BE_CUT),
    twins("crates/ringway-rpc/src", "Call", 2, TO_BE_CUT),
    twins("crates/ringway-rpc/src", "End", 3, TO_BE_CUT),
    twins("crates/ringway-rpc/src", "Entry", 3, TO_BE_CUT),
    twins("crates/ringway-rpc/src", "Health", 2, TO_BE_CUT),
    twins("crates/ringway-rpc/src", "Opening", 2, TO_BE_CUT),
    twins("crates/ringway-rpc/src", "Place", 2, TO_BE_CUT),
    twins("crates/ringway-rpc/src", "Received", 2, TO_BE_CUT),
    twins("crates/ringway-rpc/src", "State", 7, STATES),
    twins("crates/ringway-rpc/src", "Waiting", 3, TO_BE_CUT),
    twins("crates/ringway-runtime/src", "Cause", 2, TO_BE_CUT),
    twins("crates/ringway-runtime/src", "Completion", 2, TO_BE_CUT),
    twins(
        "crates/ringway-runtime/src",
        "DatagramSocket",
        2,
        "the one of the simulated network, and the one that users have",
    ),
    twins("crates/ringway-runtime/src", "Group", 2, TO_BE_CUT),
    twins(
        "crates/ringway-runtime/src",
        "Handle",
        3,
        "one of each driver, of which one is used at a time",
    ),
    twins("crates/ringway-runtime/src", "Inbox", 2, TO_BE_CUT),
    twins("crates/ringway-runtime/src", "Kind", 2, STATES),
    twins(
        "crates/ringway-runtime/src",
        "Listener",
        2,
        "the one of the simulated network, and the one that users have",
    ),
    twins("crates/ringway-runtime/src", "Outcome", 2, TO_BE_CUT),
    twins("crates/ringway-runtime/src", "Receiver", 2, "named with its module, as Sender is"),
    twins("crates/ringway-runtime/src", "Recv", 2, TO_BE_CUT),
    twins(
        "crates/ringway-runtime/src",
        "Sender",
        2,
        "named with its module: channel::Sender, oneshot::Sender",
    ),
    twins("crates/ringway-runtime/src", "Sending", 2, TO_BE_CUT),
    twins("crates/ringway-runtime/src", "Slot", 7, TO_BE_CUT),
    twins(
        "crates/ringway-runtime/src",
        "Socket",
        2,
        "the one of the simulated network, and the one that users have",
    ),
    twins("crates/ringway-runtime/src", "State", 7, STATES),
    twins(
        "crates/ringway-runtime/src",
        "Stream",
        2,
        "the one of the simulated network, and the one that users have",
    ),
    twins("crates/ringway-runtime/src", "Timer", 2, TO_BE_CUT),
    twins("crates/ringway-runtime/src", "TryRecvError", 2, "named with its module, as Sender is"),
    twins("crates/ringway-wire/src", "Before", 2, TO_BE_CUT),
    twins("crates/ringway-wire/src", "Line", 2, TO_BE_CUT),
    twins(
        "crates/ringway-wire/src",
        "Violation",
        2,
        "named with its protocol: http2::Violation, native::Violation",
    ),
    twins("peers/src", "Client", 2, TO_BE_CUT),
    twins("peers/src", "Connection", 3, TO_BE_CUT),
    twins("peers/src", "Echo", 2, TO_BE_CUT),
    twins("peers/src", "Flood", 2, TO_BE_CUT),
    twins("peers/src", "Server", 3, TO_BE_CUT),
];
