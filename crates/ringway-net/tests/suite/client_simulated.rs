//! Back-off of clients, on a simulated network and clock.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ringway_net::{Backoff, Client, Result};
use ringway_runtime::io::{ListenOptions, Listener};
use ringway_runtime::sim::{Faults, SimConfig};
use ringway_runtime::{Builder, now, sleep, spawn, timeout};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pauses_grow_between_attempts() {
    for seed in 0..20 {
        simulate(SimConfig::new(seed), async {
            let client = Client::new(server_address())?.attempts_max(5);
            let client = client.backoff(Backoff::new(SECOND, 3 * SECOND));
            let began = now();
            let error = client.open().await.expect_err("nobody listens");
            assert!(error.to_string().contains("(5 attempts)"), "{error}");
            // The pauses are 1 + 2 + 3 + 3 seconds, each shortened by up to a half.
            let took = now() - began;
            assert!(took > 9 * SECOND / 2 && took < 91 * SECOND / 10, "{took:?}");
            Ok(())
        });
    }
}

#[test]
fn each_attempt_on_a_silent_address_takes_the_connect_timeout() {
    let faults = Faults { connects_lost: ALWAYS, ..Faults::none() };
    simulate(SimConfig { faults, ..SimConfig::new(3) }, async {
        let _listener = listener()?;
        let client = Client::new(server_address())?.connect_timeout(5 * SECOND).attempts_max(3);
        let client = client.backoff(Backoff::new(Duration::ZERO, Duration::ZERO));
        let began = now();
        assert!(client.open().await.expect_err("lost").is_timeout());
        let took = now() - began;
        assert!(took >= 15 * SECOND && took < 16 * SECOND, "{took:?}");
        Ok(())
    });
}

#[test]
fn server_that_starts_late_is_reached() {
    simulate(SimConfig::new(4), async {
        let server = spawn(async {
            sleep(10 * SECOND).await;
            listener()?.accept().await.map(|accepted| (accepted, now()))
        });
        let client = Client::new(server_address())?.backoff(Backoff::new(SECOND, SECOND));
        let mut connections = client.reconnecting();
        let began = now();
        connections.next().await?;
        assert!(connections.failures() >= 10, "{}", connections.failures());
        let (_accepted, at) = server.await??;
        assert!(at - began >= 10 * SECOND && at - began < 12 * SECOND);
        Ok(())
    });
}

#[test]
fn server_that_closes_at_once_is_not_flooded() {
    simulate(SimConfig::new(5), async {
        let accepting = spawn(async {
            let listener = listener()?;
            let mut accepted = 0_u32;
            while listener.accept().await.map(drop).is_ok() {
                accepted += 1;
                if accepted == 8 {
                    break;
                }
            }
            Ok::<_, ringway_net::Error>(accepted)
        });
        let client = Client::new(server_address())?.attempts_max(8);
        let client = client.backoff(Backoff::new(SECOND, 60 * SECOND)).stable_after(10 * SECOND);
        let mut connections = client.reconnecting();
        let began = now();
        for short_lived in 0..8 {
            assert_eq!(connections.failures(), u32::saturating_sub(short_lived, 1));
            let mut connection = connections.next().await?;
            assert!(!matches!(connection.recv().await, Ok(Some(_))), "closed");
        }
        // The pauses are 1 + 2 + 4 + … + 60 seconds, each shortened by up to a half.
        assert!(now() - began >= 61 * SECOND, "{:?}", now() - began);
        assert_eq!(accepting.await??, 8);
        Ok(())
    });
}

#[test]
fn dropping_and_repeating_a_connect_gains_no_time() {
    for is_there in [true, false] {
        simulate(SimConfig::new(7), async move {
            let closing = spawn(async move {
                let listener = listener()?;
                let mut accepted = 0;
                while is_there && accepted < 100 {
                    drop(listener.accept().await?);
                    accepted += 1;
                }
                Ok::<_, ringway_net::Error>(())
            });
            let client = Client::new(server_address())?.attempts_max(u32::MAX);
            let mut connections = client.backoff(Backoff::new(SECOND, 60 * SECOND)).reconnecting();
            let (began, mut made) = (now(), 0);
            while now() - began < 20 * SECOND {
                if let Ok(connection) = timeout(SECOND / 2, connections.next()).await {
                    connection?;
                    made += 1;
                }
            }
            // The pauses are 1, 2, 4, 8 and 16 seconds, each shortened by up to a half.
            let attempts = made.max(connections.failures());
            assert!((1..=6).contains(&attempts), "{attempts} attempts, {made} connections");
            assert_eq!(made > 0, is_there);
            closing.abort();
            Ok(())
        });
    }
}

#[test]
fn retrying_after_every_error_gains_no_time() {
    simulate(SimConfig::new(8), async {
        let client = Client::new(server_address())?.attempts_max(1);
        let mut connections = client.backoff(Backoff::new(SECOND, 60 * SECOND)).reconnecting();
        let began = now();
        for _ in 0..9 {
            let error = connections.next().await.expect_err("nobody listens");
            assert!(error.to_string().contains("(1 attempt)"), "{error}");
        }
        // Each series is new, so there are 8 pauses of a second, each shortened by up to a half.
        let took = now() - began;
        assert!(took >= 4 * SECOND && took < 9 * SECOND, "{took:?}");
        Ok(())
    });
}

#[test]
fn stable_connection_resets_the_series() {
    simulate(SimConfig::new(6), async {
        let server = spawn(async {
            let listener = listener()?;
            for lifetime in [SECOND, 20 * SECOND, SECOND] {
                let stream = listener.accept().await?.into_stream(&Rc::default())?;
                sleep(lifetime).await;
                drop(stream);
            }
            Ok::<_, ringway_net::Error>(())
        });
        let client = Client::new(server_address())?.stable_after(10 * SECOND);
        let mut connections = client.reconnecting();
        let mut failures = Vec::new();
        for _ in 0..3 {
            let mut connection = connections.next().await?;
            failures.push(connections.failures());
            assert!(!matches!(connection.recv().await, Ok(Some(_))), "closed");
        }
        assert_eq!(failures, [0, 1, 0]);
        server.await??;
        Ok(())
    });
}

/// A probability of one, in thousandths.
const ALWAYS: u16 = 1_000;

fn server_address() -> SocketAddr {
    "127.0.0.1:7001".parse().expect("an address")
}

fn listener() -> std::io::Result<Listener> {
    Listener::bind(&server_address().into(), ListenOptions::default())
}

fn simulate<F: Future<Output = Result> + 'static>(config: SimConfig, test: F) {
    let outcome = Builder::simulate(config, test);
    let outcome = outcome.unwrap_or_else(|error| panic!("seed {}: {error}", config.seed));
    outcome.unwrap_or_else(|error| panic!("seed {}: {error}", config.seed));
}
