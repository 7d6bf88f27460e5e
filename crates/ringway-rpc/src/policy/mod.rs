//! Policies of calls as pure logic: choosing hosts, retries, hedges, concurrency. They do no I/O
//! and read no clock; all times count from one arbitrary origin.

mod backoff;
pub(crate) mod balance;
mod concurrency;
mod hedge;
mod inflow;
mod lease;
mod outlier;
mod queue_time;
mod retry_budget;

pub(crate) use backoff::RetryBackoff;
pub(crate) use concurrency::{AdaptiveLimit, Answer, Ended};
pub(crate) use hedge::HedgeDelay;
pub(crate) use inflow::Inflow;
pub(crate) use lease::share_of_each;
pub(crate) use outlier::{Evidence, HostHealth, may_eject};
pub(crate) use queue_time::Pace;
pub(crate) use retry_budget::RetryBudget;
