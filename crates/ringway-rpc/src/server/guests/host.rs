//! What a connection tells whoever answers its requests that are no calls.

use ringway_wire::grpc::GuestEvent;
use ringway_wire::http2::StreamHandle;

/// Whoever answers the requests of a connection that are no calls. A connection knows no more of them: what answers
/// them makes calls of connections itself.
pub(crate) trait GuestHost {
    /// Handles what the machine tells of a request.
    fn on_event(&self, stream: StreamHandle, event: GuestEvent<'_>);

    /// Begins the request that waits longest to be begun. Whether others wait.
    fn begin_next(&self) -> bool;

    /// Frees what is kept for the next requests.
    fn drop_spare(&self);

    /// Ends all requests: the connection has ended.
    fn end_all(&self);
}
