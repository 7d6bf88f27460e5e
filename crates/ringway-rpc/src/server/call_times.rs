//! Times and outcomes of calls, as they are counted.

use std::time::Duration;

use crate::call::context::Context;
use crate::call::status::Code;

/// The times of a call that are known when it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTimes {
    /// The time at which the call left the queue.
    pub(super) began: Duration,
    /// The time that the call spent in the queue.
    pub(super) waited: Duration,
}

/// The outcome of a call, as it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answered {
    pub(super) code: Code,
    pub(super) bytes: usize,
}

impl Answered {
    /// The outcome of a call without a reply message.
    pub(super) const fn none(code: Code) -> Self {
        Self { code, bytes: 0 }
    }
}

/// The outcome of a call that was over before its handler. Cancellation codes other than the server's own
/// count as CANCELLED, because clients may send any code.
pub(super) fn given_up(context: &Context) -> Answered {
    let reason = context.cancel_reason().map(|reason| reason.code());
    Answered::none(match reason {
        Some(code @ (Code::DeadlineExceeded | Code::ResourceExhausted | Code::Unavailable)) => code,
        _ => Code::Cancelled,
    })
}
