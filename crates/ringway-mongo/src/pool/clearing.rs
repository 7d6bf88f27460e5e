//! A service behind a load balancer that has failed.

use super::Pool;
use super::keeper::Draining;
use super::services::is_of_server;
use crate::connection::{ServerConnection, Service};
use crate::error::Error;
use crate::pool_events::{CloseReason, PoolChange};

impl Pool {
    /// Closes what is idle or draining and leads to a service that has failed, and what is leased when it comes back.
    /// The failure of a connection that was made before the last one says nothing new.
    pub(crate) fn clear_service(&self, service: Service) {
        if self.services.now(service.id) != service {
            return;
        }
        if !self.services.begin_anew(service) {
            return self.clear(self.generation() + 1);
        }
        self.telling.tell(PoolChange::Cleared { service: Some(service.id) });
        let leads_there =
            |it: &ServerConnection| it.service().is_some_and(|it| it.id == service.id);
        let idle = self.idle.borrow_mut().extract_if(.., |it| leads_there(it)).collect::<Vec<_>>();
        let waiting = |it: &mut Draining| leads_there(it.connection());
        self.idle_changed();
        let draining: Vec<_> = self.draining.borrow_mut().extract_if(.., waiting).collect();
        self.in_use.set(self.in_use.get() - draining.len() as u32);
        let gone = idle.into_iter().chain(draining.into_iter().map(Draining::into_connection));
        gone.for_each(|connection| self.end(connection, CloseReason::Stale));
    }

    /// Whether nothing has failed since a connection was made that would have ended it.
    pub(super) fn is_current(&self, connection: &ServerConnection, generation: u64) -> bool {
        generation == self.generation()
            && connection.service().is_none_or(|service| self.services.now(service.id) == service)
    }

    /// Takes that a connection could not be made whose server had answered `hello`.
    pub(super) fn greeted_in_vain(&self, service: Option<Service>, error: &Error) {
        if let Some(service) = service
            && is_of_server(error)
        {
            self.clear_service(service);
        }
    }
}
