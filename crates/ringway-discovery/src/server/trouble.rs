//! What a registry does when its log cannot be written.
//!
//! A log writes zeros ahead of itself. Where there is no room for these any more, what adds keys or leases is refused, before
//! anything of it is done; what frees room goes on and takes from the zeros that there are. So the outcome of a change is unknown only
//! if it does not fit there either.

use ringway_rpc::Status;

use super::failure;

/// Why a log does not take all changes.
pub(super) enum Trouble {
    /// There is no room ahead of the log.
    Short(Status),
    /// What is under way has no room.
    Full(Status),
    /// Nobody knows what the disk has.
    Failed(Status),
}

/// What a change does to the room that a registry takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// It adds keys or leases.
    Adds,
    /// It removes some.
    Frees,
}

impl Trouble {
    /// What whoever operates the registry is told.
    pub(super) fn status(&self) -> &Status {
        let (Self::Short(status) | Self::Full(status) | Self::Failed(status)) = self;
        status
    }

    /// Why a change is not begun.
    pub(super) fn refusal(&self, effect: Effect) -> Option<Status> {
        match (self, effect) {
            (Self::Failed(status), _) => Some(status.clone()),
            (Self::Short(_), Effect::Frees) => None,
            (Self::Short(_) | Self::Full(_), _) => Some(failure::no_space()),
        }
    }

    /// What is told of changes that are under way.
    pub(super) fn of_what_is_under_way(&self) -> Option<Status> {
        match self {
            Self::Short(_) => None,
            Self::Full(_) => Some(failure::unknown_outcome()),
            Self::Failed(status) => Some(status.clone()),
        }
    }

    /// Whether it may end by itself.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}
