//! The two roles of a connection's ends.

/// The server's role: accepts connections and answers requests.
#[derive(Debug)]
pub enum Serving {}

/// The client's role: makes connections and sends requests.
#[derive(Debug)]
pub enum Calling {}

/// The role of a machine: [`Serving`] or [`Calling`].
pub trait Role: sealed::Sealed {
    /// Whether the role is the server's.
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
