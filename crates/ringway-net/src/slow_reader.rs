//! The policy for peers that do not read.

/// Says what a server does when a connection's send queue is at its high-water mark.
///
/// Whatever the policy, a connection above the mark is not read from (unless it was told so:
/// [`Peer::set_paced`](crate::Peer::set_paced)), awaited sends wait, and one whose queue reaches its
/// bound (`send_queue_max`) is closed: memory is bounded in every case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlowReader {
    /// Queue on up to the bound; senders that wait for room are not woken before there is some.
    #[default]
    Pause,
    /// Messages of groups and of [`Sessions`](crate::Sessions) are dropped, whole, until the queue
    /// is at the low-water mark. What the connection's own handler sends is never dropped.
    Drop,
    /// Close the connection.
    Close,
}
