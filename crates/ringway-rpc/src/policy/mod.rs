//! What is decided about calls, as pure logic: which host, when again, how many at once. No I/O and no
//! clock: times are since any origin.

mod backoff;
pub(crate) mod balance;
mod concurrency;
mod hedge;
mod outlier;
mod queue_time;
mod retry_budget;

pub(crate) use backoff::RetryBackoff;
pub(crate) use concurrency::{AdaptiveLimit, Answer, Ended};
pub(crate) use hedge::HedgeDelay;
pub(crate) use outlier::{Evidence, HostHealth, may_eject};
pub(crate) use queue_time::Pace;
pub(crate) use retry_budget::RetryBudget;
