//! Every bound of this crate.

/// The largest body returned on request: 4 MiB, the largest message that most clients accept.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;

/// The most that [`Tested`](crate::Tested) keeps of a stream until its end; the tests send
/// four requests.
pub(crate) const KEPT_REQUESTS_MAX: usize = 1_000;
