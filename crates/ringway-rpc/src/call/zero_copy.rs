//! Large messages that stay in their receive buffer.

use ringway_net::View;
use ringway_wire::native::Piece;

use crate::limits;

/// Wraps a received message. A large one is shared with its buffer, so that keeping it does not
/// copy.
#[inline]
pub(crate) fn in_place<'i>(message: &'i [u8], view: Option<&View>) -> Piece<'i> {
    if message.len() < limits::ZERO_COPY_BYTES_MIN {
        return Piece::Borrowed(message);
    }
    shared(message, view).unwrap_or(Piece::Borrowed(message))
}

/// Makes a large message that is borrowed from `view` share its buffer, so that it can outlive
/// `view`.
#[inline]
pub(crate) fn keep(message: &mut Piece<'_>, view: Option<&View>) {
    if let Piece::Borrowed(bytes) = *message
        && bytes.len() >= limits::ZERO_COPY_BYTES_MIN
        && let Some(shared) = shared(bytes, view)
    {
        *message = shared;
    }
}

#[inline(never)]
fn shared(message: &[u8], view: Option<&View>) -> Option<Piece<'static>> {
    let view = view?;
    let start = message.as_ptr().addr().checked_sub(view.as_ptr().addr())?;
    let end = start + message.len();
    if end > view.len() {
        return None;
    }
    view.share(start..end).map(Piece::Owned)
}
