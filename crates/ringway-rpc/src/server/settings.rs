//! Server configuration.

use std::time::Duration;

use ringway_wire::grpc::ServerConfig;
use ringway_wire::http2::Http2Config;
use ringway_wire::native::{Config, StreamId};

use super::compression::Compression;
use crate::limits;

/// The settings that all cores of a server share; they are fixed when it starts.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The limits and timeouts of each native connection.
    pub(crate) native: Config,
    /// Calls that one connection may have unfinished at once.
    pub(crate) in_flight_per_connection_max: usize,
    /// The maximum number of calls that wait, on all connections together.
    pub(crate) in_flight_max: usize,
    /// The maximum of received bytes that a core keeps for readers.
    pub(crate) unread_bytes_max: usize,
    /// The capacity of the queue of each method with a limit, on each core.
    pub(crate) queue_room: usize,
    /// Whether methods without a limit of their own get an adaptive one.
    pub(crate) adaptive: bool,
    /// The time that calls may take to end when the server stops.
    pub(crate) drain_timeout: Duration,
    /// The services whose gRPC messages may be compressed.
    pub(crate) compression: Option<Compression>,
    /// The paths at which JSON-RPC is answered over HTTP.
    pub(crate) json_paths: Vec<String>,
    /// Whether JSON-RPC is answered on connections that begin with a line of it.
    pub(crate) has_json_lines: bool,
    /// Whether clients are told which services and methods there are.
    pub(crate) describes: bool,
    /// The age at which a connection stops accepting calls.
    pub(crate) connection_age_max: Option<Duration>,
    /// The time that calls may still take on a connection that has reached its age.
    pub(crate) connection_age_grace: Duration,
}

impl Settings {
    /// The configuration of a connection that speaks gRPC.
    pub(super) fn grpc(&self) -> ServerConfig {
        let Config { settings, ping_after, ping_timeout, stall_timeout, .. } = self.native.clone();
        let http2 = Http2Config {
            max_streams: settings.max_streams,
            ping_after,
            ping_timeout,
            stall_timeout,
            ..Http2Config::default()
        };
        ServerConfig { http2: http2.into(), max_message: settings.max_message }
    }

    /// Checks that clients accept the settings and that calls are possible.
    pub(super) fn check(&self) -> Result<(), String> {
        let native = &self.native.settings;
        let (streams, message) = (native.max_streams, native.max_message);
        let (streams_max, message_max) = (StreamId::SLOTS, limits::MESSAGE_BYTES_MAX);
        if !(1..=streams_max).contains(&streams) {
            return Err(format!(
                "in_flight_per_connection_max is {streams}, not 1 to {streams_max}"
            ));
        }
        if message > message_max {
            return Err(format!("message_bytes_max is {message}, above {message_max}"));
        }
        let is_set = message > Config::default().settings.max_message;
        if is_set && message as usize > self.unread_bytes_max {
            let unread = self.unread_bytes_max;
            return Err(format!(
                "message_bytes_max is {message}, and unread_bytes_max lets a core keep only {unread}: no such message \
                 could come whole"
            ));
        }
        if self.in_flight_max == 0 {
            return Err(String::from("in_flight_max is 0: no call could be made"));
        }
        if self.connection_age_max.is_some_and(|age| age.is_zero()) {
            return Err(String::from("max_connection_age is 0: no call could be made"));
        }
        debug_assert!(native.is_valid(), "nothing else of it can be set");
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        let native = Config::default();
        Self {
            in_flight_per_connection_max: native.settings.max_streams as usize,
            native,
            in_flight_max: limits::IN_FLIGHT_MAX,
            unread_bytes_max: limits::UNREAD_BYTES_MAX,
            queue_room: limits::QUEUE_ROOM,
            adaptive: false,
            drain_timeout: limits::DRAIN_TIMEOUT,
            compression: None,
            json_paths: vec!["/".to_owned(), "/rpc".to_owned()],
            has_json_lines: true,
            describes: true,
            connection_age_max: None,
            connection_age_grace: Duration::MAX,
        }
    }
}
