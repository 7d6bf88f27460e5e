//! Counts and latencies of calls, by method.

mod call_counters;
mod counter;
mod histogram;
mod prometheus;
mod side;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use call_counters::MethodSnapshot;
pub(crate) use call_counters::{CallCounters, CallEnd};
pub use histogram::Latencies;
pub(crate) use prometheus::MetricsForm;
pub use side::Side;

use crate::limits;

/// Counts and latencies of the methods of one server or client, readable from any thread.
///
/// Each core writes its own counters, with plain stores; a [`snapshot`](Self::snapshot) adds them up.
/// Counters of cores that have ended are merged, so that memory depends only on the cores that run.
/// Clones share the same metrics.
#[derive(Clone, Default)]
pub struct Metrics {
    methods: Arc<Mutex<BTreeMap<Key, Counted>>>,
}

/// A side and a method's name, which define the order of snapshots.
type Key = (Side, Box<str>);

/// The counters of one method on one side.
struct Counted {
    /// The sum over cores that have ended.
    ended: MethodSnapshot,
    /// The counters of running cores, and of those that have ended since the last merge.
    per_core: Vec<Arc<CallCounters>>,
}

impl Metrics {
    /// Metrics without any method yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds counters for the calling core. Each core asks once for each of its methods.
    pub(crate) fn counters(&self, side: Side, method: &str) -> Arc<CallCounters> {
        let mut methods = self.lock();
        let mut key = (side, Box::from(method));
        let names = methods.keys().filter(|(of, _)| *of == side).count();
        // A dynamic client's user may choose the names, so their number is bounded.
        if names >= limits::METRIC_NAMES_MAX && !methods.contains_key(&key) {
            key.1 = OTHERS.into();
        }
        let counted = methods.entry(key).or_insert_with_key(|(side, method)| Counted {
            ended: MethodSnapshot::new(*side, method),
            per_core: Vec::new(),
        });
        counted.add_up_ended();
        let counters = Arc::new(CallCounters::default());
        counted.per_core.push(Arc::clone(&counters));
        counters
    }

    /// The metrics so far, one entry for each method, sorted by name.
    pub fn snapshot(&self) -> Snapshot {
        let mut methods = self.lock();
        let all = methods.values_mut().map(|counted| {
            counted.add_up_ended();
            let mut method = counted.ended.clone();
            counted.per_core.iter().for_each(|counters| counters.add_to(&mut method));
            method
        });
        Snapshot { methods: all.collect() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Counted>> {
        self.methods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    /// Merges the counters that no core holds any more.
    fn add_up_ended(&mut self) {
        let Self { ended, per_core } = self;
        per_core.retain_mut(|counters| match Arc::get_mut(counters) {
            Some(counters) => {
                counters.add_to(ended);
                false
            }
            None => true,
        });
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({} methods)", self.lock().len())
    }
}

/// The name under which all methods beyond the bound are counted.
const OTHERS: &str = "others";

/// The metrics at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One entry for each side and method that was called or is served.
    pub methods: Vec<MethodSnapshot>,
}

impl Snapshot {
    /// The served or called method of this name, such as `market.v1.Market/Quote`.
    pub fn method(&self, side: Side, name: &str) -> Option<&MethodSnapshot> {
        self.methods.iter().find(|method| method.side == side && method.method == name)
    }

    /// The metrics in Prometheus' text format 0.0.4.
    pub fn prometheus(&self) -> String {
        self.text(MetricsForm::Prometheus)
    }

    /// The metrics in the text format of OpenMetrics 1.0, without its last line, `# EOF`: other metrics may follow.
    pub fn open_metrics(&self) -> String {
        self.text(MetricsForm::OpenMetrics)
    }

    pub(crate) fn text(&self, form: MetricsForm) -> String {
        prometheus::text(&self.methods, form)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::call::status::Code;

    fn call(counters: &CallCounters, code: Code, service_ms: u64) {
        counters.started(100);
        let service = Duration::from_millis(service_ms);
        counters.ended(CallEnd { code, bytes_out: 50, queue: Duration::from_millis(1), service });
    }

    #[test]
    fn counters_of_all_cores_are_added_up() {
        let metrics = Metrics::new();
        let cores = [0, 1].map(|_| metrics.counters(Side::Server, "a.B/C"));
        call(&cores[0], Code::Ok, 3);
        call(&cores[1], Code::Ok, 5);
        call(&cores[1], Code::NotFound, 5);
        cores[1].started(100);
        let snapshot = metrics.snapshot();
        assert_eq!(snapshot.methods.len(), 1);
        let method = snapshot.method(Side::Server, "a.B/C").expect("it was called");
        assert_eq!((method.started, method.ended(), method.in_flight()), (4, 3, 1));
        assert_eq!((method.with_code(Code::Ok), method.with_code(Code::NotFound)), (2, 1));
        assert_eq!((method.bytes_in, method.bytes_out), (400, 150));
        let slowest = method.service.quantile(1.0).expect("calls ended");
        assert!(slowest >= Duration::from_millis(5) && slowest < Duration::from_micros(5_400));
        let with_queue = method.total.quantile(1.0).expect("calls ended");
        assert!(with_queue >= Duration::from_millis(6));
        assert!(snapshot.method(Side::Client, "a.B/C").is_none());
    }

    #[test]
    fn cores_that_have_ended_keep_their_counts_and_no_memory() {
        let metrics = Metrics::new();
        let running = metrics.counters(Side::Client, "a.B/C");
        for _ in 0..1_000 {
            call(&metrics.counters(Side::Client, "a.B/C"), Code::Ok, 3);
        }
        call(&running, Code::NotFound, 5);
        let snapshot = metrics.snapshot();
        let method = snapshot.method(Side::Client, "a.B/C").expect("it was called");
        assert_eq!((method.with_code(Code::Ok), method.with_code(Code::NotFound)), (1_000, 1));
        assert_eq!((method.started, method.bytes_in, method.bytes_out), (1_001, 100_100, 50_050));
        assert_eq!(method.service.count(), 1_001);
        let methods = metrics.lock();
        assert_eq!(methods.values().map(|counted| counted.per_core.len()).sum::<usize>(), 1);
    }

    #[test]
    fn a_name_counts_once_whatever_the_number_of_cores() {
        let metrics = Metrics::new();
        let per_core: Vec<_> = (0..2 * limits::METRIC_NAMES_MAX)
            .map(|core| metrics.counters(Side::Server, ["a.B/C", "a.B/D"][core % 2]))
            .collect();
        let another = metrics.counters(Side::Server, "a.B/E");
        another.started(0);
        drop(per_core);
        assert_eq!(metrics.snapshot().method(Side::Server, "a.B/E").expect("by name").started, 1);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let metrics = Metrics::new();
        for i in 0..limits::METRIC_NAMES_MAX + 10 {
            metrics.counters(Side::Client, &format!("a.B/M{i}")).started(0);
        }
        let snapshot = metrics.snapshot();
        assert_eq!(snapshot.methods.len(), limits::METRIC_NAMES_MAX + 1);
        let others = snapshot.method(Side::Client, OTHERS).expect("the rest");
        assert_eq!(others.started, 10);
    }
}
