//! Frames over a connection.
