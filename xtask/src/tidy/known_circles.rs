//! The circles of imports that are there, by crate. The list may only shrink.

/// Files of one crate that still import each other.
pub(super) struct KnownCircle {
    /// As in `crates/name/src`.
    pub(super) root: &'static str,
    /// Below it, sorted.
    pub(super) files: &'static [&'static str],
    /// Why it may stand, or what is to become of it.
    pub(super) why: &'static str,
}

impl KnownCircle {
    /// Whether `path`, from the project's root, is one of the files.
    pub(super) fn holds(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.root).and_then(|path| path.strip_prefix('/'));
        below.is_some_and(|file| self.files.contains(&file))
    }
}

/// The length is part of the type, so that the list cannot grow unseen. What is in it and in no circle any more
/// is an error.
pub(super) const KNOWN: [KnownCircle; 1] = [KnownCircle {
    root: "peers/src",
    files: &[
        "client/rpc/calls.rs",
        "client/rpc/mod.rs",
        "client/rpc/run.rs",
        "client/rpc/streams.rs",
        "client/rpc/tarpc.rs",
        "client/rpc/tonic.rs",
    ],
    why: "to be cut",
}];
