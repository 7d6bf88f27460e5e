//! A hand-made server over the machine: it does what a test says, including faults.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime::io::{ListenOptions, Listener, Stream};
use ringway_runtime::sync::Notify;
use ringway_runtime::{JoinHandle, spawn};
use ringway_wire::native::{
    Body, Config, GoAwayCode, MetaReader, Outgoing, Reply, RequestHead, Server, ServerEvent,
    StreamId, Tag,
};

/// What a test does with a request.
pub(crate) type Behave = Rc<dyn Fn(&Rc<HandConnection>, Request)>;

/// A listener and its accepted connections.
pub(crate) struct HandServer {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Rc<RefCell<Vec<Rc<HandConnection>>>>,
    pub(crate) changed: Rc<Notify>,
    accepting: JoinHandle<()>,
}

/// One accepted connection.
pub(crate) struct HandConnection {
    stream: RefCell<Option<Rc<Stream>>>,
    machine: RefCell<Server>,
    /// Methods by the numbers of the connection.
    names: RefCell<HashMap<u32, String>>,
    origin: Instant,
    pub(crate) requests: Cell<usize>,
    /// Streams cancelled by the client, with code and reason.
    pub(crate) cancelled: RefCell<Vec<(StreamId, u8, String)>>,
    pub(crate) closed: Cell<bool>,
    changed: Rc<Notify>,
}

/// The beginning of a call, or with `head: None` a later message.
pub(crate) struct Request {
    pub(crate) stream: StreamId,
    pub(crate) head: Option<RequestHead>,
    pub(crate) method: String,
    pub(crate) meta: Vec<u8>,
    pub(crate) message: Option<Bytes>,
    pub(crate) end: bool,
}

impl HandServer {
    /// Listens on a free port of loopback.
    pub(crate) fn start(config: Config, behave: Behave) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), config, behave)
    }

    /// Starts an echo server.
    pub(crate) fn echo() -> Self {
        Self::start(Config::default(), Rc::new(|connection, request| connection.echo(request)))
    }

    /// Starts an echo server with a delay.
    pub(crate) fn slow_echo(delay: Duration) -> Self {
        Self::start(
            Config::default(),
            Rc::new(move |connection, request| {
                let connection = Rc::clone(connection);
                spawn(async move {
                    ringway_runtime::sleep(delay).await;
                    connection.echo(request);
                });
            }),
        )
    }

    pub(crate) fn at(address: SocketAddr, config: Config, behave: Behave) -> Self {
        let listener = Listener::bind(&address.into(), ListenOptions::default());
        Self::on(listener.expect("loopback has a free port"), config, behave)
    }

    /// Serves a listener, whose first clients may be connected already.
    pub(crate) fn on(listener: Listener, config: Config, behave: Behave) -> Self {
        let address = listener.local_addr().as_socket().expect("TCP");
        let connections = Rc::new(RefCell::new(Vec::new()));
        let changed = Rc::new(Notify::new());
        let accepting =
            spawn(accept(listener, config, behave, Rc::clone(&connections), Rc::clone(&changed)));
        Self { address, connections, changed, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("tcp://{}", self.address)
    }

    /// Waits until the condition holds; actions of servers wake it.
    pub(crate) async fn until(&self, mut holds: impl FnMut(&Self) -> bool) {
        while !holds(self) {
            self.changed.notified().await;
        }
    }

    pub(crate) fn connection(&self, at: usize) -> Rc<HandConnection> {
        Rc::clone(&self.connections.borrow()[at])
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.connections.borrow().iter().filter(|connection| !connection.closed.get()).count()
    }

    pub(crate) fn requests(&self) -> usize {
        self.connections.borrow().iter().map(|connection| connection.requests.get()).sum()
    }

    /// Resets all connections and stops listening.
    pub(crate) fn kill(&self) {
        self.accepting.abort();
        self.connections.borrow().iter().for_each(|connection| connection.kill());
    }
}

async fn accept(
    listener: Listener,
    config: Config,
    behave: Behave,
    connections: Rc<RefCell<Vec<Rc<HandConnection>>>>,
    changed: Rc<Notify>,
) {
    while let Ok(accepted) = listener.accept().await {
        let stream = accepted.into_stream(&Rc::default()).expect("a stream");
        stream.with_socket(|socket| socket.set_tcp_nodelay(true)).expect("an open socket");
        let connection = Rc::new(HandConnection {
            stream: RefCell::new(Some(Rc::new(stream))),
            machine: RefCell::new(Server::new(config.clone(), Duration::ZERO)),
            names: RefCell::default(),
            origin: ringway_runtime::now(),
            requests: Cell::new(0),
            cancelled: RefCell::default(),
            closed: Cell::new(false),
            changed: Rc::clone(&changed),
        });
        connections.borrow_mut().push(Rc::clone(&connection));
        changed.notify_waiters();
        changed.notify_one();
        spawn(connection.serve(Rc::clone(&behave)));
    }
}

impl HandConnection {
    async fn serve(self: Rc<Self>, behave: Behave) {
        let stream = self.stream.borrow().clone().expect("just accepted");
        while let Ok(Some(view)) = stream.recv().await {
            let mut input = &view[..];
            loop {
                let now = ringway_runtime::now() - self.origin;
                let received = self.machine.borrow_mut().receive(&mut input, now);
                let Some(event) = received.expect("clients keep to the protocol") else {
                    break;
                };
                self.on_event(event, &behave);
            }
            self.flush();
        }
        self.stream.take();
        self.closed.set(true);
        self.tell();
    }

    fn on_event(self: &Rc<Self>, event: ServerEvent<'_>, behave: &Behave) {
        match event {
            ServerEvent::Request { stream, head, meta, message, end } => {
                self.requests.set(self.requests.get() + 1);
                let method = self.method(head.method, &meta);
                let message = message.map(|message| message.into_bytes());
                let meta = meta.to_vec();
                behave(self, Request { stream, head: Some(head), method, meta, message, end });
            }
            ServerEvent::Message { stream, message, end } => {
                self.machine.borrow_mut().taken(stream, 1);
                let message = Some(message.into_bytes());
                let method = String::new();
                behave(self, Request { stream, head: None, method, meta: vec![], message, end });
            }
            ServerEvent::End { stream } => {
                let (method, message, end) = (String::new(), None, true);
                behave(self, Request { stream, head: None, method, meta: vec![], message, end });
            }
            ServerEvent::Cancelled { stream, code, reason } => {
                let reason = String::from_utf8_lossy(&reason).into_owned();
                self.cancelled.borrow_mut().push((stream, code, reason));
            }
            _ => {}
        }
        self.tell();
    }

    fn method(&self, number: u32, meta: &[u8]) -> String {
        let mut pieces = MetaReader::new(meta).map(|piece| piece.expect("whole metadata"));
        if let Some((_, name)) = pieces.find(|(tag, _)| *tag == Tag::Method) {
            let name = String::from_utf8_lossy(name).into_owned();
            self.names.borrow_mut().insert(number, name);
        }
        self.names.borrow().get(&number).cloned().expect("a method is named at first")
    }

    fn tell(&self) {
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Echoes the request's message.
    pub(crate) fn echo(&self, request: Request) {
        self.answer(request.stream, request.message.unwrap_or_default());
    }

    pub(crate) fn answer(&self, stream: StreamId, message: Bytes) -> bool {
        self.respond(stream, Reply { status: 0, meta: &[], message: Some(Body::Shared(message)) })
    }

    pub(crate) fn respond(&self, stream: StreamId, reply: Reply<'_>) -> bool {
        let status = self.machine.borrow_mut().respond(stream, reply);
        self.flush();
        status.is_some()
    }

    pub(crate) fn send(&self, stream: StreamId, meta: &[u8], message: &[u8]) {
        let sent = self.machine.borrow_mut().send(stream, meta, Body::Copy(message));
        sent.expect("an open stream");
        self.flush();
    }

    pub(crate) fn lease(&self, permits: u32) {
        self.machine.borrow_mut().lease(permits);
        self.flush();
    }

    pub(crate) fn go_away(&self, code: GoAwayCode, drain: Duration) {
        self.machine.borrow_mut().go_away(code, drain, "as the test says");
        self.flush();
    }

    /// Resets the socket without a GOAWAY.
    pub(crate) fn kill(&self) {
        if let Some(stream) = &*self.stream.borrow() {
            stream.abort();
        }
    }

    pub(crate) fn flush(&self) {
        let stream = self.stream.borrow();
        self.machine.borrow_mut().transmit(usize::MAX, &mut |out| {
            let _pressure = match (&*stream, out) {
                (Some(stream), Outgoing::Copy(bytes)) => stream.write(bytes),
                (Some(stream), Outgoing::Shared(bytes)) => stream.send(bytes),
                (None, _) => return,
            };
        });
    }
}
