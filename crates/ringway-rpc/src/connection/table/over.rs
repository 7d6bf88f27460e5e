//! How a stream has ended.

use crate::call::status::Status;

/// The message for handles that are used after their handler's return.
pub(crate) const SERVED: &str = "the call is over: its handler has returned";

/// How a stream has ended. It becomes a status only when a handle asks, which is rare.
pub(super) enum Over {
    /// The peer has answered.
    Answered,
    /// This side has answered.
    Served,
    Failed(Status),
}

impl Over {
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Answered => Status::cancelled("the call is over: the peer has answered"),
            Self::Served => Status::cancelled(SERVED),
            Self::Failed(status) => status.clone(),
        }
    }
}
