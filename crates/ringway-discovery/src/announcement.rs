//! Servers that register while they serve.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringway_rpc::Server;
use ringway_runtime::{block_on, timeout};

use crate::contract::{Discovery, Registration};
use crate::endpoint::{Endpoint, Error};
use crate::limits;

/// Registers a server in a registry when it is ready, and takes it out before it stops, so that a roll-out fails no
/// call: when the server is asked to stop, its endpoint is deregistered; it goes on serving for the drain delay, in
/// which clients hear of that; then it drains.
///
/// ```
/// use ringway_discovery::{Announcement, Local};
/// use ringway_rpc::Server;
///
/// let registry = Local::new();
/// let server = Server::bind("tcp://127.0.0.1:0")?;
/// let server = Announcement::new(registry.clone(), "market").zone("eu-1").on(server)?.start()?;
/// let market = registry.service("market");
/// assert_eq!(market.endpoints()[0].address(), server.addresses()[0].to_string());
/// # server.abort();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a server is announced once this is put `on` it"]
pub struct Announcement {
    registry: Arc<dyn Discovery>,
    service: String,
    /// What is registered; its address is empty if it is that of the server.
    endpoint: Endpoint,
    ttl: Duration,
    drain_delay: Duration,
}

impl Announcement {
    /// Announces a server of this service.
    pub fn new(registry: impl Discovery + 'static, service: &str) -> Self {
        Self {
            registry: Arc::new(registry),
            service: service.to_owned(),
            endpoint: Endpoint::new(""),
            ttl: limits::ANNOUNCED_TTL,
            drain_delay: limits::DRAIN_DELAY,
        }
    }

    /// Sets the address by which clients reach the server, such as `grpc://10.0.0.1:9000`. Without it, that is the
    /// first address that the server listens on.
    pub fn address(mut self, address: &str) -> Self {
        self.endpoint = self.endpoint.at(address);
        self
    }

    /// Sets the weight, 1 to 100.
    pub fn weight(mut self, weight: u32) -> Self {
        self.endpoint = self.endpoint.weight(weight);
        self
    }

    /// Sets the zone. Clients in the same zone prefer the server.
    pub fn zone(mut self, zone: &str) -> Self {
        self.endpoint = self.endpoint.zone(zone);
        self
    }

    /// Sets the version of the service.
    pub fn version(mut self, version: &str) -> Self {
        self.endpoint = self.endpoint.version(version);
        self
    }

    /// Adds an entry of metadata.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.endpoint = self.endpoint.with(key, value);
        self
    }

    /// Sets how long the endpoint stays registered when the server dies without a word. The default is 10 seconds.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets how long the server goes on serving after it has been deregistered. The default is 5 seconds, which is
    /// enough for clients that watch the registry.
    pub fn drain_delay(mut self, delay: Duration) -> Self {
        self.drain_delay = delay;
        self
    }

    /// Puts the announcement on a server, and sets the server's [drain delay](Server::drain_delay).
    ///
    /// # Errors
    /// Fails if the service has no valid name, or if there is no address by which other machines reach the server: it
    /// listens on all addresses of the machine, and none was [given](Self::address).
    pub fn on(self, server: Server) -> Result<Server, Error> {
        let endpoint = match self.endpoint.address() {
            "" => {
                let own = server.addresses().first().map(ToString::to_string);
                self.endpoint.at(&own.unwrap_or_default())
            }
            _ => self.endpoint,
        };
        check_address(endpoint.address())?;
        let (registry, service, ttl) = (self.registry, self.service, self.ttl);
        // Names are checked now, because nobody could be told once the server runs.
        drop(registry.watch(&service, None)?);
        let slot = Arc::new(Slot::default());
        let filled = Arc::clone(&slot);
        let announce = move |_: &[_]| match registry.register(&service, endpoint, ttl) {
            Ok(registration) => filled.fill(registration),
            Err(error) => tracing::error!(service, %error, "the server cannot be registered"),
        };
        let server = server.on_ready(announce).drain_delay(self.drain_delay);
        Ok(server.net(|net| net.on_shutdown(move || slot.withdraw())))
    }
}

/// Holds the registration of a server that runs.
#[derive(Default)]
struct Slot(Mutex<Option<Box<dyn Registration>>>);

impl Slot {
    fn fill(&self, registration: Box<dyn Registration>) {
        let former = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(registration);
        debug_assert!(former.is_none(), "a server is ready once");
    }

    /// Deregisters, and waits until clients may know.
    fn withdraw(&self) {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(registration) = taken else {
            return;
        };
        let deregistered =
            block_on(
                async move { timeout(limits::WITHDRAW_TIMEOUT, registration.deregister()).await },
            );
        let why = match deregistered {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_late)) => "the registry does not answer".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(why, "the server cannot be deregistered and is listed until its TTL ends");
    }
}

fn check_address(address: &str) -> Result<(), Error> {
    let host = Endpoint::new(address).to_host();
    if let Err(status) = host {
        return Err(Error::new(format!("the server cannot be announced: {}", status.message())));
    }
    let (_, place) = address.split_once("://").unwrap_or_default();
    if place.starts_with("0.0.0.0:") || place.starts_with("[::]:") {
        let why = format!(
            "the server listens at {address}, which clients cannot call: give the address by which they reach it to \
             `Announcement::address`"
        );
        return Err(Error::new(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_nobody_can_call_are_refused() {
        for (address, said) in [
            ("tcp://0.0.0.0:9000", "`Announcement::address`"),
            ("tls://[::]:9000", "`Announcement::address`"),
            ("ftp://10.0.0.1:9000", "`ftp://10.0.0.1:9000` is not an address"),
            ("", "is not an address"),
        ] {
            let error = check_address(address).expect_err(address);
            assert!(error.to_string().contains(said), "{error}");
        }
        for address in ["tcp://10.0.0.1:9000", "grpcs://market.example:443", "unix:///run/market"] {
            check_address(address).expect("it can be called");
        }
    }
}
