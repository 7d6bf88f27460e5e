//! The client handle that users hold.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::call::Call;
use super::config::ClientConfig;
use super::hedge::UnaryCall;
use super::hosts::{Host, HostList};
use super::jsonrpc;
use super::local_clients;
use super::one_reply::OneReply;
use super::options::CallOptions;
use super::placed_call::PlacedCall;
use super::registration::Registration;
use super::resolve::{Resolver, ResolverStats};
use super::stream_call::{StreamCall, open_both, open_reader};
use super::unary::Unary;
use crate::call::codec::{self, Codec};
use crate::call::method::Method;
use crate::call::status::Status;
use crate::connection::table::Handles;
use crate::limits;
use crate::metrics::Snapshot;
use crate::stream::pending::PendingStream;
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

/// A client that calls the methods of a service on one or several servers.
///
/// Clones share the same connections and may be used on any thread. On a Ringway core, calls use that
/// core's connections, without a lock; on other threads they use a core in the background. When the last
/// clone is dropped, calls in flight finish, then the connections are closed.
///
/// Programs rarely use its methods directly: the client generated from a service trait has one method for
/// each of the trait's.
///
/// ```no_run
/// use bytes::Bytes;
/// use ringway_rpc::{Client, Codec, Kind, Method, Status};
///
/// static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
///
/// async fn say() -> Result<Bytes, Status> {
///     let client = Client::connect("tcp://127.0.0.1:9000")?;
///     client.unary(&SAY, Codec::raw(), Codec::raw(), Bytes::from_static(b"hello")).await
/// }
/// ```
#[derive(Clone)]
pub struct Client {
    registration: Arc<Registration>,
    options: CallOptions,
}

impl Client {
    /// The same client with other default options.
    #[must_use]
    pub fn with(&self, options: CallOptions) -> Self {
        Self { registration: Arc::clone(&self.registration), options }
    }

    /// Changes the servers of this client and its clones, from any thread.
    ///
    /// Each core that makes calls uses the new list within a turn. Servers that stay keep their
    /// connections and statistics. A server that leaves gets no new calls, and its connections are closed
    /// when its calls and streams are over. Calls that wait or are retried use the new list.
    ///
    /// ```
    /// use ringway_rpc::{Client, Host};
    ///
    /// let client = Client::connect("tcp://10.0.0.1:9000")?;
    /// client.set_hosts([
    ///     Host::new("tcp://10.0.0.1:9000")?,
    ///     Host::new("tcp://10.0.0.2:9000")?.weight(3),
    /// ])?;
    /// assert!(client.set_hosts([]).is_err(), "there is somewhere to call, always");
    /// # Ok::<(), ringway_rpc::Status>(())
    /// ```
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the list is empty or longer than 1,024, when an address cannot be connected
    /// to, when a weight is not from 1 to 100, when no server of the list takes calls, or when the servers
    /// come from a [resolver](crate::Resolver). The client keeps its former list.
    pub fn set_hosts(&self, hosts: impl IntoIterator<Item = Host>) -> Result<(), Status> {
        self.registration.set_hosts(hosts)
    }

    /// What is known of the source of the client's servers: its state, its counters and its last failure. `None` if
    /// the servers were given as addresses.
    ///
    /// ```
    /// use ringway_rpc::Client;
    ///
    /// let client = Client::connect("tcp://10.0.0.1:9000")?;
    /// assert!(client.resolver_stats().is_none());
    /// # Ok::<(), ringway_rpc::Status>(())
    /// ```
    pub fn resolver_stats(&self) -> Option<ResolverStats> {
        self.registration.resolver_stats()
    }

    /// Counts and latencies of the called methods, over all threads. Calls that outlive the client's last
    /// handle are only counted as begun.
    pub fn metrics(&self) -> Snapshot {
        self.registration.metrics()
    }

    pub(super) fn new(config: Arc<ClientConfig>, hosts: HostList, options: CallOptions) -> Self {
        Self { registration: Arc::new(Registration::new(config, hosts)), options }
    }

    /// Starts the client's resolver.
    ///
    /// # Errors
    /// Fails when the background core cannot be started.
    pub(super) fn resolve(
        &self,
        resolver: Box<dyn Resolver>,
        last_known: Option<PathBuf>,
    ) -> Result<(), Status> {
        self.registration.resolve(resolver, last_known)
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> super::registry::ClientId {
        self.registration.id
    }

    /// Makes a unary call.
    #[inline]
    pub fn unary<Req, Rep>(
        &self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
        request: Req,
    ) -> Call<Rep> {
        let is_json = self.registration.speaks_json;
        let (request, codec) = match is_json {
            false => (encode(&codec_in, request), codec_in.id),
            true => (
                encode_json(method, &codec_in, &codec_out, request),
                jsonrpc::TextForm::Call.codec(),
            ),
        };
        self.unary_of(method, codec, request, codec_out.in_form(is_json))
    }

    /// Makes a unary call whose request is encoded.
    #[inline]
    pub(super) fn unary_of<Rep>(
        &self,
        method: &'static Method,
        codec: u8,
        request: Result<Bytes, Status>,
        codec_out: Codec<Rep>,
    ) -> Call<Rep> {
        let options = self.options.for_call();
        let call = Unary::new(self.registration.id, method, codec, request, options);
        let call = match self.registration.is_intercepted {
            true => PlacedCall::intercepted(UnaryCall::new(call)),
            false => PlacedCall::new(UnaryCall::new(call)),
        };
        Call::unary(call, codec_out)
    }

    /// Makes a call with a stream of requests and one reply. Its options are the client's.
    pub fn client_stream<Req, Rep>(
        &self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
    ) -> (Sink<Req>, Call<Rep>) {
        let call = self.stream_call(method, codec_in.id, None);
        let (sink, replies) = open_both(call, codec_in, Codec::raw());
        (sink, Call::of_stream(OneReply::new(replies), codec_out))
    }

    /// Makes a call with one request and a stream of replies.
    pub fn server_stream<Req, Rep>(
        &self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
        request: Req,
    ) -> Streaming<Rep> {
        let is_json = self.registration.speaks_json;
        let (request, codec) = match is_json {
            false => (encode(&codec_in, request), codec_in.id),
            true => (
                encode_json(method, &codec_in, &codec_out, request),
                jsonrpc::TextForm::Subscription.codec(),
            ),
        };
        self.server_stream_of(method, codec, request, codec_out.in_form(is_json))
    }

    /// Makes a call with a stream of replies whose request is encoded.
    pub(super) fn server_stream_of<Rep>(
        &self,
        method: &'static Method,
        codec: u8,
        request: Result<Bytes, Status>,
        codec_out: Codec<Rep>,
    ) -> Streaming<Rep> {
        match request {
            Ok(request) => open_reader(self.stream_call(method, codec, Some(request)), codec_out),
            Err(status) => {
                let pending = PendingStream::new();
                let replies = pending.streaming(codec_out);
                pending.complete(Err(status));
                replies
            }
        }
    }

    /// Whether the servers speak JSON-RPC.
    pub(super) fn speaks_json(&self) -> bool {
        self.registration.speaks_json
    }

    /// Makes a call with a stream of requests and a stream of replies.
    pub fn bidi<Req, Rep>(
        &self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
    ) -> (Sink<Req>, Streaming<Rep>) {
        open_both(self.stream_call(method, codec_in.id, None), codec_in, codec_out)
    }

    fn stream_call(
        &self,
        method: &'static Method,
        codec: u8,
        request: Option<Bytes>,
    ) -> StreamCall {
        let handles = if request.is_some() { Handles::Reader } else { Handles::Both };
        let options = self.options.for_call();
        let registration = Arc::clone(&self.registration);
        StreamCall { registration, method, codec, options, handles, request }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

#[inline]
fn encode<T>(codec: &Codec<T>, message: T) -> Result<Bytes, Status> {
    if codec.id != codec::RAW {
        return encode_by(|out| (codec.encode)(message, out));
    }
    // Raw bytes are their own memory, and seldom anything else.
    let mut other = Vec::new();
    let whole = (codec.encode)(message, &mut other).map_err(Status::not_executed)?;
    checked(whole.unwrap_or_else(|| other.into()))
}

fn encode_json<Q, P>(
    method: &Method,
    codec_in: &Codec<Q>,
    codec_out: &Codec<P>,
    message: Q,
) -> Result<Bytes, Status> {
    jsonrpc::check_reply(codec_out)?;
    encode_by(|out| jsonrpc::encode(method, codec_in, message, out).map(|()| None))
}

/// Encodes a request, into memory of exactly its size unless it has its own.
#[inline]
fn encode_by(
    encode: impl FnOnce(&mut Vec<u8>) -> Result<Option<Bytes>, Status>,
) -> Result<Bytes, Status> {
    let mut scratch = local_clients::try_with(|local| local.scratch.take()).unwrap_or_default();
    let whole = encode(&mut scratch);
    let encoded = match whole {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) if scratch.len() > limits::SCRATCH_COPY_BYTES_MAX => {
            Ok(Bytes::from(std::mem::take(&mut scratch)))
        }
        Ok(None) => Ok(Bytes::copy_from_slice(&scratch)),
        Err(status) => Err(status),
    };
    let _thread_ends = local_clients::try_with(|local| local.scratch.give_back(scratch));
    checked(encoded.map_err(Status::not_executed)?)
}

/// The message, if it can be carried at all.
#[inline]
fn checked(message: Bytes) -> Result<Bytes, Status> {
    match codec::check_len(message.len()) {
        Ok(()) => Ok(message),
        Err(status) => Err(status.not_executed()),
    }
}
