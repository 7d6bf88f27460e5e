//! Clients of servers that are overloaded and have told how many calls they take, on virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{Code, Status, service};
use ringway_runtime::sync::Semaphore;
use ringway_runtime::{now, sleep, spawn};

const MS: Duration = Duration::from_millis(1);

#[service(package = "busy.v1", crate = "ringway_rpc")]
trait Hidden {
    /// Holds one of the permits that all calls share.
    async fn hold(&self, number: u64) -> Result<u64, Status>;
}

struct Resource {
    permits: Semaphore,
    held: Duration,
}

impl Hidden for Resource {
    async fn hold(&self, number: u64) -> Result<u64, Status> {
        let _permit = self.permits.acquire(1).await;
        sleep(self.held).await;
        Ok(number)
    }
}

/// A load of calls with a deadline of a second.
#[derive(Clone, Copy)]
struct Overload {
    permits: u32,
    held: Duration,
    /// The calls that come each millisecond, as many as the resource can take in four.
    calls_each_ms: u64,
    length_ms: u64,
}

/// How calls have ended, and after how long.
#[derive(Default)]
struct Seen {
    done: Vec<Duration>,
    refused: Vec<Duration>,
    others: Vec<Status>,
}

impl Seen {
    fn note(&mut self, outcome: Result<u64, Status>, took: Duration) {
        match outcome {
            Ok(_) => self.done.push(took),
            Err(status) if status.code() == Code::ResourceExhausted => {
                assert!(status.is_not_executed(), "{status:?}");
                self.refused.push(took);
            }
            Err(status) => self.others.push(status),
        }
    }
}

async fn offer(load: Overload) -> Result<Seen, Status> {
    let Overload { permits, held, calls_each_ms, length_ms } = load;
    let make = move || Resource { permits: Semaphore::new(permits), held };
    let server = TestServer::start_with(|server| {
        server.service(HiddenServer::per_core(make)).adaptive_concurrency()
    })?;
    let [client] = server.clients(HiddenClient::new)?;
    let seen = Rc::<RefCell<Seen>>::default();
    let mut calls = Vec::new();
    for number in 0..length_ms * calls_each_ms {
        let (seen, begun) = (Rc::clone(&seen), now());
        let call = client.hold(number).timeout(Duration::from_secs(1));
        calls.push(spawn(async move {
            let outcome = call.await;
            seen.borrow_mut().note(outcome, now() - begun);
        }));
        if number % calls_each_ms == 0 {
            sleep(MS).await;
        }
    }
    for call in calls {
        call.await?;
    }
    Ok(seen.take())
}

#[track_caller]
fn check(load: Overload) {
    let mut seen = simulate(5, offer(load)).expect("it ends");
    let Seen { done, refused, others } = &mut seen;
    done.sort_unstable();
    refused.sort_unstable();
    let quantile = |of: &[Duration], percent: usize| of[(of.len() - 1) * percent / 100];
    let (p50, p99, longest) = (quantile(done, 50), quantile(done, 99), quantile(refused, 100));
    let offered = load.length_ms * load.calls_each_ms;
    println!(
        "{offered} offered: {} done, p50 {p50:?}, p99 {p99:?}; {} refused after {:?}, at most {longest:?}; {} others",
        done.len(),
        refused.len(),
        quantile(refused, 50),
        others.len()
    );
    assert!(others.is_empty(), "{:?}", others[0]);
    assert!(done.len() as u64 * 100 >= offered / 4 * 90, "{} of {offered} done", done.len());
    assert!(p99 <= 10 * p50, "{p50:?}, {p99:?}");
    // One that was sent after it had waited may wait in the server's queue as well.
    assert!(longest <= 150 * MS, "{longest:?}");
}

#[test]
fn calls_beyond_a_shared_resource_are_refused_soon() {
    check(Overload { permits: 64, held: 20 * MS, calls_each_ms: 13, length_ms: 3_000 });
}

#[test]
fn calls_beyond_what_one_after_the_other_takes_are_refused_soon() {
    check(Overload { permits: 1, held: MS, calls_each_ms: 4, length_ms: 10_000 });
}

#[test]
fn the_refusal_says_why_and_what_to_do() {
    let ended = simulate(6, async {
        let make = || Resource { permits: Semaphore::new(8), held: 20 * MS };
        let server = TestServer::start_with(|server| {
            server.service(HiddenServer::per_core(make)).adaptive_concurrency()
        })?;
        let [client] = server.clients(HiddenClient::new)?;
        let told = Rc::<RefCell<Vec<Status>>>::default();
        for number in 0..4_000 {
            let (told, call) = (Rc::clone(&told), client.hold(number));
            spawn(async move {
                let refused = call.await.err();
                told.borrow_mut().extend(refused);
            });
            sleep(MS / 2).await;
        }
        Ok(told.take())
    });
    let told = ended.expect("it ends");
    let by_client = told.iter().find(|status| status.message().contains("waited"));
    let status = by_client.expect("the client refuses some");
    assert!(status.is_resource_exhausted() && status.is_not_executed(), "{status:?}");
    for part in ["busy.v1.Hidden/Hold", "is overloaded", "ms in the client", "Make fewer"] {
        assert!(status.message().contains(part), "{status}");
    }
}
