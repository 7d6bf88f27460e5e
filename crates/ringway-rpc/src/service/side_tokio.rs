//! Handlers that use tokio's libraries.

use ringway_tokio::RunError;

use crate::call::status::{Code, Status};

/// Polls and drops a handler of `#[method(tokio)]` within the context of the side runtime.
///
/// # Errors
/// Fails with the handler's error, and with UNAVAILABLE when no tokio runtime can be started.
pub async fn enter<T>(handler: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match ringway_tokio::enter(handler).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let why = format!("no tokio runtime can be started: {error}");
            Err(Status::unavailable(why).with_source(error))
        }
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! __in_tokio {
    ($handler:expr) => {
        $crate::side_tokio::enter($handler)
    };
}

impl From<RunError> for Status {
    /// Maps a panic to INTERNAL, too many tasks to RESOURCE_EXHAUSTED, and a missing runtime to
    /// UNAVAILABLE.
    fn from(error: RunError) -> Self {
        let code = match () {
            () if error.is_panic() => Code::Internal,
            () if error.is_limit() => Code::ResourceExhausted,
            () => Code::Unavailable,
        };
        Self::new(code, error.to_string()).with_source(error)
    }
}
