//! Clients whose servers come from each of the sources.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringway_discovery::{
    Discovery, Endpoint, EtcdConfig, EtcdRegistry, Health, Local, Registry, RegistryResolver,
    install,
};
use ringway_rpc::{CallOptions, Client, ResolverState, ResolverStats};

use crate::support::name_server::{NameServer, Record, Reply};
use crate::support::who::{Named, WhoClient, address};
use crate::support::{LIMIT, authority, end, eventually, serve};

fn connect(source: &str) -> (WhoClient, Client) {
    install();
    let client = Client::connect(source).expect(source);
    let client = client.with(CallOptions::new().timeout(LIMIT));
    (WhoClient::new(client.clone()), client)
}

fn stats(client: &Client) -> ResolverStats {
    client.resolver_stats().expect("it has a resolver")
}

/// The port of an address.
fn port(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Waits until calls are answered by this server, and by no other for a while.
fn answered_by(client: &WhoClient, name: &str) {
    eventually("it answers alone", || {
        (0..20).all(|_| client.who().wait().expect("an answer") == name)
    });
}

#[test]
fn local_service() {
    let (first, second) = (Named::new("first"), Named::new("second"));
    let servers = [first.start(), second.start()];
    let (who, client) = connect("local://sources-local");
    let waiting = who.who();
    let service = Local::of_process().service("sources-local");
    let mut registration = service.register(Endpoint::new(address(&servers[0])));
    assert_eq!(waiting.wait().expect("it waits for the server"), "first");
    let other = service.register(Endpoint::new(address(&servers[1])));
    registration.update(|endpoint| endpoint.with_health(Health::Draining));
    answered_by(&who, "second");
    registration.update(|endpoint| endpoint.with_health(Health::Serving));
    drop(other);
    answered_by(&who, "first");
    assert_eq!((stats(&client).state, stats(&client).hosts), (ResolverState::Current, 1));
    drop(registration);
    eventually("the last one is held", || stats(&client).state == ResolverState::Held);
    answered_by(&who, "first");
    eventually("and believed to be gone", || stats(&client).hosts == 0);
    servers.into_iter().for_each(end);
}

#[test]
fn service_on_a_registry_server() {
    let (named, registry) = (Named::new("first"), Registry::new());
    let server = named.start();
    let registry_server = serve(&registry);
    let authority = authority(&registry_server);
    let (who, client) = connect(&format!("etcd://{authority}/who"));
    let waiting = who.who();
    let etcd = EtcdRegistry::new(EtcdConfig::new([&*authority]).expect("an address"));
    let endpoint = Endpoint::new(address(&server));
    let registration = etcd.register("who", endpoint, Duration::from_secs(10)).expect("a service");
    assert_eq!(waiting.wait().expect("it waits for the server"), "first");
    // The client outlives the registry.
    end(registry_server);
    eventually("it is missed", || stats(&client).state == ResolverState::Failing);
    answered_by(&who, "first");
    drop(registration);
    end(server);
}

#[test]
fn registry_of_the_program() {
    let (named, registry) = (Named::new("first"), Local::new());
    let server = named.start();
    let registration = registry.service("market").register(Endpoint::new(address(&server)));
    let resolver = RegistryResolver::new(registry, "market");
    let client = Client::builder().resolver(resolver).build().expect("a client");
    assert_eq!(WhoClient::new(client).who().wait().expect("an answer"), "first");
    drop(registration);
    end(server);
}

#[test]
fn file_that_changes() {
    let (first, second) = (Named::new("first"), Named::new("second"));
    let servers = [first.start(), second.start()];
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("hosts");
    let (who, client) = connect(&format!("file://{}", path.display()));
    eventually("it is not there", || stats(&client).failures > 0);
    let why = stats(&client).last_error;
    assert!(why.contains("No such file"), "{why}");
    std::fs::write(&path, format!("{} weight=2 # the only one\n", address(&servers[0])))
        .expect("a place for it");
    answered_by(&who, "first");
    // Replaced as a whole, by JSON.
    let other = directory.path().join("other");
    std::fs::write(&other, format!("[\"{}\"]", address(&servers[1]))).expect("a place for it");
    std::fs::rename(&other, &path).expect("the same directory");
    answered_by(&who, "second");
    // Nonsense, an empty list and a list without a server keep what there was.
    for (text, state) in [
        ("{", ResolverState::Failing),
        ("", ResolverState::Held),
        ("ftp://10.0.0.1:1", ResolverState::Failing),
        ("\u{1}", ResolverState::Failing),
    ] {
        std::fs::write(&other, text).expect("a place for it");
        std::fs::rename(&other, &path).expect("the same directory");
        eventually("it is read", || stats(&client).state == state);
        answered_by(&who, "second");
    }
    std::fs::remove_file(&path).expect("it is there");
    eventually("it is missed", || stats(&client).last_error.contains("No such file"));
    answered_by(&who, "second");
    servers.into_iter().for_each(end);
}

/// No change of the file's own folder is told then.
#[test]
fn file_that_comes_to_be_behind_a_link() {
    let named = Named::new("first");
    let server = named.start();
    let (here, there) = [(); 2].map(|()| tempfile::tempdir().expect("a directory")).into();
    let (path, target) = (here.path().join("hosts"), there.path().join("hosts"));
    std::os::unix::fs::symlink(&target, &path).expect("a place for it");
    let (who, client) = connect(&format!("file://{}", path.display()));
    eventually("it is not there", || stats(&client).failures > 0);
    std::fs::write(&target, address(&server)).expect("a place for it");
    answered_by(&who, "first");
    end(server);
}

/// The addresses of `market.test`, for a second.
fn records(list: &[Ipv4Addr]) -> Reply {
    let record = |ip: &Ipv4Addr| ("market.test", Record::Address(*ip));
    Reply::Records(1, list.iter().map(record).collect())
}

#[test]
fn addresses_of_a_name() {
    let named = Named::new("first");
    let server = named.start();
    let port = port(&address(&server));
    let (here, nowhere) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 77));
    let names = NameServer::start(Reply::NoSuchName);
    let (who, client) = connect(&format!("dns://market.test:{port}?server={}", names.at));
    eventually("there is no such name", || stats(&client).failures > 0);
    names.reply(records(&[here]));
    assert_eq!(who.who().wait().expect("an answer"), "first");
    // The TTL of a second ends, and the name has another address.
    names.reply(records(&[here, nowhere]));
    eventually("it is looked up again", || stats(&client).hosts == 2);
    end(server);
}

/// At the same time, since attempts and the waits between them take seconds.
#[test]
fn names_that_cannot_be_looked_up_keep_their_list() {
    let list = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 77)];
    let check = |reply: Reply| {
        let names = NameServer::start(records(&list));
        let (_who, client) = connect(&format!("dns://market.test:9000?server={}", names.at));
        eventually("it is looked up", || stats(&client).hosts == 2);
        let before = stats(&client).failures;
        names.reply(reply);
        eventually("it fails", || stats(&client).failures > before);
        assert_eq!((stats(&client).state, stats(&client).hosts), (ResolverState::Failing, 2));
        names.reply(records(&list));
        eventually("it is looked up again", || stats(&client).state == ResolverState::Current);
    };
    std::thread::scope(|scope| {
        for reply in [Reply::Failure, Reply::NoSuchName, Reply::Nonsense, records(&[])] {
            scope.spawn(move || check(reply));
        }
    });
}

/// The TTL ends in five minutes.
#[test]
fn a_name_is_looked_up_again_when_all_its_hosts_are_gone() {
    let (first, second) = (Named::new("first"), Named::new("second"));
    let moved = Ipv4Addr::new(127, 0, 0, 77);
    let server = first.start();
    let port = port(&address(&server));
    let at = |ip| Reply::Records(300, vec![("market.test", Record::Address(ip))]);
    let names = NameServer::start(at(Ipv4Addr::LOCALHOST));
    let (who, _client) = connect(&format!("dns://market.test:{port}?server={}", names.at));
    assert_eq!(who.who().wait().expect("an answer"), "first");
    let asked = names.asked();
    names.reply(at(moved));
    let other = second.server_at(&format!("tcp://{moved}:{port}")).start().expect("it starts");
    assert_eq!(who.who().wait().expect("an answer"), "first");
    assert_eq!(names.asked(), asked, "nobody asks while all is well");
    end(server);
    eventually("the new place is found", || who.who().wait().is_ok_and(|name| name == "second"));
    assert!(names.asked() <= asked + 20, "it is asked at a bounded rate");
    end(other);
}

#[test]
fn why_a_name_has_no_addresses_is_told() {
    let alias = |name, target| (name, Record::Alias(target));
    let looped = vec![alias("market.test", "b.test"), alias("b.test", "market.test")];
    let (host, service) = ("market.test:9000", "_who._tcp.test");
    let cases = [
        (service, Reply::Failure, "cannot answer for _who._tcp.test at the moment (SERVFAIL)"),
        (service, records(&[]), "_who._tcp.test has no SRV records"),
        (host, Reply::NoSuchName, "there is no name market.test (NXDOMAIN)"),
        (host, Reply::Failure, "cannot answer for market.test at the moment (SERVFAIL)"),
        (host, records(&[]), "market.test has no addresses, though there is such a name"),
        (host, Reply::Records(1, looped), "market.test is an alias that leads to itself"),
        (
            host,
            Reply::Records(1, vec![alias("market.test", "b.test")]),
            "market.test is an alias of b.test, which has no addresses",
        ),
    ];
    std::thread::scope(|scope| {
        for (name, reply, said) in cases {
            scope.spawn(move || {
                let names = NameServer::start(reply);
                let source = format!("dns://{name}?server={}", names.at);
                let (_who, client) = connect(&source);
                eventually("it fails", || stats(&client).failures > 0);
                let why = stats(&client).last_error;
                assert!(why.contains(said), "{why}");
            });
        }
    });
}

#[test]
fn a_service_that_is_not_available_has_no_hosts() {
    let target = ("a.test", Record::Address(Ipv4Addr::LOCALHOST));
    let service = |target| ("_who._tcp.test", Record::Service(0, 0, 9000, target));
    let names = NameServer::start(Reply::Records(1, vec![target, service("a.test")]));
    let (_who, client) = connect(&format!("dns://_who._tcp.test?server={}", names.at));
    eventually("it is found", || stats(&client).hosts == 1);
    names.reply(Reply::Records(1, vec![service(".")]));
    eventually("it is believed to be gone", || stats(&client).hosts == 0);
    eventually("and why", || stats(&client).last_error.contains("is not available there"));
}

#[test]
fn services_of_a_name() {
    let (first, second) = (Named::new("first"), Named::new("second"));
    let servers = [first.start(), second.start()];
    let ports = servers.each_ref().map(|server| port(&address(server)));
    let target = ("a.test", Record::Address(Ipv4Addr::LOCALHOST));
    let service = |priority, weight, at: usize| {
        ("_who._tcp.test", Record::Service(priority, weight, ports[at], "a.test"))
    };
    let both = vec![target.clone(), service(1, 300, 0), service(1, 100, 1)];
    let names = NameServer::start(Reply::Records(1, both));
    let (who, client) = connect(&format!("dns://_who._tcp.test?server={}", names.at));
    who.who().wait().expect("an answer");
    assert_eq!(stats(&client).hosts, 2);
    // The second has a later turn.
    let one = vec![target, service(1, 300, 0), service(2, 100, 1)];
    names.reply(Reply::Records(1, one));
    eventually("only the first is used", || stats(&client).hosts == 1);
    answered_by(&who, "first");
    assert!(first.calls.load(Ordering::SeqCst) > 0);
    servers.into_iter().for_each(end);
}

#[test]
fn targets_of_services_that_cannot_be_looked_up_keep_their_addresses() {
    let (here, moved) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 77));
    let services = [("a.test", 9001), ("b.test", 9002)];
    let of = |targets: [Record; 2]| {
        let names = services
            .iter()
            .map(|(target, port)| ("_who._tcp.test", Record::Service(1, 1, *port, target)));
        let targets = services.iter().zip(targets).map(|((target, _), record)| (*target, record));
        Reply::Records(1, names.chain(targets).collect())
    };
    let names = NameServer::start(of([Record::Address(here), Record::Failure]));
    let (_who, client) = connect(&format!("dns://_who._tcp.test?server={}", names.at));
    // What was never found has no addresses to keep, and keeps nobody from calling the others.
    eventually("one is found", || stats(&client).hosts == 1 && stats(&client).failures > 0);
    names.reply(of([Record::Address(here), Record::Address(here)]));
    eventually("both are found", || {
        (stats(&client).hosts, stats(&client).state) == (2, ResolverState::Current)
    });
    names.reply(of([Record::Address(moved), Record::Failure]));
    eventually("the other fails", || stats(&client).state == ResolverState::Failing);
    let ResolverStats { hosts, last_error, .. } = stats(&client);
    assert_eq!(hosts, 2, "{last_error}");
    assert!(last_error.contains("b.test"), "{last_error}");
    // The first one is not held up: when the other is gone, its new address is there.
    let [first, _] = services;
    let only = ("_who._tcp.test", Record::Service(1, 1, first.1, first.0));
    names.reply(Reply::Records(1, vec![only, (first.0, Record::Address(moved))]));
    eventually("the other is not named", || {
        (stats(&client).hosts, stats(&client).state) == (1, ResolverState::Current)
    });
}

#[test]
fn names_of_the_system() {
    let named = Named::new("first");
    let server = named.start();
    // The file of hosts has this one on every machine.
    let (who, _) = connect(&format!("dns://localhost:{}", port(&address(&server))));
    assert_eq!(who.who().wait().expect("an answer"), "first");
    end(server);
}

#[test]
fn malformed_addresses_are_refused_at_once() {
    install();
    for (source, said) in [
        ("local://", "write local://service"),
        ("etcd://127.0.0.1:2379", "write etcd://host:port,host:port/service"),
        ("etcd://127.0.0.1:2379/", "write etcd://host:port,host:port/service"),
        ("etcd://127.0.0.1/market", "the port is missing"),
        ("etcd://ada:sesame@127.0.0.1:2379/market", "`EtcdConfig::user`"),
        ("file://hosts", "three slashes"),
        ("dns://market", "write dns://host:port"),
    ] {
        let status = Client::connect(source).expect_err(source);
        assert!(status.is_invalid_argument() && status.message().contains(said), "{status}");
    }
}
