//! Counters of a server that do not belong to one method.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringway_wire::native::Unserved;

use crate::metrics::MetricsForm;

/// Declares the counters of a core: for each, a field, its sum and, where it is named, a method that
/// increments it.
macro_rules! counters {
    ($($name:ident $(, $count:ident)?, $what:literal;)*) => {
        /// The counters of one core, which only that core writes and any thread may read.
        #[derive(Default, Debug)]
        #[repr(align(128))] // keeps cores off each other's cache lines
        pub(crate) struct CoreShare {
            unread_bytes: AtomicU64,
            $($name: AtomicU64,)*
        }

        impl CoreShare {
            /// Sets the number of received bytes that the core keeps for readers.
            pub(crate) fn set_unread_bytes(&self, bytes: usize) {
                self.unread_bytes.store(bytes as u64, Ordering::Relaxed);
            }

            /// Counts calls that the machine of a connection has ended by itself.
            #[cold]
            pub(crate) fn add_unserved(&self, calls: Unserved) {
                let Unserved { refused, overdue, malformed, stalled } = calls;
                add(&self.refused, refused.into());
                add(&self.expired, overdue.into());
                add(&self.malformed, malformed.into());
                add(&self.stalled, stalled.into());
            }

            $($(
                #[cold]
                pub(crate) fn $count(&self) {
                    add(&self.$name, 1);
                }
            )?)*
        }

        /// Counters of a server since its start, read at about the same moment.
        #[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct ServerStats {
            /// Calls that wait in the queue of their method or for their handlers.
            pub in_flight: usize,
            /// Received bytes that no handler has read yet, including those of queued calls.
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

            /// The counters in Prometheus' text format 0.0.4, to be appended to those [of the
            /// methods](crate::Snapshot::prometheus).
            pub fn prometheus(&self) -> String {
                self.text(MetricsForm::Prometheus)
            }

            /// The counters in the text format of OpenMetrics 1.0, without its last line, `# EOF`.
            pub fn open_metrics(&self) -> String {
                self.text(MetricsForm::OpenMetrics)
            }

            pub(crate) fn text(&self, form: MetricsForm) -> String {
                let mut text = String::new();
                let mut put = |name: &str, kind: &str, help: &str, value: u64| {
                    let name = format!("ringway_serving_{name}");
                    form.head(&mut text, &name, kind, help);
                    text += &format!("{name} {value}\n");
                };
                put("in_flight", "gauge", "Calls that wait.", self.in_flight as u64);
                let unread = "Bytes that no handler has read yet.";
                put("unread_bytes", "gauge", unread, self.unread_bytes);
                $(
                    let name = concat!(stringify!($name), "_total");
                    put(name, "counter", $what, self.$name);
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
        "Calls answered as not executed: over a limit or a lease, while the server drained, or because they had not begun when the drain ended.";
    shed, count_shed,
        "Refused calls that had waited in a queue for too long, or were removed from it for others.";
    expired, count_expired,
        "Calls whose deadline passed before they could run, or whose request did not arrive whole in time.";
    malformed,
        "Calls ended because their request was malformed or exceeded a limit of the protocol.";
    stalled,
        "Calls given up because their client took nothing of the reply for too long.";
    cancelled, count_cancelled,
        "Calls that clients cancelled after they had left their queue.";
    panicked, count_panicked,
        "Handlers that panicked.";
    exhausted, count_exhausted,
        "Calls (or connections, where no call was to blame) that were ended because a core kept more bytes for handlers or clients than it may.";
    cut_off, count_cut_off,
        "Running calls that were ended at the drain's deadline.";
}

/// Adds to a counter that only its own core writes, so no atomic read-modify-write is needed.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bytes::Bytes;

    use super::*;
    use crate::call::codec::Codec;
    use crate::call::context::Context;
    use crate::call::method::{Kind, Method};
    use crate::call::status::Status;
    use crate::client::Client;
    use crate::server::Server;
    use crate::service::{Methods, Service, ServiceDescriptor};
    use crate::stream::sink::Sink;

    static METHODS: [Method; 1] = [Method::new("stats.Flood/Watch", Kind::ServerStream)];

    static DESCRIPTOR: ServiceDescriptor =
        ServiceDescriptor { name: "stats.Flood", methods: &METHODS, file_descriptor_set: None };

    struct Flood;

    impl Service for Flood {
        fn descriptor(&self) -> &'static ServiceDescriptor {
            &DESCRIPTOR
        }

        fn register(&self, methods: &mut Methods) {
            methods.server_stream(&METHODS[0], Codec::raw(), Codec::raw(), watch);
        }
    }

    /// Sends so many messages of 32 KiB.
    async fn watch(_: Context, count: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
        for _ in 0..count[0] {
            out.send(Bytes::from_static(&[7; 32 << 10])).await?;
        }
        Ok(())
    }

    #[test]
    fn a_grpc_reply_that_nobody_takes_is_counted_as_stalled_and_ended() {
        let mut server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
        server.settings.native.stall_timeout = Duration::from_millis(30);
        let handle = server.service(Flood).start().expect("the server starts");
        let url = handle.addresses()[0].to_string().replace("tcp:", "grpc:");
        let client = Client::connect(&*url).expect("an address");
        let watch = |count: u8| {
            let count = Bytes::copy_from_slice(&[count]);
            client.server_stream(&METHODS[0], Codec::raw(), Codec::<Bytes>::raw(), count)
        };
        // More than the window of a stream, of which the reader takes one message.
        let mut replies = watch(u8::MAX);
        assert!(replies.next().wait().expect("it goes on").is_some());
        let limit = Instant::now() + Duration::from_secs(20);
        while handle.stats().stalled == 0 {
            assert!(Instant::now() < limit, "it is never given up: {:?}", handle.stats());
            std::thread::yield_now();
        }
        let ended = loop {
            match replies.next().wait() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the reply was given up"),
                Err(status) => break status,
            }
        };
        assert!(ended.is_cancelled(), "{ended:?}");
        // The connection goes on.
        let mut more = watch(1);
        assert!(more.next().wait().expect("it goes on").is_some());
        assert!(more.next().wait().expect("its end").is_none());
        assert_eq!((handle.stats().stalled, handle.stats().violations), (1, 0));
        assert_eq!(handle.net().stats().accepted, 1);
        drop((client, replies, more));
        handle.shutdown();
        handle.wait().expect("it ends in order");
    }

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
