//! WebSockets of a client.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::uri::Scheme;
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper::body::Incoming;
use ringway_wire::websocket::CAN_DEFLATE;

use super::{Client, Server, addressed, lost, plain};
use crate::upgrade::Upgraded;
use crate::websocket::{Agreed, DEFLATE, Side, accept_key, has_token, is_agreed, new_key};
use crate::{Body, Error, Result, WebSocket, WebSocketLimits};

impl Client {
    /// Opens a WebSocket at a URL that begins with `ws://` or `wss://`.
    ///
    /// # Errors
    /// Fails as [`websocket_with`](Self::websocket_with) does.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn ask() -> ringway_http::Result<()> {
    /// use ringway_http::{Client, CloseCode};
    ///
    /// let mut socket = Client::new().websocket("wss://example.org/echo").await?;
    /// socket.send("hello").await?;
    /// println!("{:?}", socket.recv().await?);
    /// socket.close(CloseCode::NORMAL, "that was all").await
    /// # }
    /// ```
    pub async fn websocket(&self, url: &str) -> Result<WebSocket> {
        let (parts, _body) = plain(Method::GET, url, Body::empty())?.into_parts();
        let request = http::Request::from_parts(parts, ());
        self.websocket_with(request, WebSocketLimits::default()).await
    }

    /// Opens a WebSocket with the URL and the headers of a request, such as `sec-websocket-protocol` or
    /// `authorization`, and with other limits. Each WebSocket has its own connection.
    ///
    /// # Errors
    /// 400 if the request is invalid, the server's status if it refuses, and 502 if its
    /// response is wrong; otherwise as [`request`](Self::request).
    pub async fn websocket_with(
        &self,
        request: http::Request<()>,
        limits: WebSocketLimits,
    ) -> Result<WebSocket> {
        let mut request = request.map(|()| Body::empty());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = with_scheme_of_http(std::mem::take(request.uri_mut()))?;
        let key = new_key();
        let offered = request.headers().get(SEC_WEBSOCKET_PROTOCOL).cloned();
        let headers = request.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, key.as_str().try_into().expect("base64"));
        headers.remove(SEC_WEBSOCKET_EXTENSIONS);
        let deflates = limits.permessage_deflate && CAN_DEFLATE;
        if deflates {
            headers.insert(SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static(DEFLATE));
        }
        let (server, request) = addressed(request)?;
        let exchange = self.upgrade(&server, request);
        let (response, upgraded) = self.in_time(&server, exchange).await?;
        let agreed = check(&response, &key, offered.as_ref(), deflates)
            .map_err(|error| Error::new(error.status(), format!("{server} {}", error.message())))?;
        let upgraded = upgraded.ok_or_else(|| wrong("has not upgraded the connection"))?;
        Ok(WebSocket::new(Side::Client, upgraded, limits, agreed))
    }

    /// Sends a request on its own connection, and returns the connection if the response is a 101.
    async fn upgrade(
        &self,
        server: &Server,
        request: http::Request<Body>,
    ) -> Result<(http::Response<Incoming>, Option<Upgraded>)> {
        let (mut link, mut connection) = self.open(server).await?;
        let mut answering = pin!(link.sender.send_request(request));
        let mut has_ended = None;
        let response = poll_fn(|cx| {
            if has_ended.is_none()
                && let Poll::Ready(ended) = connection.poll_without_shutdown(cx)
            {
                has_ended = Some(ended);
            }
            answering.as_mut().poll(cx)
        });
        let response = response.await.map_err(|error| lost(server, &error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok((response, None));
        }
        let ended = match has_ended {
            Some(ended) => ended,
            None => poll_fn(|cx| connection.poll_without_shutdown(cx)).await,
        };
        ended.map_err(|error| lost(server, &error))?;
        let parts = connection.into_parts();
        Ok((response, Some(Upgraded::new(parts.io.into_inner(), parts.read_buf))))
    }
}

fn with_scheme_of_http(uri: Uri) -> Result<Uri> {
    let scheme = match uri.scheme_str() {
        Some("ws") => Scheme::HTTP,
        Some("wss") => Scheme::HTTPS,
        _ => {
            let message = format!("{uri} cannot be opened: a URL begins with ws:// or wss://");
            return Err(Error::bad_request(message));
        }
    };
    let mut parts = uri.into_parts();
    parts.scheme = Some(scheme);
    Uri::from_parts(parts).map_err(|error| Error::bad_request(format!("this is no URL: {error}")))
}

/// Checks the server's response: RFC 6455 section 4.1. Returns what it has chosen of our offers.
fn check(
    response: &http::Response<Incoming>,
    key: &str,
    offered: Option<&HeaderValue>,
    deflates: bool,
) -> Result<Agreed> {
    let (status, headers) = (response.status(), response.headers());
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::new(status, format!("has answered {status} instead of a WebSocket")));
    }
    let accepts =
        headers.get(SEC_WEBSOCKET_ACCEPT).is_some_and(|it| *it == accept_key(key.as_bytes()));
    if !has_token(headers, &UPGRADE, "websocket")
        || !has_token(headers, &CONNECTION, "upgrade")
        || !accepts
    {
        return Err(wrong("has answered 101 to something else"));
    }
    let deflates = is_agreed(headers, deflates).map_err(wrong)?;
    Ok(Agreed { protocol: chosen_protocol(headers, offered)?, deflates })
}

fn chosen_protocol(headers: &HeaderMap, offered: Option<&HeaderValue>) -> Result<Option<String>> {
    let Some(chosen) = headers.get(SEC_WEBSOCKET_PROTOCOL) else { return Ok(None) };
    let chosen = chosen.to_str().unwrap_or_default();
    let offered = offered.and_then(|offered| offered.to_str().ok()).unwrap_or_default();
    match offered.split(',').any(|one| one.trim() == chosen) {
        true => Ok(Some(chosen.to_owned())),
        false => Err(wrong("speaks a protocol that was not offered")),
    }
}

fn wrong(what: &'static str) -> Error {
    Error::new(StatusCode::BAD_GATEWAY, what)
}
