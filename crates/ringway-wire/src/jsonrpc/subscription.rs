//! Notifications of subscriptions: a convention that servers of JSON-RPC share, and no part of the
//! specification.

use super::id::Id;
use super::request::{Params, Request};
use super::scanner::Scanner;

/// What a notification of a subscription brings; see [`put_subscription`](super::put_subscription).
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::{Incoming, Subscribed, decode_responses};
///
/// let text = br#"{"jsonrpc":"2.0","method":"ticks","params":{"subscription":"x1","result":[1,2]}}"#;
/// let Some(Ok(Incoming::Request(notification))) = decode_responses(text, 1).expect("JSON").next() else {
///     panic!("a notification");
/// };
/// let tick = Subscribed::of(&notification).expect("of a subscription");
/// assert_eq!((tick.id.text().as_deref(), tick.result), (Some("x1"), "[1,2]"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscribed<'a> {
    /// The id that the subscription was answered with.
    pub id: Id<'a>,
    /// Its next result, as JSON that was checked.
    pub result: &'a str,
}

impl<'a> Subscribed<'a> {
    /// Reads a notification. `None` if it is not of a subscription.
    #[inline]
    #[must_use]
    pub fn of(notification: &Request<'a>) -> Option<Self> {
        let (Params::Named(params), None) = (notification.params, notification.id) else {
            return None;
        };
        let (mut id, mut result) = (None, None);
        let read =
            Scanner::new(params).object(["subscription", "result"], |name, value| match name {
                0 => id = Some(value),
                _ => result = Some(value),
            });
        read.ok()?;
        Some(Self { id: Id::of_value(id?)?, result: result? })
    }
}
