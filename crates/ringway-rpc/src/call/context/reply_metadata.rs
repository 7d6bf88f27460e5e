//! The metadata that a handler sends with its reply.

use super::Context;
use crate::call::metadata::InvalidMetadata;

impl Context {
    /// Sets metadata that the caller gets with the status of the call (a trailer). It replaces the values
    /// that the key has.
    ///
    /// # Errors
    /// Fails when the key or the value breaks the rules of [`Metadata`](crate::Metadata).
    pub fn set_trailer(&self, key: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidMetadata> {
        let value = value.as_ref(); // code of a user, perhaps
        self.0.trailers.borrow_mut().insert(key, value)
    }

    /// Adds another value of a key to the trailers.
    ///
    /// # Errors
    /// Fails when the key or the value breaks the rules of [`Metadata`](crate::Metadata).
    pub fn append_trailer(
        &self,
        key: &str,
        value: impl AsRef<[u8]>,
    ) -> Result<(), InvalidMetadata> {
        let value = value.as_ref(); // code of a user, perhaps
        self.0.trailers.borrow_mut().append(key, value)
    }

    /// Sets metadata that the caller gets before the first message. It replaces the values that the key
    /// has. It has no effect after the first message of a stream: use a [trailer](Self::set_trailer)
    /// then.
    ///
    /// # Errors
    /// Fails when the key or the value breaks the rules of [`Metadata`](crate::Metadata).
    pub fn set_initial_metadata(
        &self,
        key: &str,
        value: impl AsRef<[u8]>,
    ) -> Result<(), InvalidMetadata> {
        let value = value.as_ref(); // code of a user, perhaps
        self.0.initial.borrow_mut().insert(key, value)
    }

    /// Adds another value of a key to the [initial metadata](Self::set_initial_metadata).
    ///
    /// # Errors
    /// Fails when the key or the value breaks the rules of [`Metadata`](crate::Metadata).
    pub fn append_initial_metadata(
        &self,
        key: &str,
        value: impl AsRef<[u8]>,
    ) -> Result<(), InvalidMetadata> {
        let value = value.as_ref(); // code of a user, perhaps
        self.0.initial.borrow_mut().append(key, value)
    }
}
