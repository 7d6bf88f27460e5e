//! Several times as many calls as can be done, with an adaptive limit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Call, ServerHandle};
use ringway_runtime::{sleep, spawn};

use crate::load::{Seen, closed_loop, open_loop};
use crate::work::{FAILS, HELD, PLACES, WorkClient, micros};
use crate::{MS, SECOND, connect, measure};

/// The timeout of each call.
const DEADLINE: Duration = SECOND;
/// The least share of the possible work that must be done.
const GOODPUT_MIN: f64 = 0.9;
/// The bound of the p99 of successful calls, in medians.
const P99_MAX: u32 = 10;
/// How soon calls are refused that are not carried out, and all but one of a hundred.
const REFUSED_MAX: Duration = Duration::from_millis(100);
/// The length of the load.
const LENGTH: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
enum Work {
    Computes { us: u32 },
    Waits,
}

impl Work {
    fn call(self, client: &WorkClient) -> Call<Bytes> {
        match self {
            Self::Computes { us } => client.compute(micros(us)).timeout(DEADLINE),
            Self::Waits => client.resource(Bytes::new()).timeout(DEADLINE),
        }
    }

    /// Returns the largest number of calls per second.
    async fn capacity(self, client: &WorkClient) -> f64 {
        match self {
            Self::Computes { .. } => {
                let client = client.clone();
                closed_loop(16, 1_000 * MS, move || self.call(&client)).await
            }
            Self::Waits => f64::from(PLACES) / HELD.as_secs_f64(),
        }
    }
}

fn overload(name: &'static str, work: Work, times: u32) {
    measure(
        |server| server.adaptive_concurrency(),
        move |server| async move {
            let client = connect(&server);
            let capacity = work.capacity(&client).await;
            let rate = capacity * f64::from(times);
            let seen = Seen::of(rate * 10.0);
            open_loop(rate, LENGTH, &seen, |_| (work.call(&client), true)).await;
            let summary = seen.summary(Duration::ZERO, LENGTH);
            let goodput = summary.rate / capacity;
            println!(
                "{name} {times}x of {capacity:.0}/s: goodput {:.1} % {summary}",
                goodput * 100.0
            );
            println!("    {:?}", server.stats());
            assert!(goodput >= GOODPUT_MIN && summary.p99 <= P99_MAX * summary.p50);
            assert!(summary.refused_p99 <= REFUSED_MAX);
        },
    );
}

#[test]
fn computing_100_us_4_times() {
    overload("computes 100 us", Work::Computes { us: 100 }, 4);
}

#[test]
fn computing_100_us_10_times() {
    overload("computes 100 us", Work::Computes { us: 100 }, 10);
}

#[test]
fn computing_1_ms_4_times() {
    overload("computes 1 ms", Work::Computes { us: 1_000 }, 4);
}

#[test]
fn computing_1_ms_10_times() {
    overload("computes 1 ms", Work::Computes { us: 1_000 }, 10);
}

#[test]
fn waiting_4_times() {
    overload("waits", Work::Waits, 4);
}

#[test]
fn waiting_10_times() {
    overload("waits", Work::Waits, 10);
}

/// Makes handlers fail at once for three seconds under a load of `times`; prints when the full rate
/// is back.
fn recovery(name: &'static str, work: Work, times: f64) {
    measure(
        |server| server.adaptive_concurrency(),
        move |server: ServerHandle| async move {
            let client = connect(&server);
            let capacity = work.capacity(&client).await;
            spawn(async {
                sleep(3 * SECOND).await;
                FAILS.store(true, Ordering::Relaxed);
                sleep(3 * SECOND).await;
                FAILS.store(false, Ordering::Relaxed);
            });
            let rate = capacity * times;
            let seen = Seen::of(rate * 10.0);
            open_loop(rate, 10 * SECOND, &seen, |_| (work.call(&client), true)).await;
            let full = GOODPUT_MIN * capacity * times.min(1.0);
            let back = (60..96).find(|tenth| {
                seen.summary(*tenth * 100 * MS, (*tenth + 5) * 100 * MS).rate >= full
            });
            let rates: Vec<_> = (25..100)
                .step_by(5)
                .map(|tenth| seen.summary(tenth * 100 * MS, (tenth + 5) * 100 * MS).rate as u32)
                .collect();
            println!("{name} {times}x of {capacity:.0}/s after fast failures: {rates:?} each s");
            let back = back.expect("it comes back at all") - 60;
            println!("    back after {} ms, {}", back * 100, seen.summary(8 * SECOND, 10 * SECOND));
            assert!(back <= 20);
        },
    );
}

#[test]
fn computing_after_fast_failures() {
    recovery("computes 100 us", Work::Computes { us: 100 }, 4.0);
}

#[test]
fn waiting_after_fast_failures() {
    recovery("waits", Work::Waits, 4.0);
}

#[test]
fn waiting_below_capacity_after_fast_failures() {
    recovery("waits", Work::Waits, 0.9);
}
