//! Hedging: which server gets the second attempt, what it costs, which attempt wins.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Call, Client, Codec, Kind, Method, MethodSnapshot, Policy, Side, Status};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, sleep, timeout};
use ringway_wire::native::Config;

use crate::support::hand_server::{HandConnection, HandServer, Request};

static QUOTE: Method = Method::new("test.Test/Quote", Kind::Unary).idempotent();
static ORDER: Method = Method::new("test.Test/Order", Kind::Unary);

/// Calls after which the latency of a method is known.
const CALLS_SEEN: usize = 100;

/// Two servers; the first can be told to hold its calls.
struct Two {
    slow: HandServer,
    other: HandServer,
    holds: Rc<Cell<bool>>,
    client: Client,
}

impl Two {
    fn start() -> Result<Self, Status> {
        let holds = Rc::new(Cell::new(false));
        let slow = HandServer::start(Config::default(), {
            let holds = Rc::clone(&holds);
            Rc::new(move |connection, request: Request| {
                if !holds.get() {
                    connection.echo(request);
                }
            })
        });
        let other = HandServer::echo();
        let builder = Client::builder().address(slow.url()).address(other.url());
        let client = builder.balance(Policy::RoundRobin).build()?;
        Ok(Self { slow, other, holds, client })
    }

    fn call(&self, method: &'static Method) -> Call<Bytes> {
        let request = Bytes::from_static(b"hello");
        self.client.unary(method, Codec::raw(), Codec::raw(), request)
    }

    /// Makes the latency of a method known.
    async fn warm_up(&self, method: &'static Method) -> Result<(), Status> {
        for _ in 0..=CALLS_SEEN {
            assert_eq!(self.call(method).idempotent().hedge().await?, "hello");
        }
        Ok(())
    }

    fn counts(&self, method: &Method) -> MethodSnapshot {
        let metrics = self.client.metrics();
        metrics.method(Side::Client, method.name()).expect("it was called").clone()
    }

    fn cancelled(&self) -> usize {
        self.slow.connection(0).cancelled.borrow().len()
    }
}

#[test]
fn slow_call_is_hedged_on_the_other_server() {
    run(async {
        let two = Two::start()?;
        two.warm_up(&QUOTE).await?;
        let before = two.counts(&QUOTE);
        two.holds.set(true);
        let held_before = two.slow.requests();
        for _ in 0..8 {
            assert_eq!(two.call(&QUOTE).hedge().await?, "hello");
        }
        let held = two.slow.requests() - held_before;
        assert!(held >= 4, "every other call goes there first: {held}");
        let counts = two.counts(&QUOTE);
        assert_eq!(counts.started - before.started, 8, "a call counts once");
        assert_eq!((counts.errors(), counts.in_flight(), counts.retries), (0, 0, 0));
        assert!(counts.hedges - before.hedges >= held as u64, "{counts:?}");
        two.slow.until(|_| two.cancelled() == held).await;
        Ok(())
    });
}

#[test]
fn calls_that_are_not_idempotent_are_not_hedged() {
    run(async {
        let two = Two::start()?;
        two.warm_up(&ORDER).await?;
        let hedges = two.counts(&ORDER).hedges;
        two.holds.set(true);
        let limit = Duration::from_millis(50);
        let (mut held, others) = (0, two.other.requests());
        for _ in 0..4 {
            held += usize::from(two.call(&ORDER).hedge().timeout(limit).await.is_err());
        }
        assert!(held >= 2, "{held}");
        assert_eq!(two.other.requests() - others, 4 - held);
        assert_eq!(two.counts(&ORDER).hedges, hedges);
        Ok(())
    });
}

#[test]
fn call_from_another_thread_is_hedged() {
    run(async {
        let two = Two::start()?;
        let client = two.client.clone();
        let call = move || {
            let request = Bytes::from_static(b"hello");
            client.unary(&QUOTE, Codec::raw(), Codec::raw(), request).hedge().wait()
        };
        let there = call.clone();
        let warm_up = move || (0..=CALLS_SEEN).try_for_each(|_| there().map(drop));
        elsewhere(warm_up).await?;
        two.holds.set(true);
        elsewhere(move || (0..4).try_for_each(|_| call().map(drop))).await?;
        assert!(two.counts(&QUOTE).hedges >= 2);
        Ok(())
    });
}

#[test]
fn hedges_are_limited_by_the_budget() {
    run(async {
        let two = Two::start()?;
        two.warm_up(&QUOTE).await?;
        two.holds.set(true);
        let limit = Duration::from_millis(100);
        let calls: Vec<_> = (0..60)
            .map(|_| ringway_runtime::spawn(two.call(&QUOTE).hedge().timeout(limit)))
            .collect();
        let mut held = 0;
        for call in calls {
            held += u64::from(call.await.expect("no panic").is_err());
        }
        let counts = two.counts(&QUOTE);
        let afforded = 10 + counts.started / 10;
        assert!(counts.hedges <= afforded, "{} of {afforded}", counts.hedges);
        assert!(counts.over_budget > 0 && held > 0, "{counts:?}");
        assert_eq!(counts.in_flight(), 0);
        Ok(())
    });
}

/// Runs `what` on a thread that may block, while this core serves.
async fn elsewhere(
    what: impl FnOnce() -> Result<(), Status> + Send + 'static,
) -> Result<(), Status> {
    ringway_runtime::spawn_blocking(what).expect("room").await.expect("no panic")
}

fn run(test: impl Future<Output = Result<(), Status>> + 'static) {
    let limit = Duration::from_secs(20);
    let outcome = ringway_runtime::block_on(async move { timeout(limit, test).await });
    outcome.expect("a core").expect("in time").expect("success");
}

#[test]
fn hedge_goes_to_another_server_if_there_is_one() {
    let ended = Builder::simulate(SimConfig::new(1), async {
        let two = Two::start()?;
        two.warm_up(&QUOTE).await?;
        two.holds.set(true);
        two.other.kill();
        sleep(Duration::from_millis(10)).await;
        let (before, hedges) = (two.slow.requests(), two.counts(&QUOTE).hedges);
        let limit = Duration::from_millis(100);
        two.call(&QUOTE).hedge().timeout(limit).await.expect_err("it is held");
        assert_eq!(two.slow.requests() - before, 1, "one attempt");
        assert_eq!(two.counts(&QUOTE).hedges, hedges);
        Ok::<_, Status>(())
    });
    ended.expect("a simulation").expect("success");
}

/// Requests that a server holds, to be answered later.
type Held = Rc<RefCell<Vec<(Rc<HandConnection>, Request)>>>;

/// Makes a server that allows `max_streams` calls and holds them while `holds` is set.
fn holding(max_streams: u32, holds: &Rc<Cell<bool>>) -> (HandServer, Held) {
    let mut config = Config::default();
    config.settings.max_streams = max_streams;
    let held = Held::default();
    let server = HandServer::start(config, {
        let (holds, held) = (Rc::clone(holds), Rc::clone(&held));
        Rc::new(move |connection, request: Request| match holds.get() {
            true => held.borrow_mut().push((Rc::clone(connection), request)),
            false => connection.echo(request),
        })
    });
    (server, held)
}

#[test]
fn hedge_without_room_is_made_when_there_is_room() {
    let ended = Builder::simulate(SimConfig::new(1), async {
        let holds = Rc::new(Cell::new(false));
        let ((slow, _), (other, held)) = (holding(100, &holds), holding(1, &holds));
        let builder = Client::builder().address(slow.url()).address(other.url());
        let client = builder.balance(Policy::RoundRobin).connections_max(1).build()?;
        let two = Two { slow, other, holds, client };
        two.warm_up(&QUOTE).await?;
        two.holds.set(true);
        let _held = [(); 2].map(|()| ringway_runtime::spawn(two.call(&QUOTE)));
        two.other.until(|_| held.borrow().len() == 1).await;
        let (before, hedges) = (two.slow.requests(), two.counts(&QUOTE).hedges);
        let limit = Duration::from_secs(2);
        let hedged = ringway_runtime::spawn(two.call(&QUOTE).hedge().timeout(limit));
        two.slow.until(|slow| slow.requests() == before + 1).await;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(two.counts(&QUOTE).hedges, hedges, "the other server is full");
        two.holds.set(false);
        held.borrow_mut().drain(..).for_each(|(connection, request)| connection.echo(request));
        assert_eq!(hedged.await.expect("no panic")?, "hello");
        assert_eq!(two.counts(&QUOTE).hedges, hedges + 1);
        Ok::<_, Status>(())
    });
    ended.expect("a simulation").expect("success");
}
