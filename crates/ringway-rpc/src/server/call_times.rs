//! What is counted of a call.

use std::time::Duration;

use crate::call::context::Context;
use crate::call::status::Code;

/// What is known of a call when it begins, for the counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTimes {
    /// When it left the queue.
    pub(super) began: Duration,
    /// In the queue.
    pub(super) waited: Duration,
}

/// How a call ended, as it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answered {
    pub(super) code: Code,
    pub(super) bytes: usize,
}

impl Answered {
    /// An end without a message.
    pub(super) const fn none(code: Code) -> Self {
        Self { code, bytes: 0 }
    }
}

/// How a call counts that is over while its handler is not: as what has ended it, of what says nothing
/// of the handler. Clients may give any code.
pub(super) fn given_up(context: &Context) -> Answered {
    let reason = context.cancel_reason().map(|reason| reason.code());
    Answered::none(match reason {
        Some(code @ (Code::DeadlineExceeded | Code::ResourceExhausted | Code::Unavailable)) => code,
        _ => Code::Cancelled,
    })
}
