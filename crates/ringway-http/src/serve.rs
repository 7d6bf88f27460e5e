//! Serves the requests of a connection.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING,
};
use http::uri::{Authority, Uri};
use http::{Method, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use ringway_net::{Connection, HyperTimer, IoStream, View};

use crate::body::RequestBody;
use crate::body::{Request, Response};
use crate::error::{Error, Result};
use crate::left_over::{LateDrain, LeftOver};
use crate::limits;
use crate::peer_watch::PeerWatch;
use crate::queued_io::QueuedIo;
use crate::reply_account::{CountedBody, ReplyAccount};
use crate::router::Router;
use crate::upgrade::{Upgrade, Upgraded};

/// Limits on the clients of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Bytes of a request's body that a handler may read; 2 MiB if not set.
    pub body_bytes_max: usize,
    /// Time for a request's head, counted from when the connection is ready for it; 30 s if not set. It
    /// also ends idle connections.
    pub head_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self { body_bytes_max: limits::BODY_BYTES_MAX, head_timeout: limits::HEAD_TIMEOUT }
    }
}

/// Makes a handler for a [`ringway_net::Server`] that answers HTTP/1.1 with `router`.
///
/// A drain lets running requests end and then closes their connections. A client may close its half after
/// its last request and still gets the reply. So a handler does not learn that its client has
/// left until it replies.
pub fn serve(
    router: Router,
) -> impl AsyncFn(Connection) -> ringway_net::Result + Clone + Send + 'static {
    serve_with(router, HttpLimits::default())
}

/// Does the same as [`serve`] with other limits.
pub fn serve_with(
    router: Router,
    limits: HttpLimits,
) -> impl AsyncFn(Connection) -> ringway_net::Result + Clone + Send + 'static {
    let router = Arc::new(router);
    async move |connection: Connection| {
        serve_connection(connection, None, limits, async |request| router.respond(request).await)
            .await
    }
}

/// Answers the requests of one connection with `respond`, until either end closes it. `received` was
/// read from it before, to detect its protocol.
///
/// # Errors
/// The connection is lost, or does not speak HTTP.
pub async fn serve_connection(
    connection: Connection,
    received: Option<View>,
    limits: HttpLimits,
    respond: impl AsyncFn(Request) -> Response,
) -> ringway_net::Result {
    connection.receive_while_draining(true); // the rest of requests that have begun
    let io = match received {
        Some(view) => IoStream::with_received(connection, view),
        None => connection.into_io(),
    };
    let (watch, replies) = (PeerWatch::default(), ReplyAccount::default());
    match serve_requests(io, limits, &watch, &replies, &respond).await {
        Ok(Some((upgrade, upgraded))) => upgrade(upgraded).await,
        Ok(None) => {}
        Err(error) if error.is_parse() || error.is_timeout() || error.is_incomplete_message() => {
            // hyper has sent a response if there is one; the queue is flushed before the end.
            tracing::debug!(%error, "a connection is closed: its peer does not speak HTTP properly");
        }
        Err(_) if replies.is_given_up() => {
            tracing::debug!("a connection is reset: the server is short of memory");
        }
        Err(_) if watch.is_on() => {
            tracing::debug!("a connection is closed: its peer has gone before it was answered");
        }
        Err(error) => return Err(ringway_net::Error::other(error)),
    }
    Ok(())
}

/// Answers requests until one is upgraded, which is returned, or the last one has been answered.
async fn serve_requests(
    io: IoStream,
    limits: HttpLimits,
    watch: &PeerWatch,
    replies: &ReplyAccount,
    respond: &impl AsyncFn(Request) -> Response,
) -> hyper::Result<Option<(Upgrade, Upgraded)>> {
    let drain = io.connection().drain_token();
    let peer = io.connection().downgrade();
    let (upgrade, is_answered) = (Cell::new(None), Cell::new(false));
    let left_over = LeftOver::default();
    let service = service_fn(async |request: http::Request<Incoming>| {
        watch.stop();
        is_answered.set(false);
        let (is_awaited, body_bytes_max) = (is_awaited(request.headers()), limits.body_bytes_max);
        let request = request.map(|body| {
            let (watch, replies, left_over) = (watch.clone(), replies.clone(), left_over.clone());
            RequestBody::new(body, body_bytes_max, is_awaited, watch, replies, left_over)
        });
        let mut response = answer(respond, request, &left_over).await;
        is_answered.set(true);
        upgrade.set(response.body_mut().take_upgrade());
        if response.body().is_stream()
            && let Some(peer) = peer.upgrade()
        {
            // A client that does not read keeps this much of its reply in memory.
            peer.set_send_marks(limits::STREAM_HIGH_WATER, limits::STREAM_LOW_WATER);
        }
        Ok::<_, Infallible>(
            response.map(|body| CountedBody::new(body, replies.clone(), peer.clone())),
        )
    });
    let mut serving = http1::Builder::new()
        .timer(HyperTimer)
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .max_headers(limits::FIELDS_MAX)
        .half_close(true)
        .serve_connection(QueuedIo::new(io, watch.clone(), replies.clone()), service);
    let mut draining = pin!(async {
        match &drain {
            Some(drain) => drain.cancelled().await,
            None => std::future::pending().await,
        }
    });
    let (mut is_draining, mut late_drain) = (false, LateDrain::new(left_over.clone()));
    poll_fn(|cx| {
        let mut serving = Pin::new(&mut serving);
        if !is_draining && draining.as_mut().poll(cx).is_ready() {
            is_draining = true;
            serving.as_mut().graceful_shutdown();
        }
        let polled = serving.poll(cx);
        if is_answered.get() {
            late_drain.poll(cx);
        }
        polled
    })
    .await?;
    let parts = serving.into_parts();
    Ok(upgrade
        .take()
        .map(|upgrade| (upgrade, Upgraded::new(parts.io.into_inner(), parts.read_buf))))
}

async fn answer(
    respond: &impl AsyncFn(Request) -> Response,
    mut request: Request,
    left_over: &LeftOver,
) -> Response {
    let (mut response, may_go_on) = match check(&mut request) {
        Ok(()) => {
            let is_head = *request.method() == Method::HEAD;
            let mut response = respond(request).await;
            let length = response.body().size_hint().exact();
            let has_content = response.status() != StatusCode::NOT_MODIFIED;
            let length = length.filter(|length| has_content && (!is_head || *length > 0));
            set_length(response.headers_mut(), length);
            let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            (response, is_upgrade || left_over.drain().await)
        }
        // The bytes that follow may belong to the refused request.
        Err(error) => (error.into(), false),
    };
    if !may_go_on {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether a client waits to be asked for the body of its request.
pub(crate) fn is_awaited(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Makes the length that somebody has set that of the body, if that is known. Who passes on the fields of another message,
/// with other content, would otherwise have the next message of the connection read as a part of this one. How that was
/// transferred is nobody's business here.
pub(crate) fn set_length(headers: &mut HeaderMap, length: Option<u64>) {
    headers.remove(TRANSFER_ENCODING);
    if let Some(length) = length.filter(|_| headers.contains_key(CONTENT_LENGTH)) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}

/// Refuses requests that no handler may see, and gives the others the form that handlers expect: the URI is the path
/// with its query, and `Host` is the server that is meant.
fn check(request: &mut Request) -> Result<()> {
    if *request.method() == Method::CONNECT {
        let message = "CONNECT is not served here: this is no proxy";
        return Err(Error::new(StatusCode::NOT_IMPLEMENTED, message));
    }
    // RFC 9112 section 3.2: a request without Host, with two, or with an invalid one gets 400.
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, other) = (hosts.next(), hosts.next());
    if other.is_some() || host.is_none() && request.version() == Version::HTTP_11 {
        return Err(Error::bad_request("a request names exactly one Host"));
    }
    if host.is_some_and(|host| !host.is_empty() && !is_host(host.as_bytes())) {
        return Err(Error::bad_request("the Host is malformed"));
    }
    check_coding(request.headers())?;
    take_authority(request)?;
    check_target(request)
}

/// RFC 9112 section 6.1: "A server that receives a request message with a transfer coding it does not understand SHOULD
/// respond with 501", and "A sender MUST NOT apply the chunked transfer coding more than once to a message body".
fn check_coding(headers: &HeaderMap) -> Result<()> {
    let values = headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let is_chunked = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(first), None) if is_chunked(first) => Ok(()),
        (Some(first), Some(_)) if is_chunked(first) => {
            Err(Error::bad_request("a body is in chunks once"))
        }
        _ => {
            let message = "of transfer codings, only chunked is taken";
            Err(Error::new(StatusCode::NOT_IMPLEMENTED, message))
        }
    }
}

/// Makes the authority of a whole URL the `Host`. RFC 9112 section 3.2.2: "When an origin server receives a request with
/// an absolute-form of request-target, the origin server MUST ignore the received Host header field (if any) and
/// instead use the host information of the request-target."
fn take_authority(request: &mut Request) -> Result<()> {
    let Some(authority) = request.uri().authority() else { return Ok(()) };
    // Section 3.2.3: a target that is an authority alone is for CONNECT.
    if request.uri().scheme().is_none() {
        return Err(Error::bad_request("a target is a path or a whole URL"));
    }
    let host = HeaderValue::from_str(authority.as_str()).ok();
    let host = host.filter(|host| is_host(host.as_bytes()));
    let host = host.ok_or_else(|| Error::bad_request("the host of the URL is malformed"))?;
    let target = request.uri().path_and_query().cloned();
    *request.uri_mut() = target.map_or_else(|| Uri::from_static("/"), Uri::from);
    request.headers_mut().insert(HOST, host);
    Ok(())
}

/// Whether a text can be a `Host` or `:authority`: a host, perhaps with a port, and no user.
pub(crate) fn is_host(text: &[u8]) -> bool {
    let is_sound = || Authority::try_from(text).is_ok_and(|it| has_port_or_none(&it));
    is_plain_host(text) || !text.contains(&b'@') && is_sound()
}

/// Whether it is a name or an IPv4 address, perhaps with a port. Nearly all are, and this takes no memory.
fn is_plain_host(text: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let name_len = text.iter().take_while(|byte| is_of_name(byte)).count();
    match text[name_len..].split_first() {
        None => name_len > 0,
        Some((b':', port)) => name_len > 0 && std::str::from_utf8(port).is_ok_and(is_port),
        Some(_) => false,
    }
}

/// Whether what follows the host is nothing, a colon, or a colon and a port.
pub(crate) fn has_port_or_none(authority: &Authority) -> bool {
    let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    let port = port.strip_prefix(':').unwrap_or_default();
    port.is_empty() || is_port(port)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Refuses a target that is too long.
pub(crate) fn check_target(request: &Request) -> Result<()> {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > limits::TARGET_BYTES_MAX {
        return Err(Error::new(StatusCode::URI_TOO_LONG, "the path is longer than 8 KiB"));
    }
    Ok(())
}
