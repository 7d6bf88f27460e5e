//! Sleeping, timeouts and intervals: exact on the virtual clock, never early on a real one. The exact clock decides
//! what is early, because the clock of a turn stands still if a wait ends within the turn.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::net::TcpStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::sync::oneshot;
use ringway_runtime::{
    Backend, Deadline, Sleep, interval, now, now_exact, sleep, sleep_until, spawn, timeout,
    yield_now,
};

use crate::support::{Driver, block_on, listen, ms, poll_once};

on_every_driver!(
    sleepers_wake_in_the_order_of_their_deadlines,
    a_sleep_is_never_early,
    a_dropped_sleep_leaves_nothing_behind,
    a_reset_moves_the_end_of_a_sleep_both_ways,
    a_timeout_gives_the_output_of_what_is_done,
    an_elapsed_timeout_drops_its_future,
    an_interval_does_not_drift,
    an_interval_leaves_out_missed_ticks,
    ten_thousand_sleepers,
    what_is_longer_than_the_clock_never_ends,
);

mod kernel {
    use super::*;

    on_every_kernel_driver!(
        a_sleep_of_another_core_stops_no_timer_of_this_one,
        a_core_that_was_held_up_reads_what_has_come_before_its_timers_fire,
    );
}

/// The wheel's tick: no timer of an idle core fires later than this.
const TICK: Duration = Duration::from_millis(1);

async fn sleepers_wake_in_the_order_of_their_deadlines(_: Driver) {
    let woken = Rc::new(RefCell::new(Vec::new()));
    let tasks: Vec<_> = [70, 5, 40, 20, 2, 66, 130]
        .into_iter()
        .map(|after| {
            let woken = woken.clone();
            spawn(async move {
                // Counted from the turn in which it begins to sleep, so that no deadline has passed by then.
                let deadline = now() + ms(after);
                sleep_until(deadline).await;
                woken.borrow_mut().push(deadline);
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let woken = woken.borrow();
    assert!(woken.len() == 7 && woken.is_sorted(), "{woken:?}");
}

async fn a_sleep_is_never_early(driver: Driver) {
    for wanted in [0, 1, 999, 1_000, 1_001, 7_300, 64_000, 100_001].map(Duration::from_micros) {
        let start = now_exact();
        sleep(wanted).await;
        let slept = now_exact() - start;
        assert!(slept >= wanted, "{slept:?} of {wanted:?}");
        if driver == Driver::Sim {
            assert!(slept <= wanted + TICK, "{slept:?} of {wanted:?}");
        }
    }
}

async fn a_dropped_sleep_leaves_nothing_behind(_: Driver) {
    let mut polls = 0;
    {
        let mut asleep = Box::pin(sleep(ms(2)));
        assert!(poll_once(asleep.as_mut()).await.is_pending());
    }
    let mut wait = pin!(sleep(ms(10)));
    std::future::poll_fn(|cx| {
        polls += 1;
        wait.as_mut().poll(cx)
    })
    .await;
    assert_eq!(polls, 2, "the dropped timer woke its task");
}

async fn a_reset_moves_the_end_of_a_sleep_both_ways(_: Driver) {
    let start = now();
    let mut wait = pin!(sleep(ms(1)));
    assert!(poll_once(wait.as_mut()).await.is_pending());
    wait.reset(start + ms(30));
    wait.as_mut().await;
    assert!(now_exact() >= start + ms(30));

    let far = Duration::from_secs(3_600);
    wait.reset(start + far);
    assert!(poll_once(wait.as_mut()).await.is_pending());
    wait.reset(start + ms(40));
    wait.as_mut().await;
    assert!(now_exact() >= start + ms(40) && now() < start + far);
}

async fn a_timeout_gives_the_output_of_what_is_done(_: Driver) {
    assert_eq!(timeout(ms(1), async { 7 }).await, Ok(7));
    assert_eq!(timeout(Duration::ZERO, async { 8 }).await, Ok(8));
    let late = timeout(Duration::from_secs(30), async {
        sleep(ms(2)).await;
        9
    });
    assert_eq!(late.await, Ok(9));
}

async fn an_elapsed_timeout_drops_its_future(_: Driver) {
    let (held, mut receiver) = oneshot::channel::<()>();
    let start = now();
    let never = async move {
        let _held = held;
        std::future::pending::<()>().await;
    };
    let elapsed = timeout(ms(3), never).await.expect_err("it never ends");
    assert!(now_exact() - start >= ms(3));
    assert_eq!(elapsed.to_string(), "not done within 3ms");
    let error = std::io::Error::from(elapsed);
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(receiver.try_recv().is_err_and(|e| e == oneshot::TryRecvError::Closed));
}

async fn an_interval_does_not_drift(driver: Driver) {
    let period = ms(10);
    let mut ticks = interval(period);
    let start = now();
    let first = ticks.tick().await;
    assert!(first >= start + period && now_exact() >= first);
    let mut last = first;
    for count in 1..=20 {
        sleep(ms(3)).await; // work that must not add up
        let due = ticks.tick().await;
        assert!(now_exact() >= due, "a tick before its time");
        match driver {
            Driver::Sim => assert_eq!(due, first + period * count),
            // A busy machine may cause missed ticks, and never moves their times.
            _ => assert_eq!((due - first).as_nanos() % period.as_nanos(), 0),
        }
        assert!(due > last);
        last = due;
    }
    if driver == Driver::Sim {
        assert!(now() <= last + TICK);
    }
}

async fn an_interval_leaves_out_missed_ticks(driver: Driver) {
    let period = ms(10);
    let mut ticks = interval(period);
    let first = ticks.tick().await;
    sleep_until(first + ms(35)).await;
    let late = ticks.tick().await;
    assert_eq!(late, first + period, "the tick that came late is told");
    let next = ticks.tick().await;
    match driver {
        Driver::Sim => assert_eq!(next, first + period * 4),
        _ => assert!(next >= first + period * 4),
    }
    assert_eq!((next - first).as_nanos() % period.as_nanos(), 0);
}

async fn ten_thousand_sleepers(_: Driver) {
    const SLEEPERS: u64 = 10_000;
    let start = now();
    let woken = Rc::new(Cell::new(0));
    let tasks: Vec<_> = (0..SLEEPERS)
        .map(|number| {
            let woken = woken.clone();
            spawn(async move {
                let wanted = Duration::from_micros(number * 7_919 % 200_000);
                sleep(wanted).await;
                assert!(now_exact() >= start + wanted);
                woken.set(woken.get() + 1);
            })
        })
        .collect();
    yield_now().await;
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(woken.get(), SLEEPERS);
}

async fn what_is_longer_than_the_clock_never_ends(_: Driver) {
    for endless in [Duration::MAX, Duration::MAX / 2] {
        assert_eq!(timeout(endless, async { 1 }).await, Ok(1));
        let mut asleep = pin!(sleep(endless));
        let mut until = pin!(sleep_until(Deadline::after(now(), endless)));
        let mut never = interval(endless);
        let mut tick = pin!(never.tick());
        for _ in 0..3 {
            sleep(ms(1)).await;
            assert!(poll_once(asleep.as_mut()).await.is_pending());
            assert!(poll_once(until.as_mut()).await.is_pending());
            assert!(poll_once(tick.as_mut()).await.is_pending());
        }
        until.reset(now());
        until.await;
    }
    // Far away, but within the range of the clock: armed, and stopped again.
    let far = Duration::from_secs(u32::MAX.into()) * 4;
    assert!(timeout(far, sleep(ms(1))).await.is_ok());
    assert!(timeout(ms(2), sleep(far)).await.is_err());
}

/// A sleep may move to another thread and outlive its core, because it holds only the number of its timer.
fn a_sleep_of_another_core_stops_no_timer_of_this_one(backend: Backend) {
    let begun = || {
        let begun = block_on(backend, async {
            // One of them has the number of the timer that it must not stop.
            let mut sleeps = [(); 4].map(|()| Box::pin(sleep(ms(3_600_000))));
            for sleep in &mut sleeps {
                assert!(poll_once(sleep.as_mut()).await.is_pending());
            }
            sleeps
        });
        begun.expect("no core failed")
    };
    let ends: [fn(Pin<Box<Sleep>>); 2] = [drop, |mut sleep| sleep.reset(Deadline::NEVER)];
    for end in ends {
        let foreign = begun();
        let woken = block_on(backend, async move {
            let own = spawn(sleep(ms(20)));
            yield_now().await;
            foreign.into_iter().for_each(end);
            timeout(ms(10_000), own).await
        });
        let woken = woken.expect("no core failed").expect("the timer of its own core wakes it");
        woken.expect("no panic");
    }
}

fn a_core_that_was_held_up_reads_what_has_come_before_its_timers_fire(backend: Backend) {
    /// More than the receive buffers that are lent at once.
    const PEERS: usize = 300;
    const PATIENCE: Duration = Duration::from_millis(400);
    let work = async {
        let listener = listen();
        let at = listener.local_addr().as_socket().expect("of TCP");
        let mut streams = Vec::new();
        let mut peers = Vec::new();
        for _ in 0..PEERS {
            peers.push(TcpStream::connect(at).expect("it listens"));
            let accepted = listener.accept().await.expect("a connection");
            streams.push(accepted.into_stream(&Rc::default()).expect("a stream"));
        }
        let heard: Vec<_> = streams
            .into_iter()
            .map(|stream| spawn(async move { timeout(PATIENCE, stream.recv()).await.is_ok() }))
            .collect();
        for _ in 0..4 {
            yield_now().await; // the receives are armed
        }
        for peer in &mut peers {
            peer.write_all(b"here").expect("sent");
        }
        let began = now_exact();
        while now_exact() - began < PATIENCE * 3 / 2 {
            std::hint::spin_loop();
        }
        let mut late = 0;
        for heard in heard {
            late += usize::from(!heard.await.expect("no panic"));
        }
        assert_eq!(late, 0, "of {PEERS} who had spoken in time");
    };
    block_on(backend, work).expect("it ends");
}
