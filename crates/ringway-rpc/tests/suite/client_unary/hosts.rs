//! Absent, slow and several hosts.

use std::rc::Rc;

use ringway_rpc::{Client, Policy};
use ringway_runtime::{now, sleep, spawn, timeout};
use ringway_wire::native::Config;

use super::{MS, Wakes, echo, poll_with, run, simulate};
use crate::support::alone::NoForks;
use crate::support::hand_server::{HandConnection, HandServer};

#[test]
fn absent_server_fails_fast_or_is_waited_for() {
    let _no_forks = NoForks::begin();
    run(async {
        let address = {
            let listener = std::net::TcpListener::bind("127.77.0.5:0")?;
            listener.local_addr()?
        };
        let client = Client::connect(format!("tcp://{address}").as_str())?;
        let status = echo(&client, "?").await.expect_err("nobody listens");
        assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
        let what = format!("test.Test/Echo: cannot connect to tcp://{address} ");
        assert!(status.message().starts_with(&what), "{status}");

        let status = echo(&client, "?").wait_for_ready(true).timeout(30 * MS).await;
        let status = status.expect_err("nobody listens");
        assert!(status.is_deadline_exceeded() && status.is_not_executed(), "{status:?}");

        let patient = spawn(echo(&client, "patience").wait_for_ready(true));
        let behave = Rc::new(|connection: &Rc<HandConnection>, request| connection.echo(request));
        let _server = HandServer::at(address, Config::default(), behave);
        assert_eq!(patient.await.expect("no panic")?, "patience");
        Ok(())
    });
}

#[test]
fn call_whose_metadata_one_host_does_not_take_goes_to_another() {
    run(async {
        let start_small = || {
            let mut config = Config::default();
            config.settings.max_meta = 100;
            HandServer::start(config, Rc::new(|connection, request| connection.echo(request)))
        };
        let (small, other, large) = (start_small(), start_small(), HandServer::echo());
        let of = |servers: [&HandServer; 2]| {
            let builder = Client::builder().balance(Policy::RoundRobin);
            servers.iter().fold(builder, |builder, server| builder.address(&*server.url())).build()
        };
        let (client, value) = (of([&small, &large])?, "x".repeat(200));
        for _ in 0..10 {
            assert_eq!(echo(&client, "connect").await?, "connect");
        }
        let before = small.requests();
        assert!(before > 0, "both are connected to");
        for n in 0..10 {
            assert_eq!(echo(&client, n.to_string()).metadata("key", &value).await?, n.to_string());
        }
        assert_eq!(small.requests(), before);
        let refused = echo(&of([&small, &other])?, "?").metadata("key", &value).await;
        let refused = refused.expect_err("neither takes it");
        assert!(refused.is_resource_exhausted() && refused.is_not_executed(), "{refused:?}");
        Ok(())
    });
}

#[test]
fn calls_are_spread_over_all_hosts() {
    run(async {
        let servers: Vec<_> = (0..3).map(|_| HandServer::echo()).collect();
        let mut builder = Client::builder().balance(Policy::RoundRobin);
        for server in &servers {
            builder = builder.address(&*server.url());
        }
        let client = builder.build()?;
        for n in 0..30 {
            echo(&client, n.to_string()).await?;
        }
        for server in &servers {
            assert!(server.requests() >= 5, "{}", server.requests());
        }
        servers[0].kill();
        let mut failed = 0;
        for n in 0..30 {
            failed += usize::from(echo(&client, n.to_string()).await.is_err());
        }
        assert!(failed <= 1, "{failed} calls went to a host that is not there");
        Ok(())
    });
}

#[test]
fn slow_host_gets_fewer_calls() {
    simulate(|| async {
        let fast = HandServer::echo();
        let slow = HandServer::slow_echo(10 * MS);
        let client = Client::builder().address(&*fast.url()).address(&*slow.url()).build()?;
        for n in 0..200 {
            assert_eq!(echo(&client, n.to_string()).await?, n.to_string());
        }
        assert!(slow.requests() < 20, "{} of 200 calls", slow.requests());
        Ok(())
    });
}

#[test]
fn silent_host_gets_few_calls() {
    for are_dropped in [true, false] {
        simulate(move || async move {
            let fast = HandServer::echo();
            let hung = HandServer::start(Config::default(), Rc::new(|_, _| {}));
            let client = Client::builder().address(&*fast.url()).address(&*hung.url()).build()?;
            let mut failed = 0;
            for n in 0..200 {
                let call = echo(&client, n.to_string());
                failed += u32::from(match are_dropped {
                    true => timeout(20 * MS, call).await.is_err(),
                    false => call.timeout(20 * MS).await.is_err(),
                });
            }
            assert!(failed < 10, "{failed} of 200 calls, dropped: {are_dropped}");
            Ok(())
        });
    }
}

#[test]
fn connects_refused_together_count_as_one_failure() {
    simulate(|| async {
        let address = "127.0.0.1:7001".parse()?;
        let builder = Client::builder().address(&*format!("tcp://{address}")).connections(8);
        let client = builder.build()?;
        let begun = now();
        let patient = spawn(echo(&client, "patience").wait_for_ready(true));
        sleep(10 * MS).await;
        let behave = Rc::new(|connection: &Rc<HandConnection>, request| connection.echo(request));
        let _server = HandServer::at(address, Config::default(), behave);
        assert_eq!(patient.await.expect("no panic")?, "patience");
        let waited = now() - begun;
        assert!(waited < 200 * MS, "{waited:?}");
        Ok(())
    });
}

#[test]
fn waiting_calls_are_woken_only_when_they_can_continue() {
    simulate(|| async {
        let address = |host: u16| format!("tcp://127.0.0.1:{}", 7_100 + host);
        let builder = (0..20).fold(Client::builder(), |all, host| all.address(&*address(host)));
        let client = builder.build()?;
        let call = || Box::pin(echo(&client, "patience").wait_for_ready(true).no_timeout());
        let mut calls: Vec<_> = (0..50).map(|_| call()).collect();
        let wakes = Wakes::default();
        for call in &mut calls {
            assert!(poll_with(&wakes, call.as_mut()).is_pending());
        }
        let others: Vec<_> = (0..50).map(|_| spawn(call())).collect();
        sleep(30_000 * MS).await;
        assert_eq!(wakes.count(), 0, "there is nowhere to go");

        let behave = Rc::new(|connection: &Rc<HandConnection>, request| connection.echo(request));
        let _server = HandServer::at("127.0.0.1:7107".parse()?, Config::default(), behave);
        for other in others {
            assert_eq!(other.await.expect("no panic")?, "patience");
        }
        assert_eq!(wakes.count(), 50, "each once");
        for call in calls {
            assert_eq!(call.await?, "patience");
        }
        Ok(())
    });
}

/// Calls again at once until a call is answered.
async fn call_in_a_loop(client: Client) -> u32 {
    let mut failed = 0;
    while let Err(status) = echo(&client, "again").await {
        assert!(status.is_unavailable(), "{status:?}");
        failed += 1;
    }
    failed
}

#[test]
fn a_loop_of_failing_calls_does_not_keep_its_core_from_connecting() {
    let _no_forks = NoForks::begin();
    run(async {
        let address = {
            let listener = std::net::TcpListener::bind("127.77.0.6:0")?;
            listener.local_addr()?
        };
        let client = Client::connect(format!("tcp://{address}").as_str())?;
        let calling = spawn(call_in_a_loop(client.clone()));
        echo(&client, "?").await.expect_err("nobody listens");
        let behave = Rc::new(|connection: &Rc<HandConnection>, request| connection.echo(request));
        let _server = HandServer::at(address, Config::default(), behave);
        assert!(calling.await.expect("no panic") > 0);
        Ok(())
    });
}

#[test]
fn a_loop_of_failing_calls_in_a_simulation_is_named() {
    let looping = ringway_rpc::testing::simulate(6, async {
        let client = Client::connect("tcp://127.0.0.1:7001")?;
        Ok(call_in_a_loop(client).await)
    });
    let status = looping.expect_err("the clock stands still");
    let tells = ["seed 6", "does not get on", "a_loop_of_failing_calls_in"];
    let message = status.message();
    assert!(
        status.code() == ringway_rpc::Code::Internal
            && tells.iter().all(|told| message.contains(told)),
        "{status}"
    );
}
