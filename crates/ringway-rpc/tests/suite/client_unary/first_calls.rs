//! The first calls of clients: none of their connections is open yet.

use std::error::Error;
use std::net::SocketAddr;

use ringway_rpc::{Client, Policy, Status};
use ringway_runtime::io::{ListenOptions, Listener};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, now, sleep, spawn};

use super::{MS, echo, run, simulate};
use crate::support::hand_server::HandServer;

const POLICIES: [Policy; 2] = [Policy::RoundRobin, Policy::PeakEwma];

/// New clients that make one call each, and calls of one new client at once.
const CLIENTS: usize = 60;
const CALLS: usize = 300;

fn echoes() -> [HandServer; 3] {
    std::array::from_fn(|_| HandServer::echo())
}

fn urls(servers: &[HandServer]) -> Vec<String> {
    servers.iter().map(HandServer::url).collect()
}

fn client(policy: Policy, urls: &[String]) -> Result<Client, Status> {
    let builder = Client::builder().balance(policy);
    urls.iter().fold(builder, |builder, url| builder.address(&**url)).build()
}

/// The calls that each server has got; none has more than 45 % of `all`.
#[track_caller]
fn check_even(servers: &[HandServer], all: usize, policy: Policy) {
    let got: Vec<_> = servers.iter().map(HandServer::requests).collect();
    println!("{all} first calls with {policy:?}: {got:?}");
    assert_eq!(got.iter().sum::<usize>(), all);
    assert!(got.iter().all(|got| got * 100 <= all * 45), "{policy:?}: {got:?}");
}

async fn one_call_each(policy: Policy) -> Result<[HandServer; 3], Box<dyn Error>> {
    let servers = echoes();
    for n in 0..CLIENTS {
        let client = client(policy, &urls(&servers))?;
        assert_eq!(echo(&client, n.to_string()).await?, n.to_string());
    }
    Ok(servers)
}

async fn all_at_once(client: &Client) -> Result<(), Box<dyn Error>> {
    let calls: Vec<_> = (0..CALLS).map(|n| spawn(echo(client, n.to_string()))).collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await?.map_err(|status| status.to_string())?, n.to_string());
    }
    Ok(())
}

async fn first_calls(policy: Policy) -> Result<(), Box<dyn Error>> {
    check_even(&one_call_each(policy).await?, CLIENTS, policy);
    let servers = echoes();
    all_at_once(&client(policy, &urls(&servers))?).await?;
    check_even(&servers, CALLS, policy);
    Ok(())
}

#[test]
fn first_calls_are_spread_over_all_servers() {
    for policy in POLICIES {
        simulate(move || first_calls(policy));
    }
}

#[test]
fn so_are_those_over_real_sockets() {
    for policy in POLICIES {
        run(first_calls(policy));
    }
}

#[test]
fn one_seed_chooses_the_same_servers_again() {
    let counts = |seed| {
        let test = async {
            let servers = one_call_each(Policy::PeakEwma).await.expect("all are answered");
            servers.map(|server| server.requests())
        };
        Builder::simulate(SimConfig::new(seed), test).expect("it is never stuck")
    };
    assert_eq!(counts(4), counts(4));
}

#[test]
fn a_server_that_hangs_delays_first_calls_for_a_moment_only() {
    for policy in POLICIES {
        simulate(move || async move {
            // Its kernel accepts connections, and it says nothing.
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let hung = Listener::bind(&any.into(), ListenOptions::default())?;
            let hung = format!("tcp://{}", hung.local_addr().as_socket().expect("TCP"));
            let living = [HandServer::echo(), HandServer::echo()];
            let [one, other] = living.each_ref().map(HandServer::url);
            let begun = now();
            all_at_once(&client(policy, &[one.clone(), hung.clone(), other])?).await?;
            let took = now() - begun;
            assert!(took < 110 * MS, "{policy:?}: {took:?}");
            let got = living.each_ref().map(HandServer::requests);
            assert!(got.iter().all(|got| *got >= CALLS / 3), "{policy:?}: {got:?}");
            // Calls in a hurry leave themselves most of their time.
            for n in 0..CLIENTS {
                let client = client(policy, &[hung.clone(), one.clone()])?;
                let begun = now();
                assert_eq!(echo(&client, n.to_string()).timeout(20 * MS).await?, n.to_string());
                let took = now() - begun;
                assert!(took < 6 * MS, "{policy:?}: {took:?}");
            }
            Ok(())
        });
    }
}

#[test]
fn servers_that_are_absent_get_no_share() {
    for policy in POLICIES {
        simulate(move || async move {
            let living = [HandServer::echo(), HandServer::echo()];
            let [one, other] = living.each_ref().map(HandServer::url);
            let begun = now();
            let absent = "tcp://127.0.0.1:7101".to_owned();
            all_at_once(&client(policy, &[absent, one, other])?).await?;
            let took = now() - begun;
            assert!(took < 5 * MS, "{policy:?}: {took:?}");
            let got = living.each_ref().map(HandServer::requests);
            assert!(got.iter().all(|got| *got * 10 >= CALLS * 4), "{policy:?}: {got:?}");
            Ok(())
        });
    }
}

#[test]
fn calls_after_the_first_are_spread_as_well() {
    simulate(|| async {
        let servers = echoes();
        for _ in 0..CLIENTS {
            let client = client(Policy::RoundRobin, &urls(&servers))?;
            echo(&client, "first").await?;
            sleep(5 * MS).await;
            echo(&client, "second").await?;
        }
        check_even(&servers, 2 * CLIENTS, Policy::RoundRobin);
        Ok(())
    });
}

#[test]
fn heavier_servers_get_more_of_the_first_calls() {
    for policy in POLICIES {
        simulate(move || async move {
            let servers = echoes();
            let mut builder = Client::builder().balance(policy);
            for (server, weight) in servers.iter().zip([3, 2, 1]) {
                builder = builder.weighted_address(&*server.url(), weight);
            }
            all_at_once(&builder.build()?).await?;
            let got = servers.each_ref().map(HandServer::requests);
            assert!((140..=160).contains(&got[0]) && (90..=110).contains(&got[1]), "{got:?}");
            Ok(())
        });
    }
}

#[test]
fn after_all_connections_were_lost_calls_are_spread_again() {
    simulate(|| async {
        let servers = echoes();
        let client = client(Policy::PeakEwma, &urls(&servers))?;
        all_at_once(&client).await?;
        for server in &servers {
            server.connections.borrow().iter().for_each(|connection| connection.kill());
        }
        sleep(5 * MS).await;
        all_at_once(&client).await?;
        check_even(&servers, 2 * CALLS, Policy::PeakEwma);
        Ok(())
    });
}
