//! The measured interval of another project's client.

/// An end of the client's interval; the server's resources should be read at both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
}
