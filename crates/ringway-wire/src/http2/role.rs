//! The two ends of a connection.

/// Accepts connections and answers requests.
#[derive(Debug)]
pub enum Serving {}

/// Makes connections and sends requests.
#[derive(Debug)]
pub enum Calling {}

/// Which end of a connection a machine is: [`Serving`] or [`Calling`].
pub trait Role: sealed::Sealed {
    /// Whether it accepts connections.
    const IS_SERVER: bool;
}

impl Role for Serving {
    const IS_SERVER: bool = true;
}

impl Role for Calling {
    const IS_SERVER: bool = false;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Serving {}
    impl Sealed for super::Calling {}
}
