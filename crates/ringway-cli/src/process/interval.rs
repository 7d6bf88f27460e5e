//! The measured interval of another program's client.

/// The client has come to one of its ends; what a server uses is to be read at both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
}
