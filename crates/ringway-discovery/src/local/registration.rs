//! Registrations of a process's own registry.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::shared::{SharedService, lock};
use crate::contract::{Answer, Registration, RegistrationState};
use crate::endpoint::{Endpoint, Error};

/// Keeps an endpoint registered. Dropping it deregisters the endpoint.
#[must_use = "the endpoint is deregistered when this is dropped"]
pub struct LocalRegistration {
    shared: Arc<SharedService>,
    endpoint: Arc<Endpoint>,
    /// The revision of the registration or of its last update.
    revision: u64,
    /// Its number among those that wait for changes, once it has waited.
    waiter: Option<u64>,
    /// The state that its owner was told last.
    told: Option<RegistrationState>,
}

impl LocalRegistration {
    pub(super) fn new(shared: Arc<SharedService>, endpoint: Arc<Endpoint>) -> Self {
        let revision = shared.change(|state| state.put(Arc::clone(&endpoint)));
        Self { shared, endpoint, revision, waiter: None, told: None }
    }

    /// Replaces what is known of the endpoint. Its address stays what it was.
    ///
    /// Nothing happens if another registration has replaced this one.
    pub fn update(&mut self, change: impl FnOnce(Endpoint) -> Endpoint) {
        let changed = change(Endpoint::clone(&self.endpoint)).at(self.endpoint.address());
        let (endpoint, former) = (Arc::new(changed), self.revision);
        let mut is_ours = false;
        let revision = self.shared.change(|state| {
            is_ours = state.has(endpoint.address(), former);
            if is_ours {
                state.put(Arc::clone(&endpoint));
            }
        });
        if is_ours {
            (self.endpoint, self.revision) = (endpoint, revision);
        }
    }
}

impl Registration for LocalRegistration {
    fn state(&self) -> RegistrationState {
        match lock(&self.shared.state).has(self.endpoint.address(), self.revision) {
            true => RegistrationState::Registered,
            false => RegistrationState::Replaced,
        }
    }

    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<RegistrationState> {
        let waker = cx.waker().clone();
        let mut state = lock(&self.shared.state);
        let now = match state.has(self.endpoint.address(), self.revision) {
            true => RegistrationState::Registered,
            false => RegistrationState::Replaced,
        };
        if self.told.as_ref() != Some(&now) {
            drop(state);
            self.told = Some(now.clone());
            return Poll::Ready(now);
        }
        let id = *self.waiter.get_or_insert_with(|| state.next_waiter());
        let former = state.waiting.insert(id, waker);
        drop(state);
        drop(former);
        Poll::Pending
    }

    fn update(&mut self, endpoint: Endpoint) {
        self.update(|_| endpoint);
    }

    fn deregister(self: Box<Self>) -> Answer<'static, Result<(), Error>> {
        drop(self);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Drop for LocalRegistration {
    fn drop(&mut self) {
        self.shared.change(|state| state.remove(self.endpoint.address(), self.revision));
        if let Some(id) = self.waiter {
            let waker = lock(&self.shared.state).waiting.remove(&id);
            drop(waker);
        }
    }
}
