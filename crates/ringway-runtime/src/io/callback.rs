//! What serves a stream without a task.

use std::io;

use crate::buf::View;

/// An event of a stream, passed to its callback.
#[derive(Debug)]
pub enum Incoming {
    /// Bytes, in order.
    Data(View),
    /// The send queue has fallen below its low-water mark.
    Drained,
    /// The peer sends no more. The last call, unless the callback keeps the stream to send on.
    Eof,
    /// The stream has failed. The last call.
    Failed(io::Error),
}

/// The stream's next step, returned by its callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Go on.
    Continue,
    /// Send what is queued, then close.
    Close,
}

/// A consumer that is called from the completion, without a task. It owns the stream.
pub(crate) type Callback = Box<dyn FnMut(Incoming) -> Next>;
