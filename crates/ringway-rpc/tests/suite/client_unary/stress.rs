//! Repeated overload and recovery on the virtual clock of a simulation: servers refuse, hold,
//! lease, leave and vanish at random, and callers cancel at random. Every call ends by its
//! deadline, and once the servers answer again, all calls are answered.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use ringway_rpc::{Client, Code, Policy, Status};
use ringway_runtime::{now, sleep, spawn, timeout};
use ringway_wire::native::{Config, GoAwayCode, MetaWriter, Reply};

use super::{MS, echo, simulate_seed};
use crate::support::hand_server::{HandConnection, HandServer, Request};

const ROUNDS: u32 = 4;

/// The present behaviour of the servers.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Weather {
    Fair,
    Storm,
}

struct Sea {
    servers: Vec<HandServer>,
    weather: Rc<Cell<Weather>>,
    rng: Rc<RefCell<Rng>>,
}

impl Sea {
    fn new(seed: u64) -> Self {
        let weather = Rc::new(Cell::new(Weather::Fair));
        let rng = Rc::new(RefCell::new(Rng::with_seed(seed)));
        let count = rng.borrow_mut().usize(1..=3);
        let serve = |_| {
            let mut config = Config::default();
            config.settings.max_streams = rng.borrow_mut().u32(1..=64);
            let (weather, rng) = (Rc::clone(&weather), Rc::clone(&rng));
            let behave =
                move |connection: &Rc<HandConnection>, request: Request| match weather.get() {
                    Weather::Fair => connection.echo(request),
                    Weather::Storm => misbehave(connection, request, &mut rng.borrow_mut()),
                };
            HandServer::start(config, Rc::new(behave))
        };
        let servers = (0..count).map(serve).collect();
        Self { servers, weather: Rc::clone(&weather), rng: Rc::clone(&rng) }
    }

    fn client(&self) -> Result<Client, Status> {
        let policies =
            [Policy::PeakEwma, Policy::RoundRobin, Policy::Random, Policy::ConsistentHash];
        let policy = policies[self.rng.borrow_mut().usize(..4)];
        let builder = Client::builder().balance(policy).connect_timeout(Duration::from_secs(1));
        let urls = self.servers.iter().map(|server| server.url());
        urls.fold(builder, |builder, url| builder.address(&*url)).build()
    }

    /// Disturbs a random connection: it vanishes, changes its lease, or is about to leave.
    fn blow(&self) {
        let mut rng = self.rng.borrow_mut();
        let server = &self.servers[rng.usize(..self.servers.len())];
        let connections = server.connections.borrow();
        let open: Vec<_> = connections.iter().filter(|it| !it.closed.get()).collect();
        if let Some(connection) = rng.choice(&open) {
            match rng.u8(..8) {
                0 => connection.kill(),
                1 => connection.go_away(GoAwayCode::NoError, rng.u32(..200) * MS),
                _ => connection.lease(rng.u32(..32)),
            }
        }
    }

    /// Makes the servers answer and allow as much as at first.
    fn calm(&self) {
        self.weather.set(Weather::Fair);
        for server in &self.servers {
            for connection in server.connections.borrow().iter().filter(|it| !it.closed.get()) {
                connection.lease(1_000);
            }
        }
    }
}

fn misbehave(connection: &Rc<HandConnection>, request: Request, rng: &mut Rng) {
    let mut meta = Vec::new();
    let (mut code, mut writer) = (Code::Unavailable, MetaWriter::new(&mut meta));
    match rng.u8(..12) {
        0..4 => {
            let (connection, delay) = (Rc::clone(connection), rng.u32(..300) * MS);
            spawn(async move {
                sleep(delay).await;
                connection.echo(request);
            });
            return;
        }
        4..6 => return, // it is held and never answered
        6..8 => drop(writer.refused()),
        8 => drop(writer.pushback_ms(rng.i64(-1..1_000))),
        9 => drop(writer.pushback_ms(i64::MAX)),
        10 => code = Code::ResourceExhausted,
        _ => {}
    }
    connection.respond(request.stream, Reply { status: code.number(), meta: &meta, message: None });
}

/// Makes one call like a caller of a service.
async fn call(client: Client, mut rng: Rng) {
    let time = rng.u32(1..500) * MS;
    let mut call = echo(&client, "?").timeout(time).wait_for_ready(rng.bool());
    if rng.bool() {
        call = call.idempotent();
        if rng.bool() {
            call = call.hedge();
        }
    }
    let (begun, patience) = (now(), rng.u32(1..1_000) * MS);
    let Ok(outcome) = timeout(patience, call).await else {
        assert!(patience <= time + 3 * MS, "it goes on {:?} after its {time:?}", begun.elapsed());
        return; // cancelled by its caller
    };
    let took = now() - begun;
    assert!(took <= time + 3 * MS, "{outcome:?} after {took:?}, and it had {time:?}");
}

async fn storms(seed: u64) -> Result<(), Box<dyn Error>> {
    fastrand::seed(seed); // for the client's random choices
    let sea = Sea::new(seed);
    let client = sea.client()?;
    for _ in 0..ROUNDS {
        sea.weather.set(Weather::Storm);
        let mut calls = Vec::new();
        for _ in 0..100 {
            let crowd = sea.rng.borrow_mut().usize(..12);
            for _ in 0..crowd {
                let rng = sea.rng.borrow_mut().fork();
                calls.push(spawn(call(client.clone(), rng)));
            }
            sea.blow();
            let pause = sea.rng.borrow_mut().u32(..20) * MS;
            sleep(pause).await;
        }
        for call in calls {
            call.await.map_err(|panic| format!("a caller: {panic}"))?;
        }
        sea.calm();
        recovers(&sea, &client).await?;
    }
    Ok(())
}

/// Waits until a hundred calls in a row succeed.
async fn recovers(sea: &Sea, client: &Client) -> Result<(), Box<dyn Error>> {
    let begun = now();
    let mut in_a_row = 0;
    while in_a_row < 100 {
        // Ejected hosts, dead connections and smaller leases take some time to recover.
        let call = echo(client, "?").timeout(500 * MS).wait_for_ready(true);
        let outcome = timeout(Duration::from_secs(60), call).await?;
        in_a_row = if outcome.is_ok() { in_a_row + 1 } else { 0 };
        if now() - begun > Duration::from_secs(60) {
            return Err(format!("{} servers, and still {outcome:?}", sea.servers.len()).into());
        }
        sea.calm(); // also for new connections
    }
    Ok(())
}

#[test]
fn every_call_ends_by_its_deadline_and_the_client_recovers() {
    for seed in 0..40 {
        simulate_seed(seed, storms(seed));
    }
}
