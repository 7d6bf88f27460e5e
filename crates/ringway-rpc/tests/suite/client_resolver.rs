//! Clients whose hosts come from a resolver: the first list, changes, failures, hostile lists, the list on disk.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    Call, CallOptions, Client, ClientBuilder, Codec, Host, HostStatus, HostUpdates, Kind, Method,
    Policy, Resolver, ResolverState, ResolverStats, Resolving, ServerHandle, Status, Verdict,
    register_scheme,
};

use crate::support::alone::{NoForks, alone};
use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end, eventually};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
static LATE: Method = Method::new("echo.Echo/Late", Kind::Unary);

const RAW: Codec<Bytes> = Codec::raw();

/// A source that says what the test wants.
#[derive(Clone, Default)]
struct Source(Arc<Shared>);

#[derive(Default)]
struct Shared {
    news: Mutex<News>,
    /// The verdicts on the lists so far.
    verdicts: Mutex<Vec<Verdict>>,
    dropped: AtomicUsize,
}

#[derive(Default)]
struct News {
    queue: VecDeque<Said>,
    waker: Option<Waker>,
}

enum Said {
    List(Vec<Result<Host, Status>>),
    Failure(&'static str),
    Panic,
}

/// Counts when the resolver's future is dropped.
struct CountDrop(Source);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Resolver for Source {
    fn name(&self) -> String {
        "test://source".to_owned()
    }

    fn run(self: Box<Self>, updates: HostUpdates) -> Resolving {
        Box::pin(async move {
            let counted = CountDrop(*self);
            loop {
                let next = poll_fn(|cx| {
                    let mut news = counted.0.0.news.lock().expect("no panic");
                    news.waker = Some(cx.waker().clone());
                    news.queue.pop_front().map_or(Poll::Pending, Poll::Ready)
                });
                match next.await {
                    Said::List(list) => {
                        let verdict = updates.set(list);
                        counted.0.0.verdicts.lock().expect("no panic").push(verdict);
                    }
                    Said::Failure(why) => updates.failed(why),
                    Said::Panic => panic!("as the test wants"),
                }
            }
        })
    }
}

impl Source {
    fn say(&self, said: Said) {
        let mut news = self.0.news.lock().expect("no panic");
        news.queue.push_back(said);
        let waker = news.waker.take();
        drop(news);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Tells a list, and waits until the client has it.
    fn list(&self, list: Vec<Result<Host, Status>>) -> Verdict {
        let before = self.0.verdicts.lock().expect("no panic").len();
        self.say(Said::List(list));
        eventually("the list is taken", || {
            self.0.verdicts.lock().expect("no panic").len() > before
        });
        *self.0.verdicts.lock().expect("no panic").last().expect("a verdict")
    }

    fn hosts(&self, hosts: &[Host]) -> Verdict {
        self.list(hosts.iter().cloned().map(Ok).collect())
    }

    /// Tells a list that the client takes.
    fn tells(&self, hosts: &[Host]) {
        assert_eq!(self.hosts(hosts), Verdict::Taken);
    }

    fn client(&self, set: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        let options = CallOptions::new().timeout(LIMIT);
        let builder = Client::builder().resolver(self.clone()).options(options);
        set(builder.balance(Policy::RoundRobin)).build().expect("a client")
    }
}

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

    fn host(&self) -> Host {
        Host::new(&self.handle.addresses()[0]).expect("an address")
    }

    fn calls(&self) -> usize {
        self.echo.seen.begun.load(Ordering::SeqCst)
    }
}

fn say(client: &Client) -> Call<Bytes> {
    client.unary(&SAY, RAW, RAW, Bytes::from_static(b"hello"))
}

fn call(client: &Client) {
    say(client).wait().expect("an answer");
}

/// How many of 40 calls each server gets, after all are connected.
fn shares<const N: usize>(client: &Client, servers: [&Seen; N]) -> [usize; N] {
    (0..100).for_each(|_| call(client));
    let before = servers.map(Seen::calls);
    (0..40).for_each(|_| call(client));
    std::array::from_fn(|at| servers[at].calls() - before[at])
}

fn stats(client: &Client) -> ResolverStats {
    client.resolver_stats().expect("it has a resolver")
}

/// A host at an address where nobody listens.
fn nobody() -> Host {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    Host::new(free.local_addr().expect("it is bound")).expect("an address")
}

/// The path of a file that does not exist.
fn path(name: &str) -> PathBuf {
    let name = format!("ringway-resolver-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _not_there = std::fs::remove_file(&path);
    path
}

#[test]
fn calls_wait_for_the_first_list_and_follow_later_ones() {
    let (source, first, second) = (Source::default(), Seen::start(), Seen::start());
    let client = source.client(|it| it);
    let waiting: Vec<_> = (0..10).map(|_| say(&client)).collect();
    let waiting = std::thread::spawn(move || {
        waiting.into_iter().for_each(|call| drop(call.wait().expect("an answer")));
    });
    assert_eq!(stats(&client).state, ResolverState::Waiting);
    assert_eq!(source.hosts(&[first.host()]), Verdict::Taken);
    waiting.join().expect("they are answered");
    assert_eq!(first.calls(), 10);
    source.tells(&[first.host(), second.host().weight(3)]);
    assert_eq!(shares(&client, [&first, &second]), [10, 30]);
    source.tells(&[second.host()]);
    assert_eq!(shares(&client, [&first, &second]), [0, 40]);
    let known = stats(&client);
    assert_eq!((known.state, known.hosts, known.updates), (ResolverState::Current, 1, 3));
    [first, second].into_iter().for_each(|server| end(server.handle));
}

#[test]
fn a_call_without_a_list_fails_at_its_deadline_and_says_why() {
    let source = Source::default();
    let client = source.client(|it| it).with(CallOptions::new().timeout(Duration::from_millis(50)));
    let status = say(&client).wait().expect_err("no server");
    assert!(status.is_deadline_exceeded(), "{status}");
    assert!(status.message().contains("test://source is known: it has not answered"), "{status}");
    source.say(Said::Failure("the registry is on fire"));
    eventually("the failure is seen", || stats(&client).failures == 1);
    let status = say(&client).wait().expect_err("no server");
    assert!(status.message().contains("the registry is on fire"), "{status}");
    assert_eq!(source.list(Vec::new()), Verdict::Taken);
    let status = say(&client).wait().expect_err("no server");
    assert!(status.message().contains("it lists no servers"), "{status}");
}

#[test]
fn draining_hosts_finish_their_calls_and_get_no_new_ones() {
    let (source, first, second) = (Source::default(), Seen::start(), Seen::start());
    let client = source.client(|it| it);
    source.tells(&[first.host()]);
    let late = client.unary(&LATE, RAW, RAW, Bytes::from_static(b"300"));
    let late = std::thread::spawn(move || late.wait());
    call(&client);
    eventually("the late call runs", || first.handle.stats().in_flight > 0);
    source.tells(&[first.host().status(HostStatus::Draining), second.host()]);
    let before = first.calls();
    (0..50).for_each(|_| call(&client));
    assert_eq!((first.calls(), second.calls()), (before, 50));
    assert_eq!(late.join().expect("no panic").expect("it finishes"), Bytes::from_static(b"300"));
    eventually("its connection is closed", || first.handle.net().stats().open == 0);
    [first, second].into_iter().for_each(|server| end(server.handle));
}

#[test]
fn failures_of_the_source_and_its_end_keep_the_list() {
    let (source, server) = (Source::default(), Seen::start());
    let client = source.client(|it| it);
    source.tells(&[server.host()]);
    source.say(Said::Failure("it is down"));
    eventually("the failure is seen", || stats(&client).state == ResolverState::Failing);
    call(&client);
    source.tells(&[server.host()]);
    assert_eq!((stats(&client).state, &*stats(&client).last_error), (ResolverState::Current, ""));
    source.say(Said::Panic);
    eventually("it has panicked", || source.0.dropped.load(Ordering::SeqCst) == 1);
    eventually("nobody keeps the list up to date", || {
        stats(&client).state == ResolverState::Failing
    });
    let why = stats(&client).last_error;
    assert!(why.contains("has panicked"), "{why}");
    call(&client);
    end(server.handle);
}

#[test]
fn a_resolver_ends_with_its_client() {
    let (source, server) = (Source::default(), Seen::start());
    let client = source.client(|it| it);
    source.tells(&[server.host()]);
    let clone = client.clone();
    drop(client);
    call(&clone);
    assert_eq!(source.0.dropped.load(Ordering::SeqCst), 0);
    drop(clone);
    eventually("it is dropped", || source.0.dropped.load(Ordering::SeqCst) == 1);
    end(server.handle);
}

#[test]
fn a_list_that_collapses_is_held_until_it_is_confirmed() {
    let source = Source::default();
    let servers = [(); 3].map(|()| Seen::start());
    let client = source.client(|it| it);
    source.tells(&servers.each_ref().map(Seen::host));
    assert_eq!(source.hosts(&[]), Verdict::Held);
    let known = stats(&client);
    assert_eq!((known.state, known.hosts, known.listed), (ResolverState::Held, 3, 0));
    call(&client);
    assert_eq!(source.hosts(&[servers[0].host()]), Verdict::Held);
    let begun = std::time::Instant::now();
    eventually("it is time to confirm", || begun.elapsed() > HostUpdates::CONFIRM_AFTER);
    assert_eq!(source.hosts(&[servers[0].host()]), Verdict::Taken);
    assert_eq!((stats(&client).state, stats(&client).hosts), (ResolverState::Current, 1));
    servers.into_iter().for_each(|server| end(server.handle));
}

#[test]
fn held_hosts_leave_when_they_cannot_be_reached() {
    let source = Source::default();
    let (stays, goes) = (Seen::start(), [Seen::start(), Seen::start()]);
    let client = source.client(|it| it);
    source.tells(&[stays.host(), goes[0].host(), goes[1].host()]);
    while goes.iter().any(|server| server.calls() == 0) {
        call(&client);
    }
    assert_eq!(source.hosts(&[stays.host()]), Verdict::Held);
    goes.into_iter().for_each(|server| end(server.handle));
    eventually("only the listed one is left", || {
        call(&client);
        stats(&client).hosts == 1
    });
    assert_eq!(stats(&client).state, ResolverState::Current);
    end(stays.handle);
}

#[test]
fn hostile_lists_neither_end_nor_empty_a_client() {
    let (source, server) = (Source::default(), Seen::start());
    let client = source.client(|it| it);
    source.tells(&[server.host()]);
    let wrong = || Host::new("ftp://10.0.0.1:1");
    assert_eq!(source.list((0..100).map(|_| wrong()).collect()), Verdict::Refused);
    let known = stats(&client);
    assert_eq!((known.state, known.hosts), (ResolverState::Failing, 1));
    assert!(known.last_error.contains("none of the 100 entries"), "{}", known.last_error);
    call(&client);
    // Wrong addresses, wrong weights, another protocol, a datagram socket, and one host many times.
    let mut mixed = vec![wrong(), Host::new("http://10.0.0.1:1"), Host::new("udp://10.0.0.1:1")];
    mixed.extend([0, u32::MAX, 7].map(|weight| Ok(server.host().weight(weight))));
    assert_eq!(source.list(mixed), Verdict::Taken);
    let known = stats(&client);
    assert_eq!((known.state, known.hosts, known.skipped), (ResolverState::Current, 1, 3));
    call(&client);
    end(server.handle);
}

#[test]
fn endless_lists_are_cut_and_a_subset_is_called() {
    let source = Source::default();
    let client = source.client(|it| it.subset(10));
    let host = |at: u32| Host::new(format!("tcp://10.{}.{}.1:1", at / 256, at % 256));
    assert_eq!(source.list((0..70_000).map(host).collect()), Verdict::Taken);
    let known = stats(&client);
    assert_eq!((known.listed, known.skipped, known.hosts), (65_536, 70_000 - 65_536, 10));
}

#[test]
fn entries_that_are_not_looked_at_are_counted() {
    let source = Source::default();
    let client = source.client(|it| it);
    let again = (0..200_000).map(|_| Host::new("tcp://10.0.0.1:1"));
    assert_eq!(source.list(again.collect()), Verdict::Taken);
    let known = stats(&client);
    assert_eq!((known.hosts, known.skipped), (1, 200_000 - 2 * 65_536));
    assert!(known.last_error.contains("the first 131072 entries"), "{}", known.last_error);
}

#[test]
fn servers_of_the_own_zone_are_preferred_and_others_take_over() {
    let (source, near, far) = (Source::default(), Seen::start(), Seen::start());
    let client = source.client(|it| it.zone("here"));
    source.tells(&[near.host().zone("here"), far.host().zone("there").weight(100)]);
    assert_eq!(shares(&client, [&near, &far]), [40, 0]);
    end(near.handle);
    let mut failed = 0;
    while far.calls() < 20 {
        failed += usize::from(say(&client).wait().is_err());
        assert!(failed < 2, "the connection is known to be lost");
    }
    end(far.handle);
}

#[test]
fn a_filter_chooses_by_what_is_known_of_hosts() {
    let (source, old, new) = (Source::default(), Seen::start(), Seen::start());
    let client = source.client(|it| it.only(|host| host.metadata("canary") == Some("yes")));
    source.tells(&[old.host(), new.host().with("canary", "yes")]);
    assert_eq!(shares(&client, [&old, &new]), [0, 40]);
    [old, new].into_iter().for_each(|server| end(server.handle));
}

#[test]
fn the_last_list_is_kept_on_disk_for_a_start_without_the_source() {
    let (path, server) = (path("kept"), Seen::start());
    let source = Source::default();
    let client = source.client(|it| it.last_known(&path));
    source.tells(&[server.host().zone("a").with("rack", "7")]);
    call(&client);
    eventually("it is written", || path.exists());
    drop(client);

    let source = Source::default();
    let client = source.client(|it| it.last_known(&path).zone("a"));
    source.say(Said::Failure("it is down"));
    call(&client);
    let known = stats(&client);
    assert_eq!((known.state, known.hosts, known.updates), (ResolverState::Stale, 1, 0));
    // The list of the source replaces it, and an empty one has to be confirmed.
    assert_eq!(source.hosts(&[]), Verdict::Held);
    assert_eq!(source.hosts(&[server.host()]), Verdict::Taken);
    assert_eq!(stats(&client).state, ResolverState::Current);
    drop(client);
    std::fs::remove_file(&path).expect("it was written");
    end(server.handle);
}

#[test]
fn a_list_that_is_held_back_does_not_keep_the_one_before_it_from_the_disk() {
    let (path, server) = (path("held"), Seen::start());
    let source = Source::default();
    let client = source.client(|it| it.last_known(&path));
    source.tells(&[server.host()]);
    eventually("it is written", || path.exists());
    // The next write comes a second later, or when the client ends.
    let other = Host::new("tcp://10.255.0.1:1").expect("an address");
    assert_eq!(source.hosts(&[server.host(), other]), Verdict::Taken);
    assert_eq!(source.hosts(&[]), Verdict::Held);
    drop(client);
    eventually("the last good list is written", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.contains("10.255.0.1"))
    });
    std::fs::remove_file(&path).expect("it was written");
    end(server.handle);
}

#[test]
fn a_damaged_or_foreign_file_is_not_used() {
    for content in ["", "{", "[]", r#"{"source":"other","hosts":[]}"#, "\u{0}\u{0}"] {
        let path = path("damaged");
        std::fs::write(&path, content).expect("a place for it");
        let (source, server) = (Source::default(), Seen::start());
        let client = source.client(|it| it.last_known(&path));
        source.say(Said::Failure("it is down"));
        eventually("the failure is seen", || stats(&client).failures == 1);
        assert_eq!(stats(&client).state, ResolverState::Waiting, "{content}");
        source.tells(&[server.host()]);
        call(&client);
        drop(client);
        eventually("the list replaces it", || {
            std::fs::read_to_string(&path).expect("it is there").contains("tcp://127")
        });
        std::fs::remove_file(&path).expect("it was written");
        end(server.handle);
    }
}

#[test]
fn unreachable_hosts_fail_calls_at_once() {
    let _no_forks = NoForks::begin();
    let source = Source::default();
    let client = source.client(|it| it);
    source.tells(&[nobody()]);
    let status = say(&client).wait().expect_err("nobody listens");
    assert!(status.is_unavailable() && status.is_not_executed(), "{status}");
}

#[test]
fn schemes_make_resolvers() {
    alone(|| {
        for (address, said) in [
            ("local://market", "ringway_discovery::install()"),
            ("ftp://market", "is not an address"),
        ] {
            let status = Client::connect(address).expect_err("unknown");
            assert!(status.message().contains(said), "{status}");
        }
        let mixed = ["dns://market:1", "tcp://10.0.0.1:1"];
        let status = Client::connect(mixed).expect_err("not together");
        assert!(status.message().contains("names a service"), "{status}");
        register_scheme("fixed", |address| {
            let source = Source::default();
            source.say(Said::List(vec![Host::new(address.replace("fixed", "tcp"))]));
            Ok(Box::new(source))
        });
        let server = Seen::start();
        let address = server.handle.addresses()[0].to_string().replace("tcp", "fixed");
        let client = Client::connect(&*address).expect("the scheme is known");
        call(&client);
        let both = Client::builder().address("tcp://10.0.0.1:1").source("fixed://a:1").build();
        let status = both.expect_err("either");
        assert!(status.message().contains("either addresses"), "{status}");
        let status = client.set_hosts([server.host()]).expect_err("they come from the source");
        assert!(status.message().contains("test://source"), "{status}");
        end(server.handle);
    });
}
