//! Callbacks, which serve a stream without a task.

use std::io;

use crate::buf::View;

/// An event of a stream, passed to its callback.
#[derive(Debug)]
pub enum Incoming {
    /// Received bytes, in order.
    Data(View),
    /// The send queue has fallen below its low-water mark.
    Drained,
    /// The peer sends no more. This is the last call, unless the callback keeps the stream to send
    /// on.
    Eof,
    /// The stream has failed. This is the last call.
    Failed(io::Error),
}

/// The decision of a callback about its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Continue.
    Continue,
    /// Send everything queued, then close.
    Close,
}

/// A callback that is called when an operation completes, without a task. It owns the stream.
pub(crate) type Callback = Box<dyn FnMut(Incoming) -> Next>;
