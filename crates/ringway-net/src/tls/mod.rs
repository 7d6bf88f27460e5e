//! TLS over a stream, by rustls.
