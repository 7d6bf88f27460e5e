//! What `#[method(tokio)]` says without the feature.

#[doc(hidden)]
#[macro_export]
macro_rules! __in_tokio {
    ($handler:expr) => {
        compile_error!(
            "a method of `tokio` needs the feature of that name: `cargo add ringway --features tokio`"
        )
    };
}
