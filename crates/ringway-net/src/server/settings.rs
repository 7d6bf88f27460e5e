//! The configuration of a server.

use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::StreamLimits;

use crate::limits;
use crate::marks;
use crate::slow_reader::SlowReader;
use crate::tls::ServerTls;

/// The configuration that the cores need; fixed when the server starts.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) stream: StreamLimits,
    pub(crate) connections_max: usize,
    pub(crate) connections_per_address_max: Option<usize>,
    pub(crate) ipv6_prefix_len: u8,
    pub(crate) handshakes_max: usize,
    pub(crate) slow_reader: SlowReader,
    pub(crate) drain_delay: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) tls: Option<ServerTls>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stream: StreamLimits::default(),
            connections_max: limits::CONNECTIONS_MAX,
            connections_per_address_max: None,
            ipv6_prefix_len: limits::IPV6_PREFIX_LEN,
            handshakes_max: limits::HANDSHAKES_MAX,
            slow_reader: SlowReader::default(),
            drain_delay: Duration::ZERO,
            drain_timeout: limits::DRAIN_TIMEOUT,
            keepalive: None,
            tls: None,
        }
    }
}

impl Settings {
    /// Returns the limits that all connections of one core share.
    pub(crate) fn stream_limits(&self) -> Rc<StreamLimits> {
        let mut limits = self.stream.clone();
        if self.slow_reader == SlowReader::Close {
            limits.send_queue_max = limits.send_high_water;
        }
        marks::put_in_order(&mut limits);
        Rc::new(limits)
    }
}
