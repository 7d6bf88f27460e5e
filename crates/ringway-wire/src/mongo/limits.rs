//! The limits of MongoDB's protocol, each with its reason.

/// Longest message in bytes: 48,000,000, which every server announces as `maxMessageSizeBytes`.
pub const MONGO_MESSAGE_MAX: usize = 48_000_000;

/// Most levels of a document that is decoded into owned values: 200, as many as servers accept.
pub const MONGO_NESTING_MAX: usize = 200;

/// Most commands of one connection that wait for their replies, whatever the caller asks for: a line
/// of 100 ms is full with 10,000 a second and 1,000 under way.
pub(crate) const MONGO_IN_FLIGHT_MAX: usize = 1 << 10;

/// Longest description of a client in its `hello`, in bytes; the specification sets it.
pub(crate) const MONGO_METADATA_MAX: usize = 512;

/// Bytes that are kept of the name of the driver, and of its version, where the description would be too long: together
/// with the longest name of a program they fit.
pub(crate) const MONGO_NAME_KEPT: usize = 64;

/// Fewest iterations of SCRAM that are accepted: RFC 7677 asks for 4,096, and so does MongoDB's
/// specification. Fewer would let a false server guess passwords cheaply.
pub(crate) const SCRAM_ITERATIONS_MIN: u32 = 4096;

/// Most iterations of SCRAM that are accepted: servers use 10,000 and 15,000. A million is about half
/// a second of work; more would let a false server keep our processors busy.
pub(crate) const SCRAM_ITERATIONS_MAX: u32 = 1_000_000;

/// Longest message of a server in a SCRAM exchange, in bytes: nonces and salts are below one hundred.
pub(crate) const SCRAM_MESSAGE_MAX: usize = 4 << 10;

/// Longest salt in bytes; servers use 16 and 28.
pub(crate) const SCRAM_SALT_MAX: usize = 1 << 10;

/// Largest window of zstd, as a power of two: 64 MiB, into which the longest message fits whole. The library
/// would reserve twice as much if a server claims so.
pub(crate) const MONGO_ZSTD_WINDOW_LOG_MAX: u32 = 26;
