//! What keeps one bad host, or one bad minute, from becoming everybody's: back-off, budgets,
//! ejection, hedging and adaptive limits. No I/O and no clock: times are since any origin.

mod adaptive;
mod backoff;
mod budget;
mod ejection;
mod hedge;
mod pace;

pub(crate) use adaptive::{AdaptiveLimit, Answer, Ended};
pub(crate) use backoff::RetryBackoff;
pub(crate) use budget::RetryBudget;
pub(crate) use ejection::{Evidence, Health, may_eject};
pub(crate) use hedge::HedgeDelay;
pub(crate) use pace::Pace;
