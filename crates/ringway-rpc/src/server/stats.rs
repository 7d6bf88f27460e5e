//! What a server has counted beside its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringway_wire::native::Unserved;

/// Writes the counters of a core: for each a field, a method that counts one, and a sum.
macro_rules! counters {
    ($($name:ident $(, $count:ident)?, $what:literal;)*) => {
        /// What one core counts: written by it alone, read by any thread.
        #[derive(Default, Debug)]
        #[repr(align(128))] // cores do not disturb each other by counting
        pub(crate) struct CoreShare {
            unread_bytes: AtomicU64,
            $($name: AtomicU64,)*
        }

        impl CoreShare {
            /// Says how many received bytes the core keeps for readers.
            pub(crate) fn set_unread_bytes(&self, bytes: usize) {
                self.unread_bytes.store(bytes as u64, Ordering::Relaxed);
            }

            /// Counts calls that the machine of a connection has ended.
            #[cold]
            pub(crate) fn add_unserved(&self, calls: Unserved) {
                let Unserved { refused, overdue, malformed, stalled } = calls;
                add(&self.refused, refused);
                add(&self.expired, overdue);
                add(&self.malformed, malformed);
                add(&self.stalled, stalled);
            }

            $($(
                #[cold]
                pub(crate) fn $count(&self) {
                    add(&self.$name, 1);
                }
            )?)*
        }

        /// Counts of a server since its start, read at about one moment.
        #[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct ServerStats {
            /// Calls that wait, in the queue of their method or with their handlers.
            pub in_flight: usize,
            /// Bytes that were received and that no handler has read yet, those of queued calls too.
            pub unread_bytes: u64,
            $(
                #[doc = $what]
                pub $name: u64,
            )*
        }

        impl ServerStats {
            pub(crate) fn sum(in_flight: usize, shares: &[Arc<CoreShare>]) -> Self {
                let mut stats = Self { in_flight, ..Self::default() };
                for share in shares {
                    stats.unread_bytes += share.unread_bytes.load(Ordering::Relaxed);
                    $(stats.$name += share.$name.load(Ordering::Relaxed);)*
                }
                stats
            }

            /// The counts as Prometheus reads them (text format 0.0.4), to be written behind those
            /// [of the methods](crate::Snapshot::prometheus).
            pub fn prometheus(&self) -> String {
                let mut text = String::new();
                family(&mut text, "in_flight", "gauge", "Calls that wait.", self.in_flight as u64);
                let unread = "Bytes that no handler has read yet.";
                family(&mut text, "unread_bytes", "gauge", unread, self.unread_bytes);
                $(
                    let name = concat!(stringify!($name), "_total");
                    family(&mut text, name, "counter", $what, self.$name);
                )*
                text
            }
        }
    };
}

counters! {
    unknown_protocols, count_unknown_protocol,
        "Connections closed because their first bytes belong to no protocol that is served.";
    silent, count_silent,
        "Connections closed because they did not say in time which protocol they speak.";
    violations, count_violation,
        "Connections closed because the peer broke the protocol or went silent.";
    unknown_methods, count_unknown_method,
        "Calls of methods that the server does not have.";
    refused, count_refused,
        "Calls answered as not executed: over a limit or a lease, while the server drains, or since they had not begun when that was over.";
    shed, count_shed,
        "Of these: calls that had waited in a queue for too long, or were taken out of it for others.";
    expired, count_expired,
        "Calls whose deadline passed before they could run, or whose request did not come whole in time.";
    malformed,
        "Calls ended because their request broke a rule or a limit of the protocol, or could not be read.";
    stalled,
        "Calls given up because their client took nothing of the reply for too long.";
    cancelled, count_cancelled,
        "Calls that clients have cancelled when they had left their queue.";
    panicked, count_panicked,
        "Handlers that panicked.";
    exhausted, count_exhausted,
        "Calls, and connections where no call was to blame, that were ended since more bytes waited for handlers or clients than a core may keep.";
    cut_off, count_cut_off,
        "Calls that ran and were ended by the deadline of the drain.";
}

fn family(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let name = format!("ringway_serving_{name}");
    *text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
}

/// Adds to a counter that only its core writes: no read-modify-write is needed.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_out() {
        let share = CoreShare::default();
        share.count_refused();
        share.set_unread_bytes(70);
        let text = ServerStats::sum(3, &[Arc::new(share)]).prometheus();
        for expected in [
            "# TYPE ringway_serving_refused_total counter",
            "ringway_serving_refused_total 1",
            "ringway_serving_cut_off_total 0",
            "ringway_serving_in_flight 3",
            "ringway_serving_unread_bytes 70",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
        }
    }
}
