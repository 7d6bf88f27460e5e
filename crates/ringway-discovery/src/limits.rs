//! Bounds of discovery, each with its reason.

/// Changes that a store remembers before it compacts by itself. A watch that is cut for a while finds what it has
/// missed: at a hundred changes a second this is a quarter of an hour.
pub(crate) const HISTORY_CHANGES_MAX: usize = 100_000;

/// Bytes of keys and values that a store remembers for changes before it compacts by itself. It holds when values are
/// large.
pub(crate) const HISTORY_BYTES_MAX: usize = 64 << 20;

/// Changes that a watch gets at once, so that one that is far behind does not hold the store for long. All changes of
/// one revision come together, however many they are.
pub(crate) const WATCH_CHANGES_MAX: usize = 1_000;

/// Changes that a watch looks at in one turn, for the same reason: most may be of other keys.
pub(crate) const WATCH_SCANNED_MAX: usize = 10_000;
