//! Open-loop load: calls begin when they are due, whatever happened to earlier ones.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{Call, Code};
use ringway_runtime::{now_exact, spawn, yield_now};

/// The most calls begun before other tasks get their turn.
const BURST: u32 = 500;

/// The end of a call, in time since the load began.
struct Ended {
    due: Duration,
    at: Duration,
    code: Code,
    counts: bool,
}

/// The results of a load.
#[derive(Clone)]
pub(crate) struct Seen(Rc<RefCell<Vec<Ended>>>);

/// A summary of a part of the load.
pub(crate) struct Summary {
    /// Successful calls per second.
    pub(crate) rate: f64,
    /// The median latency of successful calls, from the time at which they were due.
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) p999: Duration,
    /// After which time the last of a hundred refused calls was told, and the last of all.
    pub(crate) refused_p99: Duration,
    pub(crate) refused_max: Duration,
    pub(crate) codes: BTreeMap<String, usize>,
}

/// Makes calls at a constant rate without waiting for them. `make` also returns whether the call
/// counts for the latency.
pub(crate) async fn open_loop(
    rate: f64,
    length: Duration,
    seen: &Seen,
    mut make: impl FnMut(u64) -> (Call<Bytes>, bool),
) {
    let begin = Instant::now();
    let mut number = 0;
    loop {
        let now = begin.elapsed();
        for _ in 0..BURST {
            let due = Duration::from_secs_f64(number as f64 / rate);
            if due >= length {
                return;
            }
            if due > now {
                break;
            }
            let (call, counts) = make(number);
            let seen = seen.clone();
            spawn(async move {
                let code = call.await.map_or_else(|status| status.code(), |_| Code::Ok);
                let at = now_exact().saturating_duration_since(begin);
                seen.0.borrow_mut().push(Ended { due, at, code, counts });
            });
            number += 1;
        }
        yield_now().await;
    }
}

/// Calls that succeed each second where so many callers make one after the other.
pub(crate) async fn closed_loop(
    callers: usize,
    length: Duration,
    make: impl Fn() -> Call<Bytes> + Clone + 'static,
) -> f64 {
    let begin = Instant::now();
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let make = make.clone();
            spawn(async move {
                let mut done = 0_u32;
                while begin.elapsed() < length {
                    done += u32::from(make().await.is_ok());
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for caller in callers {
        done += caller.await.expect("no panic");
    }
    f64::from(done) / begin.elapsed().as_secs_f64()
}

impl Seen {
    /// Preallocates room for this many calls, so that allocations do not disturb the measurement.
    pub(crate) fn of(calls: f64) -> Self {
        let nothing = || {
            let (due, at, counts) = Default::default();
            Ended { due, at, code: Code::Ok, counts }
        };
        let mut ended: Vec<_> = std::iter::repeat_with(nothing).take(calls as usize).collect();
        ended.clear();
        Self(Rc::new(RefCell::new(ended)))
    }

    /// Summarizes the calls that ended between `from` and `to`.
    pub(crate) fn summary(&self, from: Duration, to: Duration) -> Summary {
        let ended = self.0.borrow();
        let mut codes = BTreeMap::new();
        let (mut latencies, mut refusals, mut successes) = (Vec::new(), Vec::new(), 0_u32);
        for ended in ended.iter().filter(|ended| (from..to).contains(&ended.at)) {
            *codes.entry(format!("{:?}", ended.code)).or_default() += 1;
            successes += u32::from(ended.code == Code::Ok);
            if ended.code == Code::Ok && ended.counts {
                latencies.push(ended.at.saturating_sub(ended.due));
            }
            if ended.code == Code::ResourceExhausted {
                refusals.push(ended.at.saturating_sub(ended.due));
            }
        }
        latencies.sort_unstable();
        refusals.sort_unstable();
        let quantile_of = |times: &[Duration], share: f64| {
            let at = (times.len() as f64 * share) as usize;
            times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        let quantile = |share: f64| quantile_of(&latencies, share);
        let (refused_p99, refused_max) =
            (quantile_of(&refusals, 0.99), quantile_of(&refusals, 1.0));
        let rate = f64::from(successes) / (to - from).as_secs_f64();
        let (p50, p99, p999) = (quantile(0.5), quantile(0.99), quantile(0.999));
        Summary { rate, p50, p99, p999, refused_p99, refused_max, codes }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, p50, p99, p999, refused_p99, refused_max, codes } = self;
        write!(
            f,
            "{rate:.0}/s p50 {p50:.2?} p99 {p99:.2?} p99.9 {p999:.2?}, refused p99 {refused_p99:.2?} max {refused_max:.2?} \
             {codes:?}"
        )
    }
}
