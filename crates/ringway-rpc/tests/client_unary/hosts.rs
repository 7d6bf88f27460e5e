//! Hosts that are not there, slow, or several.

use std::rc::Rc;

use ringway_rpc::{Client, Policy};
use ringway_runtime::spawn;
use ringway_wire::native::Config;

use crate::hand_server::{HandConnection, HandServer};
use crate::{MS, echo, run, simulate};

#[test]
fn nobody_there_fails_fast_or_is_waited_for() {
    run(async {
        let address = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
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
fn a_slow_host_gets_fewer_calls() {
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
