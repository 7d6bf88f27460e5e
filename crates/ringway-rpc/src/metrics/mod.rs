//! What calls have cost, by method.

mod histogram;
mod prometheus;
mod sheet;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use histogram::Latencies;
pub use sheet::MethodSnapshot;
pub(crate) use sheet::{CallEnd, Sheet};

use crate::limits;

/// Which end of the calls is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Calls made.
    Client,
    /// Calls served.
    Server,
}

/// Counts and latencies of the methods of one server or client, readable from any thread.
///
/// Each core writes sheets of its own, with plain stores; a [`snapshot`](Self::snapshot) adds them
/// up. Clones are the same metrics.
#[derive(Clone, Default)]
pub struct Metrics {
    sheets: Arc<Mutex<Vec<Entry>>>,
}

struct Entry {
    side: Side,
    method: Box<str>,
    sheet: Arc<Sheet>,
}

impl Metrics {
    /// No method yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A sheet for the calling core to write on. Each core asks once for each of its methods.
    pub(crate) fn sheet(&self, side: Side, method: &str) -> Arc<Sheet> {
        let mut sheets = self.lock();
        let known = sheets.iter().any(|entry| entry.side == side && *entry.method == *method);
        let others = sheets.iter().filter(|entry| entry.side == side).count();
        // Names may come from users of a dynamic client: their number is bounded.
        let method = if known || others < limits::METRIC_SHEETS_MAX { method } else { OTHERS };
        let sheet = Arc::new(Sheet::default());
        sheets.push(Entry { side, method: method.into(), sheet: Arc::clone(&sheet) });
        sheet
    }

    /// What was counted so far, one entry a method, by name.
    pub fn snapshot(&self) -> Snapshot {
        let sheets = self.lock();
        let mut methods: Vec<MethodSnapshot> = Vec::new();
        for entry in sheets.iter() {
            let found = methods
                .iter_mut()
                .find(|method| method.side == entry.side && *method.method == *entry.method);
            match found {
                Some(method) => entry.sheet.add_to(method),
                None => {
                    let mut method = MethodSnapshot::new(entry.side, &entry.method);
                    entry.sheet.add_to(&mut method);
                    methods.push(method);
                }
            }
        }
        methods.sort_by(|a, b| (a.side, &a.method).cmp(&(b.side, &b.method)));
        Snapshot { methods }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.sheets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({} sheets)", self.lock().len())
    }
}

/// What all methods beyond the bound are counted as.
const OTHERS: &str = "others";

/// Metrics of one moment.
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

    /// The metrics as Prometheus reads them (text format 0.0.4).
    pub fn prometheus(&self) -> String {
        prometheus::text(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::status::Code;

    fn call(sheet: &Sheet, code: Code, service_ms: u64) {
        sheet.started(100);
        let service = Duration::from_millis(service_ms);
        sheet.ended(CallEnd { code, bytes_out: 50, queue: Duration::from_millis(1), service });
    }

    #[test]
    fn sheets_of_all_cores_are_added_up() {
        let metrics = Metrics::new();
        let cores = [0, 1].map(|_| metrics.sheet(Side::Server, "a.B/C"));
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
    fn the_number_of_names_is_bounded() {
        let metrics = Metrics::new();
        for i in 0..limits::METRIC_SHEETS_MAX + 10 {
            metrics.sheet(Side::Client, &format!("a.B/M{i}")).started(0);
        }
        let snapshot = metrics.snapshot();
        assert_eq!(snapshot.methods.len(), limits::METRIC_SHEETS_MAX + 1);
        let others = snapshot.method(Side::Client, OTHERS).expect("the rest");
        assert_eq!(others.started, 10);
    }
}
