//! Repeated overload and recovery over real sockets: the server has adaptive limits; some handlers
//! wait for a shared resource, some compute, some are limited. Every call ends, on cores and on
//! threads, and afterwards the server answers as before.

use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use ringway_net::Address;
use ringway_rpc::{Client, Server, Status, service};
use ringway_runtime::sync::Semaphore;
use ringway_runtime::{block_on, sleep, spawn, timeout};

use crate::support::{LIMIT, end};

const ROUNDS: u32 = 5;

#[service(package = "storm.v1", crate = "ringway_rpc")]
trait Storm {
    /// Holds one of a few shared permits for `ms` milliseconds.
    async fn share(&self, ms: u64) -> Result<u64, Status>;
    /// Computes for `micros` microseconds.
    async fn compute(&self, micros: u64) -> Result<u64, Status>;
    #[method(concurrency = 4)]
    async fn limited(&self, ms: u64) -> Result<u64, Status>;
    #[method(offload, concurrency = 2)]
    async fn block(&self, ms: u64) -> Result<u64, Status>;
}

struct Harbour(Rc<Semaphore>);

impl Storm for Harbour {
    async fn share(&self, ms: u64) -> Result<u64, Status> {
        let _one = self.0.acquire(1).await;
        sleep(Duration::from_millis(ms)).await;
        Ok(ms)
    }

    async fn compute(&self, micros: u64) -> Result<u64, Status> {
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_micros(micros) {
            std::hint::spin_loop();
        }
        Ok(micros)
    }

    async fn limited(&self, ms: u64) -> Result<u64, Status> {
        sleep(Duration::from_millis(ms)).await;
        Ok(ms)
    }

    async fn block(&self, ms: u64) -> Result<u64, Status> {
        thread::park_timeout(Duration::from_millis(ms)); // blocks, as foreign code does
        Ok(ms)
    }
}

/// Makes a random call.
async fn call(client: StormClient, mut rng: Rng) -> Result<u64, Status> {
    let amount = rng.u64(..8);
    let call = match rng.u8(..4) {
        0 => client.share(amount),
        1 => client.compute(amount * 100),
        2 => client.limited(amount),
        _ => client.block(amount),
    };
    let call = call.timeout(Duration::from_millis(rng.u64(5..200)));
    call.priority(rng.u8(..3)).await
}

/// Runs many callers at once; each makes a few calls, and some cancel.
async fn overload(client: &StormClient, rng: &mut Rng) {
    let callers = (0..rng.usize(100..400)).map(|_| {
        let (client, mut rng) = (client.clone(), rng.fork());
        spawn(async move {
            for _ in 0..5 {
                let one = call(client.clone(), rng.fork());
                match rng.bool() {
                    true => drop(one.await),
                    false => drop(timeout(Duration::from_millis(rng.u64(..100)), one).await),
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no panic");
    }
}

/// Checks that every method answers a single caller.
async fn calm(client: &StormClient) -> Result<(), Status> {
    for amount in 0..5 {
        let time = LIMIT / 2;
        client.share(amount).timeout(time).await?;
        client.compute(amount).timeout(time).await?;
        client.limited(amount).timeout(time).await?;
        client.block(amount).timeout(time).await?;
    }
    Ok(())
}

async fn rounds(client: StormClient, seed: u64) -> Result<(), Status> {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..ROUNDS {
        overload(&client, &mut rng).await;
        calm(&client).await?;
    }
    Ok(())
}

/// Overloads one server from a core, and from a thread through the background core.
fn storm(address: &Address, seed: u64) {
    let (ended, has_ended) = mpsc::channel();
    for from_a_core in [true, false] {
        let (ended, address) = (ended.clone(), address.clone());
        thread::spawn(move || {
            let client = StormClient::new(Client::connect(address).expect("a good address"));
            let outcome = match from_a_core {
                true => block_on(rounds(client, seed)).expect("a core"),
                false => threads(client, seed),
            };
            ended.send((from_a_core, outcome))
        });
    }
    for _ in 0..2 {
        let patience = LIMIT * ROUNDS * 2;
        let told = has_ended.recv_timeout(patience);
        let (from_a_core, outcome) = told.unwrap_or_else(|_| panic!("seed {seed}: a call hangs"));
        outcome.unwrap_or_else(|status| panic!("seed {seed}, core {from_a_core}: {status:?}"));
    }
}

fn threads(client: StormClient, seed: u64) -> Result<(), Status> {
    for round in 0..ROUNDS {
        let callers = (0..8).map(|caller| {
            let (client, mut rng) = (client.clone(), Rng::with_seed(seed << 8 | caller));
            thread::spawn(move || {
                for _ in 0..20 {
                    let time = Duration::from_millis(rng.u64(5..100));
                    drop(client.limited(rng.u64(..8)).timeout(time).wait());
                    drop(client.share(rng.u64(..8)).timeout(time).wait());
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.join().expect("no panic");
        }
        client.share(round.into()).timeout(LIMIT / 2).wait()?;
    }
    Ok(())
}

#[test]
fn every_call_ends_and_the_server_recovers() {
    for (seed, is_adaptive) in [(1, true), (2, false), (3, true)] {
        let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
        let make = || Harbour(Rc::new(Semaphore::new(4)));
        let server = server.service(StormServer::per_core(make));
        let server = if is_adaptive { server.adaptive_concurrency() } else { server };
        let server = server.start().expect("the server starts");
        storm(&server.addresses()[0], seed);
        assert_eq!(server.stats().violations, 0, "no client is cut off");
        end(server);
    }
}
