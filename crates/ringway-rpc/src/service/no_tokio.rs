//! The replacement of `#[method(tokio)]` without the feature `tokio`.

#[doc(hidden)]
#[macro_export]
macro_rules! __in_tokio {
    ($handler:expr) => {
        compile_error!(
            "`#[method(tokio)]` needs the feature `tokio`: `cargo add ringway --features tokio`"
        )
    };
}
