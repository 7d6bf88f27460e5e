//! Every bound of this crate.

/// The largest body that is made for who asks: the largest message that most clients take, 4 MiB.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;

/// What [`Tested`](crate::Tested) keeps of a stream that is answered at its end: the requests of the
/// tests have four.
pub(crate) const KEPT_REQUESTS_MAX: usize = 1_000;
