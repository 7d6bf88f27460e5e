//! What is made of files that are full of traps, without a warning. The tests use it.

#![deny(warnings)]
#![allow(missing_docs)] // messages are documented by their file, where that says anything

/// Packages that use each other.
pub mod nested {
    include!(concat!(env!("OUT_DIR"), "/nested.rs"));
}

/// Comments that could be code, links and tags. The documentation is built with `-D warnings`, and code in it
/// would be a test that fails.
pub mod comments {
    include!(concat!(env!("OUT_DIR"), "/traps.comments.v1.rs"));
}

/// What one should not use any more, from a directory of its own.
pub mod old {
    include!(concat!(env!("OUT_DIR"), "/aside/traps.old.v1.rs"));
}
