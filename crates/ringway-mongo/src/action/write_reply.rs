//! What writes are answered with.

use bson::RawDocument;
use ringway_wire::mongo::ServerFailure;

use crate::error::{Error, Result};

/// The first error of the writes of a reply whose `ok` is 1.
pub(crate) fn check(body: &RawDocument) -> Result {
    let Some(failure) = ServerFailure::of_write(body).map_err(Error::reply)? else { return Ok(()) };
    // Without an error of a write, it is that of the concern.
    let is_done = ServerFailure::of_writes(body).is_ok_and(|errors| errors.is_empty());
    Err(if is_done { Error::unconfirmed_write(failure) } else { Error::write(failure) })
}

/// A count of a reply, however its server writes numbers; 0 if it is missing.
pub(super) fn count(body: &RawDocument, name: &str) -> u64 {
    let Ok(Some(value)) = body.get(name) else { return 0 };
    let float = || value.as_f64().map(|number| number as i64);
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from)).or_else(float);
    number.map_or(0, |number| u64::try_from(number).unwrap_or(0))
}
