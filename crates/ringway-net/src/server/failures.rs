//! Counting and logging failed handlers.

use std::any::Any;

use ringway_runtime::panic_message;

use super::context::CoreContext;
use super::log::log;
use crate::error::Error;
use crate::session::ConnectionId;

/// Counts and logs that a connection's handler has failed.
pub(crate) fn report_error(context: &CoreContext, id: ConnectionId, error: &Error) {
    context.count(|share| &share.handler_errors);
    log(|| tracing::debug!(%id, %error, "a connection's handler ended with an error"));
}

/// Counts and logs the panic of a connection's handler.
pub(crate) fn report_panic(context: &CoreContext, id: ConnectionId, panic: Box<dyn Any + Send>) {
    context.count(|share| &share.handler_panics);
    let panic = panic_message(panic);
    log(
        || tracing::error!(%id, panic, "a connection's handler panicked; its connection is closed"),
    );
}

/// Counts and logs that a datagram's handler has failed. The error may be the program's own, so
/// that formatting or dropping it may panic.
pub(crate) fn report_datagram_error(context: &CoreContext, error: Error) {
    context.count(|share| &share.handler_errors);
    log(move || tracing::debug!(%error, "a datagram's handler ended with an error"));
}

pub(crate) fn report_datagram_panic(context: &CoreContext, panic: Box<dyn Any + Send>) {
    context.count(|share| &share.handler_panics);
    let panic = panic_message(panic);
    log(|| tracing::error!(panic, "a datagram's handler panicked; serving continues"));
}
