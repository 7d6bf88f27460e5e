//! The reason why a connection ended, which every waiting request gets.

use std::rc::Rc;

use crate::error::{Error, Kind};

#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: Kind,
    text: Rc<str>,
}

impl Failure {
    pub(super) fn closed_by_peer() -> Self {
        let text = "peer closed the connection: connect again to send further requests";
        Self { kind: Kind::Closed, text: text.into() }
    }

    pub(super) fn driver_ended() -> Self {
        let text = "the task that reads the replies has ended: see the log for its panic";
        Self { kind: Kind::Other, text: text.into() }
    }

    pub(super) fn of(error: &Error) -> Self {
        let text = format!("the connection has failed: {error}");
        Self { kind: error.kind(), text: text.into() }
    }

    pub(super) fn to_error(&self) -> Error {
        Error::new(self.kind, &*self.text)
    }
}
