//! Requests that become WebSockets.

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method, StatusCode, Version};

use super::extension::{self, DEFLATE};
use super::handshake::{accept_key, has_token, is_key, tokens};
use super::peer_limits::WebSocketLimits;
use super::socket::{Agreed, Side, WebSocket};
use crate::body::{Body, Request, Response};
use crate::contained::Contained;
use crate::error::{Error, Result};
use crate::reply;
use crate::upgrade::Upgraded;
use ringway_wire::websocket::CloseCode;

/// A request that asks to become a WebSocket.
///
/// # Examples
///
/// ```
/// use ringway_http::{Router, WebSocketUpgrade};
///
/// let router = Router::new().get("/echo", async |request| {
///     WebSocketUpgrade::new(request).answer(async |socket| {
///         while let Some(message) = socket.recv().await? {
///             socket.send(message).await?;
///         }
///         Ok(())
///     })
/// });
/// # drop(router);
/// ```
#[derive(Debug)]
pub struct WebSocketUpgrade {
    request: http::request::Parts,
    protocols: Vec<String>,
    origins: Origins,
    limits: WebSocketLimits,
}

/// What a server knows of the page that has sent a request, in the request's extensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RequestPage {
    /// A page of one of the server's own hosts, whatever a proxy has made of `Host`.
    Own,
    /// A page of a host whose name may be somebody else's, which leads to this server (DNS rebinding): that it has the
    /// name of the requested host proves nothing.
    Rebound,
}

/// The origins whose pages may open a WebSocket; browsers leave this decision to the server.
#[derive(Debug)]
enum Origins {
    Any,
    /// The origin of this server, and these.
    Own(Vec<String>),
}

impl WebSocketUpgrade {
    /// Wraps a request that was routed to a WebSocket.
    pub fn new(request: Request) -> Self {
        let (request, _body) = request.into_parts();
        let (protocols, origins) = (Vec::new(), Origins::Own(Vec::new()));
        Self { request, protocols, origins, limits: WebSocketLimits::default() }
    }

    /// Sets the subprotocols, the best one first; clients name theirs in
    /// `Sec-WebSocket-Protocol`. There are none by default.
    #[must_use]
    pub fn protocols<P: Into<String>>(mut self, names: impl IntoIterator<Item = P>) -> Self {
        self.protocols = names.into_iter().map(Into::into).collect();
        self
    }

    /// Lets pages of another origin, such as `https://app.example.org`, open the WebSocket.
    ///
    /// By default only pages of this server may: the origin that a browser sends must equal the requested
    /// host, or the browser says that they are the same (`Sec-Fetch-Site`), unless the server [knows](RequestPage) more. Other pages would act with the cookies of their visitors. Programs send no origin.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        if let Origins::Own(others) = &mut self.origins {
            others.push(origin.into());
        }
        self
    }

    /// Lets pages of any origin open the WebSocket, for public services or those that do not use cookies.
    #[must_use]
    pub fn any_origin(mut self) -> Self {
        self.origins = Origins::Any;
        self
    }

    /// Sets the limits on the peer.
    #[must_use]
    pub fn limits(mut self, limits: WebSocketLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Accepts the request, and lets `handler` serve the WebSocket.
    ///
    /// When the handler ends, it is closed: with [`CloseCode::NORMAL`], with
    /// [`CloseCode::AWAY`] while the server drains, and with [`CloseCode::INTERNAL`] and the text of its error
    /// when it fails.
    ///
    /// # Errors
    /// 400 if the handshake is wrong, 403 if a page of another origin has sent it. Other requests get
    /// 426, and those over HTTP/2 get 501.
    pub fn answer<F>(self, handler: F) -> Result<Response>
    where
        F: AsyncFnOnce(&mut WebSocket) -> Result + 'static,
    {
        let Self { request, protocols, origins, limits } = self;
        let headers = &request.headers;
        if request.version == Version::HTTP_2 {
            // RFC 8441 needs a special kind of stream, which our HTTP/2 does not offer.
            let message = "a WebSocket needs a connection of HTTP/1.1";
            return Err(Error::new(StatusCode::NOT_IMPLEMENTED, message));
        }
        if !has_token(headers, &UPGRADE, "websocket")
            || headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13")
        {
            return Ok(upgrade_required());
        }
        let key = check(&request)?;
        if !origins.allow(headers, request.extensions.get().copied()) {
            return Err(foreign(headers));
        }
        let offers = |name: &&String| {
            tokens(headers, &SEC_WEBSOCKET_PROTOCOL).any(|offered| offered == name.as_str())
        };
        let protocol = protocols.iter().find(offers).cloned();
        let deflates = limits.permessage_deflate && extension::is_offered(headers);
        let agreed = Agreed { protocol, deflates };
        let mut response = switching(accept_key(key), &agreed)?;
        *response.body_mut() = Body::upgrade(Box::new(move |upgraded| {
            Box::pin(serve(upgraded, limits, agreed, handler))
        }));
        Ok(response)
    }
}

impl Origins {
    fn allow(&self, headers: &HeaderMap, page: Option<RequestPage>) -> bool {
        let (Self::Own(others), Some(origin)) = (self, headers.get(ORIGIN)) else { return true };
        let Ok(origin) = origin.to_str() else { return false };
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let own = origin.split_once("://").zip(host);
        let is_same = || own.is_some_and(|((_, own), host)| own.eq_ignore_ascii_case(host));
        let is_own = match page {
            Some(RequestPage::Own) => true,
            Some(RequestPage::Rebound) => false,
            None => is_same() || is_same_origin(headers),
        };
        is_own || others.iter().any(|other| other.eq_ignore_ascii_case(origin))
    }
}

/// Whether the browser says that the page is of the origin that it asks, whatever proxies have made of `Host`. No page can
/// set this field.
fn is_same_origin(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin")
}

fn foreign(headers: &HeaderMap) -> Error {
    let said = |name| {
        let value = headers.get(name).map_or(&b"none"[..], HeaderValue::as_bytes);
        String::from_utf8_lossy(value).into_owned()
    };
    let (origin, host) = (said(ORIGIN), said(HOST));
    let message = format!(
        "a page of another origin may not open this WebSocket: its origin is {origin}, and the request is for \
         {host}. WebSocketUpgrade::origin allows it, and Server::hosts lists the server's own names, also where a \
         proxy changes Host"
    );
    Error::new(StatusCode::FORBIDDEN, message)
}

/// Returns the key of a correct handshake: RFC 6455 section 4.2.1.
fn check(request: &http::request::Parts) -> Result<&[u8]> {
    let headers = &request.headers;
    let wrong = |what| Err(Error::bad_request(what));
    if request.method != Method::GET || request.version != Version::HTTP_11 {
        return wrong("a WebSocket begins with a GET of HTTP/1.1");
    }
    if !has_token(headers, &CONNECTION, "upgrade") {
        return wrong("a WebSocket begins with `connection: upgrade`");
    }
    if headers.contains_key(TRANSFER_ENCODING)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
    {
        return wrong("a request for a WebSocket has no body");
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).into_iter();
    match (keys.next(), keys.next()) {
        (Some(key), None) if is_key(key.as_bytes()) => Ok(key.as_bytes()),
        _ => wrong("a WebSocket begins with one `sec-websocket-key` of sixteen bytes"),
    }
}

/// The response to a handshake: RFC 6455 section 4.2.2 and RFC 9110 section 15.5.22.
fn upgrade_required() -> Response {
    let mut response = reply::text("this is a WebSocket, version 13\n");
    *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    response
}

fn switching(accept: String, agreed: &Agreed) -> Result<Response> {
    let mut response = reply::status(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept.try_into().expect("base64"));
    if agreed.deflates {
        headers.insert(SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static(DEFLATE));
    }
    if let Some(protocol) = &agreed.protocol {
        let protocol = HeaderValue::from_str(protocol);
        let protocol = protocol.map_err(|_| Error::internal("a protocol's name is no token"))?;
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

async fn serve<F>(upgraded: Upgraded, limits: WebSocketLimits, agreed: Agreed, handler: F)
where
    F: AsyncFnOnce(&mut WebSocket) -> Result + 'static,
{
    let mut socket = WebSocket::new(Side::Server, upgraded, limits, agreed);
    let handling = Contained::begin(|| Box::pin(handler(&mut socket)));
    let outcome = handling.await;
    let (code, reason) = match &outcome {
        Ok(()) if socket.connection().is_draining() => (CloseCode::AWAY, "the server stops"),
        Ok(()) => (CloseCode::NORMAL, ""),
        Err(error) => (CloseCode::INTERNAL, error.message()),
    };
    socket.finish(code, reason).await;
}
