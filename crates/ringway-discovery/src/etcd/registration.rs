//! A registration in a user's hands.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::shared::SharedState;
use crate::contract::{Answer, Registration, RegistrationState};
use crate::endpoint::{Endpoint, Error};

/// What the owner of a registration wants, and what its task has reached.
pub(super) struct Wanted {
    pub(super) endpoint: Endpoint,
    /// Whether the endpoint has changed since the task has seen it.
    pub(super) has_changed: bool,
    /// Whether it is to be deregistered.
    pub(super) is_leaving: bool,
    pub(super) state: RegistrationState,
    /// Until when the lease lasts for certain.
    pub(super) valid_until: Option<Instant>,
    /// How the deregistration has ended.
    pub(super) left: Option<Result<(), Error>>,
}

impl Wanted {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            has_changed: false,
            is_leaving: false,
            state: RegistrationState::Registering(None),
            valid_until: None,
            left: None,
        }
    }

    /// The state. A process that was stopped for longer than its TTL does not claim to be registered, even before its
    /// task has run.
    fn state(&self) -> RegistrationState {
        let is_over = self.valid_until.is_some_and(|until| until < Instant::now());
        match &self.state {
            RegistrationState::Registered if is_over => {
                let why =
                    "the lease was not renewed in time: whether it has ended is being checked";
                RegistrationState::Registering(Some(Error::new(why)))
            }
            state => state.clone(),
        }
    }
}

/// Keeps an endpoint registered on etcd.
pub(super) struct EtcdRegistration {
    pub(super) shared: Arc<SharedState<Wanted>>,
    /// The state that the owner was told last.
    pub(super) told: Option<RegistrationState>,
}

impl Registration for EtcdRegistration {
    fn state(&self) -> RegistrationState {
        self.shared.read(Wanted::state)
    }

    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<RegistrationState> {
        let told = &mut self.told;
        self.shared.poll_owner(cx, |wanted| {
            let state = wanted.state();
            if told.as_ref() == Some(&state) {
                return None;
            }
            *told = Some(state.clone());
            Some(state)
        })
    }

    fn update(&mut self, endpoint: Endpoint) {
        self.shared.tell_task(|wanted| {
            let endpoint = endpoint.at(wanted.endpoint.address());
            if wanted.endpoint != endpoint {
                (wanted.endpoint, wanted.has_changed) = (endpoint, true);
            }
        });
    }

    fn deregister(self: Box<Self>) -> Answer<'static, Result<(), Error>> {
        self.shared.tell_task(|wanted| wanted.is_leaving = true);
        Box::pin(async move {
            poll_fn(|cx| self.shared.poll_owner(cx, |wanted| wanted.left.clone())).await
        })
    }
}

impl Drop for EtcdRegistration {
    fn drop(&mut self) {
        self.shared.tell_task(|wanted| wanted.is_leaving = true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lease_that_may_have_ended_is_not_claimed() {
        let mut wanted = Wanted::new(Endpoint::new("tcp://a:1"));
        assert_eq!(wanted.state(), RegistrationState::Registering(None));
        wanted.state = RegistrationState::Registered;
        wanted.valid_until = Some(Instant::now() + Duration::from_secs(60));
        assert_eq!(wanted.state(), RegistrationState::Registered);
        wanted.valid_until = Some(Instant::now() - Duration::from_millis(1));
        assert!(matches!(wanted.state(), RegistrationState::Registering(Some(_))));
    }
}
