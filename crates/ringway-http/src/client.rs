//! An HTTP/1.1 client.

mod idle;
mod websocket;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{Method, Uri};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use ringway_net::ClientTls;
use ringway_runtime::{spawn_named, timeout};
use serde::de::DeserializeOwned;

use self::idle::{Idle, Link, Pool};
use crate::body::{Gathered, next_chunk};
use crate::pace::Pace;
use crate::peer_watch::PeerWatch;
use crate::queued_io::QueuedIo;
use crate::reply_account::ReplyAccount;
use crate::serve::{has_port_or_none, set_length};
use crate::{Body, Error, Result, limits};

/// A client of HTTP/1.1 servers, for the tasks of one core; clones share their connections.
///
/// A connection is reused once its reply has been read to the end, if its request has been sent to the end as well. If the server has closed it meanwhile, so that a
/// request cannot be sent on it, the request goes to a new one. So does a GET or HEAD without a body that the server has not
/// answered before it closed such a connection; any other request that may have been sent is never sent twice.
///
/// # Examples
///
/// ```no_run
/// # async fn ask() -> ringway_http::Result<()> {
/// use ringway_http::Client;
///
/// let client = Client::new();
/// let response = client.get("https://example.org/health").await?;
/// println!("{}", response.status());
/// let text = response.into_body().bytes(64 << 10).await?; // 64 KiB at most
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    pool: Rc<Pool>,
    tls: Option<ClientTls>,
    timeout: Duration,
}

impl Default for Client {
    fn default() -> Self {
        Self { pool: Rc::default(), tls: None, timeout: limits::REQUEST_TIMEOUT }
    }
}

impl Client {
    /// Makes a client without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time limit from a request to the head of its reply; 10 s if not set. The body has
    /// its own limits: 30 s without a byte, and 1,000 bytes/s on average after the first 30 s of waiting.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Sets the trusted certificates and the client's own for `https`; the machine's roots if not set. The client has
    /// connections of its own from then on.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        // Those of its clones were opened by another trust, and perhaps in another name.
        self.pool = Rc::default();
        self.tls = Some(tls.alpn(["http/1.1"]));
        self
    }

    /// Sends a GET request to `url`.
    ///
    /// # Errors
    /// Fails as [`request`](Self::request) does.
    pub async fn get(&self, url: &str) -> Result<http::Response<ClientBody>> {
        self.request(plain(Method::GET, url, Body::empty())?).await
    }

    /// Sends a POST request with `body` of the type `content_type` to `url`.
    ///
    /// # Errors
    /// Fails as [`request`](Self::request) does.
    pub async fn post(
        &self,
        url: &str,
        content_type: &'static str,
        body: impl Into<Body>,
    ) -> Result<http::Response<ClientBody>> {
        let mut request = plain(Method::POST, url, body.into())?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.request(request).await
    }

    /// Sends a request, whose URI is a complete `http` or `https` URL, and returns the response, whatever
    /// its status.
    ///
    /// # Errors
    /// 400 if the URL is invalid, 503 if there is no connection or it was lost, 504
    /// if no reply came in time. After the last two, the request may or may not have had an effect.
    pub async fn request(
        &self,
        request: http::Request<Body>,
    ) -> Result<http::Response<ClientBody>> {
        let (server, request) = addressed(request)?;
        self.in_time(&server, self.exchange(&server, request)).await
    }

    async fn in_time<T>(
        &self,
        server: &Server,
        exchange: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match timeout(self.timeout, exchange).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => {
                let limit = self.timeout;
                Err(Error::timeout(format!("{server} has not answered within {limit:?}")))
            }
        }
    }

    async fn exchange(
        &self,
        server: &Server,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<ClientBody>> {
        let watch = request.body_mut().watched();
        loop {
            let (mut link, is_new) = match self.pool.take(server) {
                Some(link) => (link, false),
                None => (self.connect(server).await?, true),
            };
            if link.sender.ready().await.is_err() && !is_new {
                continue; // the server has closed it meanwhile
            }
            let again = if is_new { None } else { repeatable(&request) };
            match link.sender.try_send_request(request).await {
                Ok(response) => {
                    let idle = Idle::new(Rc::clone(&self.pool), server.clone(), link, watch);
                    return Ok(response.map(|incoming| ClientBody::new(incoming, idle)));
                }
                Err(mut failed) => match failed.take_message().filter(|_| !is_new).or(again) {
                    Some(unsent) => request = unsent,
                    None => return Err(lost(server, failed.error())),
                },
            }
        }
    }

    async fn connect(&self, server: &Server) -> Result<Link> {
        let (link, connection) = self.open(server).await?;
        // The request that waits for it gets the error.
        spawn_named("HTTP client", async move { drop(connection.await) });
        Ok(link)
    }

    async fn open(&self, server: &Server) -> Result<(Link, http1::Connection<QueuedIo, Body>)> {
        let failed = |error: ringway_net::Error| Error::unavailable(format!("{server}: {error}"));
        let mut client = ringway_net::Client::new(server.address()).map_err(failed)?;
        client = client.attempts_max(1);
        if let Some(tls) = &self.tls {
            client = client.tls(tls.clone());
        }
        let io = client.open().await.map_err(failed)?.into_io();
        let peer = io.connection().downgrade();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(limits::HEAD_BYTES_MAX.max(64 << 10))
            .max_headers(limits::FIELDS_MAX)
            .handshake(QueuedIo::new(io, PeerWatch::default(), ReplyAccount::default()))
            .await
            .map_err(|error| lost(server, &error))?;
        Ok((Link { sender, peer }, connection))
    }
}

/// Returns a copy of a request that may be sent again when a connection that was used before has closed without an answer
/// (RFC 9112, section 9.3.1).
fn repeatable(request: &http::Request<Body>) -> Option<http::Request<Body>> {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = http::Request::new(Body::empty());
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    *copy.version_mut() = request.version();
    Some(copy)
}

fn lost(server: &Server, error: &hyper::Error) -> Error {
    Error::unavailable(format!("the connection to {server} was lost: {error}"))
}

fn plain(method: Method, url: &str, body: Body) -> Result<http::Request<Body>> {
    let uri = url.parse::<Uri>();
    let uri =
        uri.map_err(|error| Error::bad_request(format!("{url} is not a valid URL: {error}")))?;
    let mut request = http::Request::new(body);
    (*request.method_mut(), *request.uri_mut()) = (method, uri);
    Ok(request)
}

/// The server of a request, and the request as it is sent.
fn addressed(mut request: http::Request<Body>) -> Result<(Server, http::Request<Body>)> {
    let uri = std::mem::take(request.uri_mut());
    let why_not = |why| Error::bad_request(format!("{uri} cannot be asked: {why}"));
    let is_tls = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => false,
        Some(scheme) if *scheme == Scheme::HTTPS => true,
        _ => return Err(why_not("a URL begins with http:// or https://")),
    };
    let authority = uri.authority().ok_or_else(|| why_not("it names no host"))?.clone();
    if authority.as_str().contains('@') {
        return Err(why_not("users and passwords belong into a header"));
    }
    if !has_port_or_none(&authority) {
        return Err(why_not("its port is no number up to 65535"));
    }
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let target = target.parse::<Uri>().map_err(|_| why_not("its path is malformed"))?;
    if !request.headers().contains_key(HOST) {
        let host = HeaderValue::from_str(authority.as_str());
        request.headers_mut().insert(HOST, host.map_err(|_| why_not("its host is malformed"))?);
    }
    *request.uri_mut() = target;
    let length = request.body().size_hint().exact();
    set_length(request.headers_mut(), length);
    Ok((Server { is_tls, authority }, request))
}

/// A server with reusable connections.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Server {
    is_tls: bool,
    authority: Authority,
}

impl Server {
    fn address(&self) -> String {
        let (scheme, port) = if self.is_tls { ("tls", 443) } else { ("tcp", 80) };
        let port = self.authority.port_u16().unwrap_or(port);
        format!("{scheme}://{}:{port}", self.authority.host())
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.authority.as_str())
    }
}

/// The body of a reply, read in pieces. Reading it to the end frees its connection, and dropping it before closes
/// the connection.
#[derive(Debug)]
pub struct ClientBody {
    incoming: Incoming,
    pace: Pace,
    idle: Option<Idle>,
}

impl ClientBody {
    fn new(incoming: Incoming, idle: Idle) -> Self {
        let mut body = Self { incoming, pace: Pace::default(), idle: Some(idle) };
        body.note_end();
        body
    }

    /// Returns the next piece, which is not empty; `None` at the end.
    ///
    /// # Errors
    /// 400 if the body is incomplete, 408 if it arrives too slowly.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        let chunk = next_chunk(&mut self.incoming, &mut self.pace, "reply").await?;
        if chunk.is_none()
            && let Some(idle) = self.idle.take()
        {
            idle.give_back();
        }
        Ok(chunk)
    }

    /// Returns the whole body, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Fails as [`chunk`](Self::chunk) does, and with 413 if the body is longer.
    pub async fn bytes(mut self, bytes_max: usize) -> Result<Bytes> {
        let mut whole = Gathered::default();
        while let Some(chunk) = self.chunk().await? {
            if whole.len() + chunk.len() > bytes_max {
                let message = format!("the reply is longer than {bytes_max} bytes");
                return Err(Error::new(http::StatusCode::PAYLOAD_TOO_LARGE, message));
            }
            whole.push(chunk);
        }
        Ok(whole.into_bytes())
    }

    /// Parses the whole body, of at most `bytes_max` bytes, as JSON.
    ///
    /// # Errors
    /// Fails as [`bytes`](Self::bytes) does, and with 400 if the body is not JSON of such a value.
    pub async fn json<T: DeserializeOwned>(self, bytes_max: usize) -> Result<T> {
        let bytes = self.bytes(bytes_max).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::bad_request(format!("the reply is not as expected: {error}")))
    }

    fn note_end(&mut self) {
        if self.incoming.is_end_stream()
            && let Some(idle) = self.idle.take()
        {
            idle.give_back();
        }
    }
}
