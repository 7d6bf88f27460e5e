//! Several servers of one client: how calls are shared out among them.

mod support;

use std::sync::atomic::Ordering;

use bytes::Bytes;
use ringway_rpc::{Client, ClientBuilder, Codec, Kind, Method, Policy, ServerHandle, Status};
use ringway_runtime::timeout;
use support::echo::{Echo, serve};
use support::{LIMIT, end};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);

/// A server and what it has seen.
struct Seen {
    echo: Echo,
    handle: ServerHandle,
}

impl Seen {
    fn start() -> Self {
        let echo = Echo::default();
        let handle = serve(&echo, |server| server);
        Self { echo, handle }
    }

    fn url(&self) -> String {
        self.handle.addresses()[0].to_string()
    }

    /// Calls so far.
    fn calls(&self) -> usize {
        self.echo.seen.begun.load(Ordering::SeqCst)
    }
}

async fn call(client: &Client, times: usize) -> Result<(), Status> {
    for _ in 0..times {
        client.unary(&SAY, Codec::raw(), Codec::<Bytes>::raw(), Bytes::new()).await?;
    }
    Ok(())
}

/// Calls until all servers have had one, and then some: all are connected and in step.
async fn warm_up(client: &Client, servers: &[Seen]) -> Result<(), Status> {
    while servers.iter().any(|server| server.calls() == 0) {
        call(client, 1).await?;
    }
    call(client, 100).await
}

/// How many of so many calls each of three servers gets, by its weight.
fn shares(weights: [u32; 3], set: fn(ClientBuilder) -> ClientBuilder, calls: usize) -> [usize; 3] {
    let servers = [(); 3].map(|()| Seen::start());
    let mut builder = set(Client::builder());
    for (server, weight) in servers.iter().zip(weights) {
        builder = builder.weighted_address(&*server.url(), weight);
    }
    let (servers, shares) = run(async move {
        let client = builder.build()?;
        warm_up(&client, &servers).await?;
        let before = servers.each_ref().map(Seen::calls);
        call(&client, calls).await?;
        let after = servers.each_ref().map(Seen::calls);
        Ok((servers, std::array::from_fn(|server| after[server] - before[server])))
    });
    servers.into_iter().for_each(|server| end(server.handle));
    shares
}

#[test]
fn in_turns_each_server_gets_its_weight_exactly() {
    let in_turns = |builder: ClientBuilder| builder.balance(Policy::RoundRobin);
    assert_eq!(shares([5, 3, 1], in_turns, 900), [500, 300, 100]);
    assert_eq!(shares([1, 1, 1], in_turns, 900), [300, 300, 300]);
}

#[test]
fn at_random_each_server_gets_about_its_weight() {
    let at_random = |builder: ClientBuilder| builder.balance(Policy::Random);
    let [heavy, middle, light] = shares([5, 3, 1], at_random, 4_500);
    for (calls, share) in [(heavy, 2_500), (middle, 1_500), (light, 500)] {
        // More than five standard deviations.
        assert!(calls.abs_diff(share) < 180, "{heavy} {middle} {light}");
    }
}

fn run<T: 'static>(test: impl Future<Output = Result<T, Status>> + 'static) -> T {
    let ended = ringway_runtime::block_on(timeout(LIMIT, test));
    ended.expect("a core").expect("no hang").unwrap_or_else(|status| panic!("{status}"))
}
