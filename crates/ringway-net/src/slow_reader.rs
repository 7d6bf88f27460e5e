//! The policy for peers that do not read.

/// What a server does when a connection's send queue reaches its high-water mark.
///
/// Under every policy, a connection above the mark is not read from (unless
/// [`Peer::set_paced`](crate::Peer::set_paced) turns that off), awaited sends wait, and a
/// connection whose queue reaches its bound (`send_queue_max`) is closed. So memory is bounded in
/// every case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlowReader {
    /// Keep queueing up to the bound; senders that wait for room wait until the low-water mark.
    #[default]
    Pause,
    /// Drop messages of groups and of [`Sessions`](crate::Sessions), whole, until the queue is at
    /// the low-water mark. Messages of the connection's own handler are never dropped.
    Drop,
    /// Close the connection.
    Close,
}
