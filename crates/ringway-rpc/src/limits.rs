//! Every bound of this crate, with its reason.

// Calls.

/// Metadata of a call, keys and values together: what the native protocol and most gRPC servers
/// accept by default.
pub(crate) const METADATA_BYTES_MAX: usize = 16 * 1024;
