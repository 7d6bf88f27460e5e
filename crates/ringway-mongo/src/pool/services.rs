//! The services behind a load balancer, each of which fails by itself.

use std::cell::RefCell;
use std::collections::HashMap;

use bson::oid::ObjectId;

use crate::connection::Service;
use crate::error::Error;
use crate::limits::SERVICES_MAX;
use crate::topology::OperationFailure;

/// The generations of those that have failed. Specification: Load Balancer Support, "Error Handling".
#[derive(Default)]
pub(super) struct Services(RefCell<HashMap<ObjectId, u64>>);

impl Services {
    /// A service as it is now.
    pub(super) fn now(&self, id: ObjectId) -> Service {
        Service { id, generation: self.0.borrow().get(&id).copied().unwrap_or(0) }
    }

    /// Begins a new generation. False if that cannot be noted, because too many have failed: then all are forgotten.
    pub(super) fn begin_anew(&self, service: Service) -> bool {
        let mut generations = self.0.borrow_mut();
        if generations.len() >= SERVICES_MAX && !generations.contains_key(&service.id) {
            generations.clear();
            return false;
        }
        generations.insert(service.id, service.generation + 1);
        true
    }
}

/// What an error of making a connection says of the server. One that accepts no login is not asked for the next before it
/// was asked how it is, so that those who are refused do not come as fast as they can.
///
/// Specification: Server Discovery and Monitoring, "MongoDB Handshake errors".
pub(crate) fn failure_of(error: &Error) -> Option<OperationFailure> {
    match error {
        error if is_of_server(error) => Some(OperationFailure::Unusable),
        error if error.is_authentication() => Some(OperationFailure::Authentication),
        error => error.server().map(|_| OperationFailure::Unusable),
    }
}

/// Whether an error of making a connection says something of the server, and not of who logs in.
pub(crate) fn is_of_server(error: &Error) -> bool {
    error.is_network() || error.is_timeout() || error.state_change().is_some()
}
