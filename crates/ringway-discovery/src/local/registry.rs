//! A process's own registry as any other registry.

use std::time::Duration;

use super::shared::lock;
use super::{Local, LocalWatch};
use crate::contract::{Answer, Discovery, Registration, ServiceSnapshot, ServiceWatch};
use crate::endpoint::{Endpoint, Error};
use crate::store::Revision;

/// Its registrations need no TTL, because they end with the process. Revisions count the changes of each service.
impl Discovery for Local {
    /// Everything is taken.
    fn check(&self, _: &str, _: &Endpoint, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    fn register(
        &self,
        service: &str,
        endpoint: Endpoint,
        _ttl: Duration,
    ) -> Result<Box<dyn Registration>, Error> {
        Ok(Box::new(self.service(service).register(endpoint)))
    }

    fn snapshot(&self, service: &str) -> Answer<'_, Result<ServiceSnapshot, Error>> {
        let (list, _) = lock(&self.service(service).shared.state).list();
        let revision = Revision(list.revision.cast_signed());
        let snapshot = ServiceSnapshot { revision, endpoints: list.endpoints.clone() };
        Box::pin(std::future::ready(Ok(snapshot)))
    }

    fn watch(
        &self,
        service: &str,
        from: Option<ServiceSnapshot>,
    ) -> Result<Box<dyn ServiceWatch>, Error> {
        let shared = self.service(service).shared;
        Ok(match from {
            Some(snapshot) => Box::new(LocalWatch::from(shared, snapshot)),
            None => Box::new(LocalWatch::new(shared)),
        })
    }
}
