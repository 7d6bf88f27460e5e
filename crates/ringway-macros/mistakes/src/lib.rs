//! Services with a mistake, and what the compiler says of them.
//!
//! They are a crate of their own since trybuild compiles once more all that the package of a test
//! depends upon, and here that is little.
