//! The whole runtime over simulations: executor, timers, streams, listeners.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use socket2::SockAddr;

use super::lab::inet;
use crate::driver::sim::{Faults, SimConfig};
use crate::io::{ListenOptions, Listener, Stream};
use crate::sync::Notify;
use crate::{now, sleep, spawn, spawn_named, timeout, yield_now};

const CLIENTS: usize = 3;

/// More than fits between the ends, so that sends wait for readers.
const CLIENT_BYTES: usize = 100_000;

#[test]
fn echo_servers_survive_harsh_faults() {
    for seed in 0..60 {
        let config = SimConfig { socket_buffer_bytes: 8 * 1024, ..SimConfig::harsh(seed) };
        simulate(config, echo_scenario()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn broken_connections_are_errors_not_hangs() {
    let faults = Faults {
        resets: 500,
        lossy_resets: 500,
        connects_refused: 100,
        connects_lost: 100,
        ..Faults::harsh()
    };
    let mut failed = 0;
    for seed in 0..60 {
        let config = SimConfig { faults, ..SimConfig::new(seed) };
        if let Err(error) = simulate(config, echo_scenario()) {
            assert!(!error.to_string().contains("stuck"), "seed {seed}: {error}");
            failed += 1;
        }
    }
    assert!(failed > 0, "no connection broke");
}

#[test]
fn timers_run_on_virtual_time() {
    let config = SimConfig::new(1);
    let day = Duration::from_secs(24 * 3_600);
    let slept = simulate(config, async move {
        let listener = Listener::bind(&inet("127.0.0.1:0"), ListenOptions::default())?;
        let start = now();
        let nobody = timeout(day, listener.accept()).await;
        assert!(nobody.is_err(), "nobody connects");
        Ok(now() - start)
    });
    let slept = slept.unwrap();
    assert!(slept >= day && slept < day + Duration::from_millis(10), "{slept:?}");
}

#[test]
fn a_task_that_nothing_will_wake_is_named_stuck() {
    let error = simulate(SimConfig::new(77), async {
        let listener = Listener::bind(&inet("127.0.0.1:0"), ListenOptions::default())?;
        listener.accept().await.map(drop)
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("stuck") && error.contains("seed 77"), "{error}");
}

/// Runs a task that never lets the clock move beside one that only sleeps.
#[track_caller]
fn check_named(what: &'static str, spins: impl Future<Output = ()> + 'static) {
    let error = simulate(SimConfig::new(78), async move {
        sleep(Duration::from_millis(5)).await;
        spawn_named("an innocent", sleep(Duration::from_secs(1)));
        spawn_named(what, spins).await.map_err(io::Error::other)
    });
    let error = error.expect_err("it never ends").to_string();
    let tells = ["does not get on", what, "ms for", "seed 78"];
    assert!(tells.iter().all(|told| error.contains(told)), "{error}");
    assert!(!error.contains("an innocent"), "{error}");
}

#[test]
fn a_loop_that_stops_the_clock_is_named() {
    check_named("a task that yields", async {
        loop {
            yield_now().await;
        }
    });
    check_named(
        "a task that wakes itself",
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::Pending
        }),
    );
    check_named("tasks that wake each other", async {
        let (ping, pong) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let (told, tells) = (Rc::clone(&ping), Rc::clone(&pong));
        let _other = spawn_named("the other one", async move {
            loop {
                told.notified().await;
                tells.notify_one();
            }
        });
        loop {
            ping.notify_one();
            pong.notified().await;
        }
    });
}

#[test]
fn much_work_at_one_moment_is_no_loop() {
    let ended = simulate(SimConfig::new(1), async {
        let crowd: Vec<_> = (0..100_000).map(|_| spawn(yield_now())).collect();
        for one in crowd {
            one.await.map_err(io::Error::other)?;
        }
        for _ in 0..50_000 {
            yield_now().await;
        }
        sleep(Duration::from_millis(1)).await;
        for _ in 0..50_000 {
            yield_now().await;
        }
        Ok(())
    });
    ended.expect("it ends");
}

#[test]
fn a_seed_repeats_the_virtual_time_of_a_whole_program() {
    let run = |seed| {
        simulate(SimConfig::harsh(seed), async {
            let start = now();
            echo_scenario().await?;
            Ok(now() - start)
        })
        .unwrap()
    };
    assert_eq!(run(9), run(9));
    assert_ne!(run(9), run(10));
}

fn simulate<T: 'static>(
    config: SimConfig,
    main: impl Future<Output = io::Result<T>> + 'static,
) -> io::Result<T> {
    crate::runtime::Builder::simulate(config, main)?
}

async fn echo_scenario() -> io::Result<()> {
    let listener = Listener::bind(&inet("127.0.0.1:0"), ListenOptions::default())?;
    let addr = listener.local_addr().clone();
    let server = spawn(async move {
        loop {
            // Failed accepts are part of the faults; the listener goes on by itself.
            let Ok(accepted) = listener.accept().await else {
                continue;
            };
            let stream = accepted.into_stream(&Rc::default())?;
            spawn(echo(stream));
        }
    });
    let clients: Vec<_> = (0..CLIENTS).map(|number| spawn(client(number, addr.clone()))).collect();
    let mut outcome = Ok(());
    for client in clients {
        outcome = outcome.and(client.await.expect("no client panics"));
    }
    drop::<crate::JoinHandle<io::Result<()>>>(server);
    outcome
}

async fn echo(stream: Stream) -> io::Result<()> {
    while let Some(view) = stream.recv().await? {
        stream.send(view);
        stream.drained().await?;
    }
    stream.shutdown();
    stream.flushed().await
}

async fn client(number: usize, addr: SockAddr) -> io::Result<()> {
    let stream = timeout(Duration::from_secs(600), Stream::connect(&addr)).await??;
    let byte = move |at: usize| (at * 31 + number + (at >> 8)) as u8;
    stream.send((0..CLIENT_BYTES).map(byte).collect::<Vec<u8>>());
    stream.shutdown();
    let mut got = 0;
    while let Some(view) = stream.recv().await? {
        for &received in view.iter() {
            assert_eq!(received, byte(got), "client {number} at {got}");
            got += 1;
        }
    }
    assert_eq!(got, CLIENT_BYTES, "client {number}");
    Ok(())
}
