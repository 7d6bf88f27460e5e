//! JSON-RPC over HTTP: the content of a POST is one text, and so is each message of a WebSocket.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Poll, ready};

use bytes::Bytes;
use ringway_http::http::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, UPGRADE,
};
use ringway_http::http::{Method, StatusCode};
use ringway_http::{
    Body, CloseCode, Error, PeerWatch, Request, Response, WebSocket, WebSocketLimits,
    WebSocketMessage, WebSocketUpgrade,
};
use ringway_runtime::{Sleep, sleep};
use ringway_wire::grpc::parse_timeout;
use ringway_wire::native::MetaWriter;

use super::notifications::Notifications;
use super::texts::{GivenUp, JsonTexts};
use crate::call::context::Site;
use crate::call::json::OURS_FIELD;
use crate::limits;
use crate::server::core::ServerCore;
use crate::server::direct::ENDED;
use crate::server::web;

/// The way from an HTTP connection to the calls of JSON-RPC.
pub(crate) struct JsonDoor {
    core: Rc<ServerCore>,
    site: Rc<Site>,
    /// The calls that come by POST, between two of them.
    posted: Cell<Option<JsonTexts>>,
}

impl JsonDoor {
    pub(crate) fn new(core: Rc<ServerCore>, site: Rc<Site>) -> Self {
        Self { core, site, posted: Cell::default() }
    }

    /// Whether JSON-RPC answers this request, and not what the program or a library has at this path.
    pub(crate) fn is_for(&self, request: &Request) -> bool {
        let (settings, side_doors) = (self.core.settings(), self.core.shared().side_doors());
        let (path, headers) = (request.uri().path(), request.headers());
        if settings.json_paths.iter().all(|json_path| json_path != path) {
            return false;
        }
        let (has_routes, has_page) = (side_doors.routes.is_some(), side_doors.pages.has(path));
        if is_web_socket(headers) || !has_routes && !has_page {
            return true;
        }
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_asked_for = || side_doors.cors.is_some() && asks_for_json(request);
        !is_read && (!has_routes || is_json(headers) || is_asked_for())
    }

    pub(crate) async fn answer(&self, request: Request) -> Response {
        web::from_page(&self.core, &self.site, request, async |request| {
            let answered = match is_web_socket(request.headers()) {
                true => self.open_web_socket(request),
                false => self.post(request).await,
            };
            answered.unwrap_or_else(Response::from)
        })
        .await
    }

    async fn post(&self, request: Request) -> Result<Response, Error> {
        let refuse = |status, text: &str| Err(Error::new(status, text.to_owned()));
        let headers = request.headers();
        if request.method() != Method::POST {
            return Ok(not_a_post());
        }
        if !is_json(headers) {
            let text = "JSON-RPC comes as application/json, application/json-rpc or application/jsonrequest";
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
        }
        if self.core.shared().is_full() {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "the server has too many calls");
        }
        let meta = metadata(headers)?;
        let watch = request.body().watch().cloned();
        let text = request.into_body().bytes().await?;
        self.answer_text(text, meta, watch).await
    }

    /// Answers one text. Its calls are cancelled when its client has gone, unless all are notifications.
    async fn answer_text(
        &self,
        text: Bytes,
        meta: Bytes,
        watch: Option<PeerWatch>,
    ) -> Result<Response, Error> {
        let open = || JsonTexts::open(&self.core, Rc::clone(&self.site), false);
        let texts = self.posted.take().unwrap_or_else(open);
        if !texts.take(&text, &meta) {
            drop((text, meta));
            watch.iter().for_each(PeerWatch::start);
            let answer = self.carry_out(texts).await;
            watch.iter().for_each(PeerWatch::stop);
            return answer;
        }
        drop((text, meta)); // the calls have what they need of it
        if let Some(watch) = &watch {
            watch.start();
        }
        let answer = texts.answer().await;
        if let Some(watch) = &watch {
            watch.stop();
        }
        let answer = answer.map_err(|GivenUp| Error::unavailable(ENDED))?;
        self.keep(texts);
        Ok(response(answer))
    }

    /// Carries out notifications, of which nobody awaits an answer, even if their client goes, as far as there is
    /// [room](Notifications) for those of clients that have gone.
    async fn carry_out(&self, texts: JsonTexts) -> Result<Response, Error> {
        let left = Rc::clone(self.core.notifications());
        let max = self.core.settings().in_flight_per_connection_max;
        let texts = Notifications::new(left, max).carry_out(texts).await;
        self.keep(texts.ok_or_else(|| Error::unavailable(ENDED))?);
        Ok(response(None))
    }

    /// Keeps what carries texts for the next one.
    fn keep(&self, texts: JsonTexts) {
        if !texts.is_retired() {
            self.posted.set(Some(texts));
        }
    }

    fn open_web_socket(&self, request: Request) -> Result<Response, Error> {
        let mut limits = WebSocketLimits::default();
        limits.message_bytes_max = self.core.settings().native.settings.max_message as usize;
        let meta = metadata(request.headers())?;
        let (core, site) = (Rc::clone(&self.core), Rc::clone(&self.site));
        // The origin has been checked: `Server::cors` may allow other pages.
        let upgrade = WebSocketUpgrade::new(request).any_origin().limits(limits);
        upgrade.answer(async move |socket: &mut WebSocket| {
            converse(&JsonTexts::open(&core, site, true), socket, &meta).await
        })
    }
}

/// RFC 9110, section 15.5.6: a 405 names the methods that there are.
fn not_a_post() -> Response {
    let error = Error::new(StatusCode::METHOD_NOT_ALLOWED, "JSON-RPC is called by POST");
    let mut response = Response::from(error);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

fn response(answer: Option<Bytes>) -> Response {
    let is_answer = answer.is_some();
    let mut response = Response::new(Body::from(answer.unwrap_or_default()));
    response.headers_mut().insert(&OURS, HeaderValue::from_static("1"));
    match is_answer {
        true => {
            let kind = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, kind);
        }
        false => *response.status_mut() = StatusCode::NO_CONTENT,
    }
    response
}

static OURS: HeaderName = HeaderName::from_static(OURS_FIELD);

static TIMEOUT: HeaderName = HeaderName::from_static("ringway-timeout");

/// What the headers say of every call of a text.
fn metadata(headers: &HeaderMap) -> Result<Bytes, Error> {
    let mut meta = Vec::new();
    web::write_metadata(headers, &mut meta)
        .map_err(|status| Error::bad_request(status.message().to_owned()))?;
    if let Some(value) = headers.get(&TIMEOUT) {
        let timeout = parse_timeout(value.as_bytes())
            .ok_or_else(|| Error::bad_request("ringway-timeout is no time, such as 250m"))?;
        let timeout = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        MetaWriter::new(&mut meta).timeout_us(timeout);
    }
    Ok(meta.into())
}

/// Whether the content has one of the types that the draft of JSON-RPC over HTTP names. A page cannot post any of
/// them elsewhere without asking.
fn is_json(headers: &HeaderMap) -> bool {
    const KINDS: [&str; 3] =
        ["application/json", "application/json-rpc", "application/jsonrequest"];
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split_once(';').map_or(kind, |(kind, _)| kind).trim();
    KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// Whether a browser asks for a page if that may post what is no form, as JSON is.
fn asks_for_json(request: &Request) -> bool {
    let headers = request.headers();
    let names = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).into_iter();
    let mut names = names.filter_map(|names| names.to_str().ok()).flat_map(|it| it.split(','));
    request.method() == Method::OPTIONS
        && headers.get(ACCESS_CONTROL_REQUEST_METHOD).is_some_and(|method| method == "POST")
        && names.any(|name| name.trim().eq_ignore_ascii_case("content-type"))
}

/// Whether a WebSocket is among what the client would upgrade to.
pub(crate) fn is_web_socket(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(UPGRADE).into_iter();
    let mut offers = offers.flat_map(|offers| offers.as_bytes().split(|byte| *byte == b','));
    offers.any(|offer| offer.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

/// Carries texts between a WebSocket and its calls until either is done. A drained server refuses late calls for a
/// while: a client must not have to guess whether they were executed.
async fn converse(texts: &JsonTexts, socket: &mut WebSocket, meta: &Bytes) -> Result<(), Error> {
    let (sender, peer) = (socket.sender(), socket.connection().downgrade());
    let mut look: Option<Sleep> = None;
    texts.carry(socket.account());
    socket.outlast_drain();
    let mut linger: Option<Sleep> = None;
    loop {
        let turn = {
            let (mut receive, mut room) = (pin!(socket.recv()), pin!(sender.ready()));
            let (mut has_room, mut receives) = (false, false);
            poll_fn(|cx| {
                has_room = has_room || room.as_mut().poll(cx)?.is_ready();
                // Calls end, and their deadlines pass, whether or not the client reads.
                match texts.poll_text(cx, has_room) {
                    Poll::Ready(Ok(Some(text))) => return Poll::Ready(Ok(SocketTurn::Send(text))),
                    Poll::Ready(Ok(None)) => {
                        let linger = linger.get_or_insert_with(|| sleep(limits::DRAIN_LINGER));
                        if Pin::new(linger).poll(cx).is_ready() {
                            return Poll::Ready(Ok(SocketTurn::Drained));
                        }
                    }
                    Poll::Ready(Err(GivenUp)) => return Poll::Ready(Ok(SocketTurn::GivenUp)),
                    Poll::Pending => {}
                }
                if texts.is_full() {
                    // No message comes too slowly while nothing is read: the wait for it ends.
                    if receives {
                        return Poll::Ready(Ok(SocketTurn::Full));
                    }
                    // Nothing tells of a client that has gone meanwhile.
                    let pause = look.get_or_insert_with(|| sleep(limits::PEER_LOOK_PAUSE));
                    ready!(Pin::new(pause).poll(cx));
                    look = None;
                    let has_gone = peer.upgrade().is_none_or(|peer| peer.has_peer_ended());
                    let turn = if has_gone { SocketTurn::Drained } else { SocketTurn::Full };
                    return Poll::Ready(Ok(turn));
                }
                receives = true;
                let received = receive.as_mut().poll(cx);
                texts.settle();
                received.map_ok(SocketTurn::Received)
            })
            .await?
        };
        match turn {
            SocketTurn::Send(text) => {
                let text = String::from_utf8_lossy(&text);
                let _room_is_waited_for = sender.send_text(&text);
            }
            SocketTurn::Received(Some(WebSocketMessage::Text(text))) => {
                texts.take(text.as_bytes(), meta);
            }
            SocketTurn::Received(Some(WebSocketMessage::Binary(_))) => {
                return socket.close(CloseCode::UNSUPPORTED, "JSON-RPC is text").await;
            }
            SocketTurn::Full => {}
            SocketTurn::GivenUp => return socket.close(CloseCode::TRY_AGAIN, ENDED).await,
            SocketTurn::Received(None) | SocketTurn::Drained => return Ok(()),
        }
    }
}

/// What is next on a WebSocket.
enum SocketTurn {
    Send(Bytes),
    /// `None` is the end.
    Received(Option<WebSocketMessage>),
    /// So much is to be sent that nothing is to be received.
    Full,
    /// The server or the connection has ended, and all calls are answered; or their client has gone.
    Drained,
    /// The server is short of memory.
    GivenUp,
}
