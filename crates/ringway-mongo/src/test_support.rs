//! What tests inside of this crate share with its integration tests.

#[path = "../../ringway-wire/tests/suite/support/alone.rs"]
#[allow(dead_code, reason = "the specifications' files are fetched with it")]
mod alone;
#[path = "../tests/suite/support/fake.rs"]
#[allow(dead_code, reason = "the server does little here")]
pub(crate) mod fake;
#[cfg(feature = "dns")]
#[path = "../tests/suite/support/name_server.rs"]
#[allow(dead_code, reason = "the records here are those of servers")]
pub(crate) mod name_server;
#[path = "../tests/suite/support/specs.rs"]
#[allow(dead_code, reason = "the files are tests of one kind")]
pub(crate) mod specs;
