//! Servers that register while they serve.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ringway_rpc::Server;
use ringway_runtime::{block_on, contain, timeout};

use crate::contract::{Discovery, Registration, RegistrationState};
use crate::endpoint::{Endpoint, Error};
use crate::limits;

/// Registers a server in a registry when it is ready, and takes it out before it stops, so that a roll-out fails no
/// call: when the server is asked to stop, its endpoint is deregistered; it goes on serving for the drain delay, in
/// which clients hear of that; then it drains. Each change of its registration is logged, for example that the registry
/// cannot be reached; it is tried again until it succeeds.
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
    /// listens on all addresses of the machine, and none was [given](Self::address). Fails also if the registry would
    /// never take the endpoint or the TTL.
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
        // Nobody could be told once the server runs.
        registry.check(&service, &endpoint, ttl)?;
        let slot = Arc::new(Slot {
            service: service.clone(),
            registration: Mutex::default(),
            is_woken: AtomicBool::new(false),
        });
        let filled = Arc::clone(&slot);
        let (named, address) = (service.clone(), endpoint.address().to_owned());
        let shown = Arc::downgrade(&slot);
        let server = server.console_table("Announced", ANNOUNCED, move || {
            let state = shown.upgrade().map_or_else(String::new, |slot| slot.state());
            vec![[named.clone(), address.clone(), format!("{:.1} s", ttl.as_secs_f64()), state]]
        });
        let announce = move |_: &[_]| match registry.register(&service, endpoint, ttl) {
            Ok(registration) => filled.fill(registration),
            Err(error) => tracing::error!(service, %error, "the server cannot be registered"),
        };
        let server = server.on_ready(announce).drain_delay(self.drain_delay);
        Ok(server.net(|net| net.on_shutdown(move || slot.withdraw())))
    }
}

/// The columns of the console's table.
const ANNOUNCED: [&str; 4] = ["service", "address", "TTL", "state"];

/// Holds the registration of a server that runs, and logs each change of its state. Its waker asks for the state right
/// where it is woken, so that no thread has to wait for it.
struct Slot {
    service: String,
    registration: Mutex<Option<Box<dyn Registration>>>,
    /// Whether the state has to be asked for, perhaps once more.
    is_woken: AtomicBool,
}

impl Slot {
    fn fill(self: &Arc<Self>, registration: Box<dyn Registration>) {
        let former = self.lock().replace(registration);
        debug_assert!(former.is_none(), "a server is ready once");
        self.look();
    }

    /// Logs what has become of the registration.
    fn look(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        let waker = Waker::from(Arc::new(Look(Arc::downgrade(self))));
        while self.is_woken.load(Ordering::Acquire) {
            // Whoever holds the lock looks again when it is free.
            let Ok(mut slot) = self.registration.try_lock() else {
                return;
            };
            self.is_woken.store(false, Ordering::Release);
            let Some(registration) = slot.as_mut() else {
                return;
            };
            let polled = registration.poll_state(&mut Context::from_waker(&waker));
            drop(slot);
            if let Poll::Ready(state) = polled {
                self.is_woken.store(true, Ordering::Release);
                contain("a log subscriber", || log(&self.service, &state));
            }
        }
    }

    /// What has become of the registration, for people.
    fn state(self: &Arc<Self>) -> String {
        let state = match self.lock().as_ref() {
            Some(registration) => registration.state().to_string(),
            None => "not registered: the server starts or stops".to_owned(),
        };
        // Whoever was woken meanwhile could not have the lock.
        if self.is_woken.load(Ordering::Acquire) {
            self.look();
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Registration>>> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deregisters, and waits until clients may know.
    fn withdraw(&self) {
        let taken = self.lock().take();
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

/// Looks at a slot when it is woken. The registration has it, and the slot the registration, so it must not keep the
/// slot alive.
struct Look(Weak<Slot>);

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        if let Some(slot) = self.0.upgrade() {
            slot.look();
        }
    }
}

fn log(service: &str, state: &RegistrationState) {
    match state {
        RegistrationState::Registered => tracing::info!(service, "the server is registered"),
        RegistrationState::Registering(None) => {}
        _ => tracing::warn!(service, %state, "the server is not registered"),
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
    use crate::contract::Answer;

    use super::*;

    /// A registration whose states a test decides.
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<FakeState>>);

    #[derive(Default)]
    struct FakeState {
        next: Vec<RegistrationState>,
        told: usize,
        waker: Option<Waker>,
    }

    impl Registration for Fake {
        fn state(&self) -> RegistrationState {
            RegistrationState::Registered
        }

        fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<RegistrationState> {
            let mut state = self.0.lock().expect("no panic");
            let Some(next) = state.next.pop() else {
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            state.told += 1;
            Poll::Ready(next)
        }

        fn update(&mut self, _: Endpoint) {}

        fn deregister(self: Box<Self>) -> Answer<'static, Result<(), Error>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[test]
    fn each_state_is_asked_for_and_the_waker_keeps_nothing_alive() {
        let fake = Fake::default();
        fake.0.lock().expect("no panic").next = vec![RegistrationState::Registering(None); 2];
        let slot = Slot {
            service: "market".to_owned(),
            registration: Mutex::default(),
            is_woken: AtomicBool::new(false),
        };
        let slot = Arc::new(slot);
        slot.fill(Box::new(fake.clone()));
        let wake = |next: RegistrationState| {
            let mut state = fake.0.lock().expect("no panic");
            state.next.push(next);
            let waker = state.waker.take().expect("it waits");
            drop(state);
            waker.wake();
            fake.0.lock().expect("no panic").told
        };
        assert_eq!(wake(RegistrationState::Registered), 3);
        assert_eq!(wake(RegistrationState::Replaced), 4);
        assert_eq!(Arc::strong_count(&slot), 1);
        drop(slot);
        assert_eq!(Arc::strong_count(&fake.0), 1, "the registration is dropped");
        assert_eq!(wake(RegistrationState::Registered), 4, "nobody asks any more");
    }

    /// A registration whose state changes while somebody looks at it.
    struct Changing(Fake);

    impl Registration for Changing {
        fn state(&self) -> RegistrationState {
            let mut state = self.0.0.lock().expect("no panic");
            state.next.push(RegistrationState::Replaced);
            let waker = state.waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
            RegistrationState::Registered
        }

        fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<RegistrationState> {
            self.0.poll_state(cx)
        }

        fn update(&mut self, _: Endpoint) {}

        fn deregister(self: Box<Self>) -> Answer<'static, Result<(), Error>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[test]
    fn a_state_that_comes_while_the_console_looks_is_not_missed() {
        let fake = Fake::default();
        let slot = Slot {
            service: "market".to_owned(),
            registration: Mutex::default(),
            is_woken: AtomicBool::new(false),
        };
        let slot = Arc::new(slot);
        slot.fill(Box::new(Changing(fake.clone())));
        assert_eq!(slot.state(), "registered");
        let fake = fake.0.lock().expect("no panic");
        assert_eq!(fake.told, 1);
        assert!(fake.waker.is_some(), "it is asked for further ones");
    }

    #[test]
    fn what_the_registry_would_never_take_is_refused_before_the_server_runs() {
        let config = crate::EtcdConfig::new(["127.0.0.1:1"]).expect("an address");
        let registry = crate::EtcdRegistry::new(config);
        type Change = fn(Announcement) -> Announcement;
        let announce = |make: Change| {
            let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
            make(Announcement::new(registry.clone(), "market")).on(server).map(drop)
        };
        let refused: [(Change, &str); 2] = [
            (|it| it.ttl(Duration::from_secs(1)), "the TTL is 1s"),
            (|it| it.with("key", &"x".repeat(100_000)), "too long"),
        ];
        for (make, said) in refused {
            let error = announce(make).expect_err("it would never be registered").to_string();
            assert!(error.contains(said), "{error}");
        }
        announce(|it| it).expect("whether the registry is there is seen later");
    }

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
