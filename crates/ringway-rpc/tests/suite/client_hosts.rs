//! Several servers of one client: how calls are distributed, and changes of the list of servers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    Call, CallOptions, Client, ClientBuilder, Codec, Host, Kind, Method, Policy, ServerHandle,
    Status,
};
use ringway_runtime::{Runtime, spawn, timeout};
use ringway_wire::native::{Config, Reply};

use crate::support::echo::{Echo, serve};
use crate::support::hand_server::{HandConnection, HandServer, Request};
use crate::support::load::Load;
use crate::support::{LIMIT, end, eventually};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
static TALK: Method = Method::new("echo.Echo/Chat", Kind::Bidi);

const RAW: Codec<Bytes> = Codec::raw();

/// A server and the number of its calls.
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

    fn connections(&self) -> usize {
        self.handle.net().stats().open
    }

    /// Returns the number of calls so far.
    fn calls(&self) -> usize {
        self.echo.seen.begun.load(Ordering::SeqCst)
    }
}

fn say(client: &Client, request: &'static str) -> Call<Bytes> {
    client.unary(&SAY, RAW, RAW, Bytes::from_static(request.as_bytes()))
}

async fn call(client: &Client, times: usize) -> Result<(), Status> {
    for _ in 0..times {
        say(client, "").await?;
    }
    Ok(())
}

/// Calls until every server has had a call, and then some more: all are connected and in step.
async fn warm_up(client: &Client, servers: &[Seen]) -> Result<(), Status> {
    while servers.iter().any(|server| server.calls() == 0) {
        call(client, 1).await?;
    }
    call(client, 100).await
}

#[test]
fn first_calls_of_a_key_go_to_the_same_server_as_later_ones() {
    let servers = [(); 4].map(|()| Seen::start());
    run(async move {
        for key in 0..40 {
            // A new client, as after a restart, is not connected to any server.
            let mut builder = Client::builder().balance(Policy::ConsistentHash);
            for server in &servers {
                builder = builder.address(&*server.url());
            }
            let client = builder.options(CallOptions::new().affinity(key)).build()?;
            let before = servers.each_ref().map(Seen::calls);
            let first = [spawn(say(&client, "a")), spawn(say(&client, "b"))];
            for call in first {
                call.await.expect("no panic")?;
            }
            call(&client, 2).await?;
            let met =
                servers.iter().zip(before).filter(|(server, before)| server.calls() > *before);
            assert_eq!(met.count(), 1, "key {key}");
        }
        Ok(())
    });
}

#[test]
fn other_calls_do_not_wait_for_a_key_whose_server_is_connecting() {
    // This server accepts connections and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = format!("tcp://{}", silent.local_addr().expect("it is bound"));
    let server = Seen::start();
    run(async move {
        let builder = Client::builder().address(&*silent).address(&*server.url());
        let builder = builder.balance(Policy::ConsistentHash).connect_timeout(LIMIT);
        let client = builder.build()?;
        let of_key = |key: u32| {
            let client = client.with(CallOptions::new().affinity(key).timeout(LIMIT));
            spawn(async move { say(&client, "").await })
        };
        let waiting: Vec<_> = (0..20).map(of_key).collect();
        while server.calls() == 0 {
            ringway_runtime::yield_now().await;
        }
        // Calls without a key, and calls with a key of the working server.
        call(&client, 10).await?;
        let waits = |call: &&ringway_runtime::JoinHandle<_>| !call.is_finished();
        let waiting = waiting.iter().filter(waits).count();
        assert!((1..20).contains(&waiting), "{waiting} of 20 keys belong to the silent one");
        Ok(())
    });
}

/// Returns how many of `calls` calls each of three servers gets.
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
fn round_robin_follows_the_weights_exactly() {
    let in_turns = |builder: ClientBuilder| builder.balance(Policy::RoundRobin);
    assert_eq!(shares([5, 3, 1], in_turns, 900), [500, 300, 100]);
    assert_eq!(shares([1, 1, 1], in_turns, 900), [300, 300, 300]);
}

#[test]
fn random_choice_follows_the_weights_approximately() {
    let at_random = |builder: ClientBuilder| builder.balance(Policy::Random);
    let [heavy, middle, light] = shares([5, 3, 1], at_random, 4_500);
    for (calls, share) in [(heavy, 2_500), (middle, 1_500), (light, 500)] {
        // The tolerance is more than five standard deviations.
        assert!(calls.abs_diff(share) < 180, "{heavy} {middle} {light}");
    }
}

#[test]
fn no_call_fails_when_a_server_is_removed_and_another_added() {
    let servers = [(); 4].map(|()| Seen::start());
    let servers = run(async move {
        let options = CallOptions::new().timeout(LIMIT);
        let client = Client::builder().options(options).balance(Policy::RoundRobin);
        let client =
            servers[..3].iter().fold(client, |client, server| client.address(server.url()));
        let client = client.build()?;
        warm_up(&client, &servers[..3]).await?;
        let warmed_up: usize = servers.iter().map(Seen::calls).sum();
        let load = Load::begin(&client);
        load.calls(2_000).await;
        client.set_hosts(list(&servers[1..])?)?;
        load.calls(1_000).await; // the calls at the first one are over
        let before = servers.each_ref().map(Seen::calls);
        load.calls(3_000).await;
        let after = servers.each_ref().map(Seen::calls);
        assert_eq!(after[0], before[0], "it is not in the list any more");
        for server in 1..4 {
            let calls = after[server] - before[server];
            assert!(calls >= 900, "server {server}: {calls} of 3,000");
        }
        let done = load.end().await?;
        let executed: usize = servers.iter().map(Seen::calls).sum();
        assert_eq!(executed - warmed_up, done, "each is executed once");
        while servers[0].connections() > 0 {
            ringway_runtime::yield_now().await; // it closes when its calls are over
        }
        Ok(servers)
    });
    servers.into_iter().for_each(|server| end(server.handle));
}

#[test]
fn calls_and_streams_at_a_removed_server_finish() {
    run(async {
        let (leaves, held) = holding();
        let stays = HandServer::echo();
        let client = Client::connect(leaves.url())?;
        let running = spawn(say(&client, "hold"));
        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        sink.send(Bytes::from_static(b"1")).await?;
        assert_eq!(replies.next().await?.as_deref(), Some(&b"1"[..]));
        leaves.until(|server| server.requests() == 2).await;
        client.set_hosts([Host::new(leaves.url())?, Host::new(stays.url())?])?;
        client.set_hosts([Host::new(stays.url())?])?;
        for _ in 0..5 {
            assert_eq!(say(&client, "there").await?, "there");
        }
        assert_eq!((leaves.requests(), stays.requests()), (2, 5));

        sink.send(Bytes::from_static(b"2")).await?;
        assert_eq!(replies.next().await?.as_deref(), Some(&b"2"[..]));
        sink.finish();
        assert!(replies.next().await?.is_none());
        assert_eq!(leaves.open_connections(), 1, "a call is still under way");
        answer(&held);
        assert_eq!(running.await.expect("no panic")?, "hold");
        leaves.until(|server| server.open_connections() == 0).await;
        Ok(())
    });
}

#[test]
fn servers_that_stay_keep_their_connections_and_state() {
    run(async {
        let servers = [(); 4].map(|()| HandServer::echo());
        let hosts = |weights: [u32; 4]| {
            let listed = servers.iter().zip(weights).filter(|(_, weight)| *weight > 0);
            listed
                .map(|(server, weight)| Ok(Host::new(server.url())?.weight(weight)))
                .collect::<Result<Vec<_>, Status>>()
        };
        let requests = || servers.each_ref().map(HandServer::requests);
        let client = Client::builder().address(servers[0].url()).balance(Policy::RoundRobin);
        let client = client.build()?;
        // One server becomes three, in a new order and with other weights.
        for (weights, shares) in [
            ([1, 1, 1, 0], [30, 30, 30, 0]),
            ([0, 1, 1, 1], [0, 30, 30, 30]),
            ([0, 1, 2, 6], [0, 10, 20, 60]),
            ([1, 0, 0, 0], [90, 0, 0, 0]),
            ([1, 1, 0, 0], [45, 45, 0, 0]),
        ] {
            client.set_hosts(hosts(weights)?)?;
            let before = requests();
            while (0..4).any(|server| weights[server] > 0 && requests()[server] == before[server]) {
                call(&client, 1).await?;
            }
            call(&client, 36).await?;
            let before = requests();
            call(&client, 90).await?;
            let after = requests();
            let calls: [_; 4] = std::array::from_fn(|server| after[server] - before[server]);
            assert_eq!(calls, shares, "{weights:?}");
        }
        let connections = servers.each_ref().map(|server| server.connections.borrow().len());
        assert_eq!(connections, [2, 2, 1, 1], "none was opened twice without having been left");
        Ok(())
    });
}

#[test]
fn latency_of_a_server_that_stays_is_kept() {
    run(async {
        let fast = HandServer::echo();
        let slow = HandServer::slow_echo(Duration::from_millis(50));
        let joins = HandServer::echo();
        let client = Client::builder().address(fast.url()).address(slow.url()).build()?;
        while slow.requests() == 0 {
            call(&client, 1).await?;
        }
        call(&client, 20).await?;
        let before = slow.requests();
        let hosts = [&joins, &slow, &fast].map(|server| Host::new(server.url()));
        client.set_hosts(hosts.into_iter().collect::<Result<Vec<_>, _>>()?)?;
        call(&client, 40).await?;
        assert_eq!(slow.requests(), before);
        Ok(())
    });
}

#[test]
fn waiting_call_goes_to_an_added_server() {
    run(async {
        let (full, _held) = holding();
        let client = Client::builder().address(full.url()).connections_max(1).build()?;
        assert_eq!(say(&client, "connect").await?, "connect");
        full.connection(0).lease(0);
        // The first call may cross the lease; those after it cannot.
        _ = say(&client, "cross").timeout(Duration::from_millis(30)).await;
        let waiting: Vec<_> = (0..3).map(|_| spawn(say(&client, "wait"))).collect();
        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        let joins = HandServer::start(Config::default(), Rc::new(talk));
        let requests = full.requests();
        for _ in 0..20 {
            ringway_runtime::yield_now().await; // now they wait
        }
        client.set_hosts([Host::new(joins.url())?])?;
        for call in waiting {
            assert_eq!(call.await.expect("no panic")?, "wait");
        }
        sink.send(Bytes::from_static(b"1")).await?;
        assert_eq!(replies.next().await?.as_deref(), Some(&b"1"[..]));
        full.until(|server| server.open_connections() == 0).await;
        assert_eq!(full.requests(), requests);
        Ok(())
    });
}

#[test]
fn invalid_list_is_rejected_and_changes_nothing() {
    run(async {
        let server = HandServer::echo();
        let client = Client::connect(server.url())?;
        let host = |weight| Host::new("tcp://127.0.0.1:1").map(|host| host.weight(weight));
        let many = (1..=1_025).map(|port| Host::new(&*format!("tcp://127.0.0.1:{port}")));
        for (list, why) in [
            (vec![], "needs the address"),
            (vec![host(0)?], "is 0, not 1 to 100"),
            (vec![host(1)?, host(101)?], "is 101, not 1 to 100"),
            (vec![Host::new("udp://127.0.0.1:1")?], "UDP has no connections"),
            (many.collect::<Result<_, _>>()?, "1024 servers at most"),
        ] {
            let status = client.set_hosts(list).expect_err(why);
            assert!(status.is_invalid_argument() && status.message().contains(why), "{status}");
            assert_eq!(say(&client, "the same").await?, "the same");
        }
        // The same address twice counts once.
        client.set_hosts([Host::new(server.url())?, Host::new(server.url())?])?;
        call(&client, 10).await?;
        assert_eq!(server.connections.borrow().len(), 1);
        Ok(())
    });
}

#[test]
fn change_of_the_list_reaches_every_core() {
    let [first, second] = [(); 2].map(|()| Seen::start());
    let client = Client::connect(&*first.url()).expect("an address");
    let runtime = Runtime::builder().threads(2).start().expect("two cores");
    let on_cores = || {
        for core in runtime.cores() {
            let client = client.clone();
            let called = core.spawn(async move || call(&client, 1).await).expect("room");
            called.wait().expect("no panic").expect("an answer");
        }
    };
    on_cores();
    say(&client, "").wait().expect("an answer");
    assert_eq!(first.calls(), 3);
    client.set_hosts([Host::new(&*second.url()).expect("an address")]).expect("a list");
    say(&client, "").wait().expect("an answer"); // after the change on its core
    assert_eq!((first.calls(), second.calls()), (3, 1));
    eventually("both cores know", || {
        let before = first.calls();
        on_cores();
        first.calls() == before
    });
    eventually("no connection is left", || first.connections() == 0);
    [first, second].into_iter().for_each(|server| end(server.handle));
}

fn list(servers: &[Seen]) -> Result<Vec<Host>, Status> {
    servers.iter().map(|server| Host::new(&*server.url())).collect()
}

type Held = Rc<RefCell<Vec<(Rc<HandConnection>, Request)>>>;

/// Makes a server that holds requests which say so, until [`answer`].
fn holding() -> (HandServer, Held) {
    let held = Held::default();
    let server = HandServer::start(Config::default(), {
        let held = Rc::clone(&held);
        Rc::new(move |connection, request: Request| match request.message.as_deref() {
            Some(b"hold") => held.borrow_mut().push((Rc::clone(connection), request)),
            _ => talk(connection, request),
        })
    });
    (server, held)
}

fn answer(held: &Held) {
    held.borrow_mut().drain(..).for_each(|(connection, request)| connection.echo(request));
}

/// Echoes messages.
fn talk(connection: &Rc<HandConnection>, request: Request) {
    match (request.head, request.end) {
        (Some(_), true) => connection.echo(request),
        (_, true) => {
            connection.respond(request.stream, Reply { status: 0, meta: &[], message: None });
        }
        _ => {
            if let Some(message) = &request.message {
                connection.send(request.stream, &[], message);
            }
        }
    }
}

fn run<T: 'static>(test: impl Future<Output = Result<T, Status>> + 'static) -> T {
    let ended = ringway_runtime::block_on(timeout(LIMIT, test));
    ended.expect("a core").expect("no hang").unwrap_or_else(|status| panic!("{status}"))
}

#[test]
fn new_clients_that_make_one_call_each_use_all_servers() {
    for policy in [Policy::RoundRobin, Policy::PeakEwma] {
        let servers: Vec<_> = (0..3).map(|_| Seen::start()).collect();
        let new_client = || {
            let builder = Client::builder().balance(policy);
            servers.iter().fold(builder, |builder, server| builder.address(&*server.url())).build()
        };
        for _ in 0..60 {
            say(&new_client().expect("addresses"), "").wait().expect("it is served");
        }
        let calls: Vec<_> = servers.iter().map(Seen::calls).collect();
        assert!(calls.iter().all(|calls| *calls <= 27), "{policy:?}: {calls:?}");
        servers.into_iter().for_each(|server| end(server.handle));
    }
}
