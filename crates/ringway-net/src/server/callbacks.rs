//! Serving connections with callbacks, without a task for each.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use ringway_runtime::io::{Incoming, Next};

use super::context::{CoreContext, Serve};
use super::failures::{report_error, report_panic};
use crate::connection::{Connection, Peer};
use crate::error::Error;
use crate::handler::Handler;
use crate::session::ConnectionId;
use crate::spans;
use crate::tls::TlsStream;

/// Makes the `Serve` that gives every connection a handler made by `make`.
pub(crate) fn one_each<H: Handler>(make: impl Fn() -> H + 'static) -> Serve {
    Box::new(move |context, connection| serve(context, connection, &make))
}

fn serve<H: Handler>(context: &Rc<CoreContext>, connection: Connection, make: impl FnOnce() -> H) {
    let span = spans::of_connection(&connection);
    let peer = connection.into_peer();
    let made = contain(context, peer.id(), || span.in_scope(make));
    let Some(handler) = made else { return peer.abort() };
    let inner = Rc::clone(peer.inner());
    let (context, own) = (Rc::clone(context), Rc::clone(context));
    let mut serving = Some(Served { context: own, handler, peer, last: None });
    let mut step = move |step: Step| {
        let Some(served) = &mut serving else { return Next::Close };
        let _entered = span.enter();
        let id = served.peer.id();
        match contain(&context, id, || served.take(step)) {
            Some(Next::Continue) => return Next::Continue,
            Some(Next::Close) => {}
            None => served.peer.abort(),
        }
        if let Some(Served { handler, .. }) = serving.take() {
            contain(&context, id, || drop(handler));
        }
        Next::Close
    };
    if step(Step::Open) == Next::Continue {
        inner.stream().set_callback(move |incoming| step(Step::Incoming(incoming)));
    }
}

/// A connection and its handler.
struct Served<H> {
    context: Rc<CoreContext>,
    handler: H,
    peer: Peer,
    /// How the stream under TLS has ended, while plaintext still waits.
    last: Option<io::Result<()>>,
}

/// An event of a connection.
enum Step {
    Open,
    Incoming(Incoming),
}

impl<H: Handler> Served<H> {
    fn take(&mut self, step: Step) -> Next {
        match step {
            Step::Open => self.open(),
            Step::Incoming(incoming) if self.peer.is_tls() => self.decrypt(incoming),
            Step::Incoming(incoming) => self.deliver(incoming),
        }
    }

    fn open(&mut self) -> Next {
        let closes = self.peer.inner().closes();
        self.handler.on_open(&self.peer);
        match self.goes_on(closes) {
            // Plaintext may have come with the end of the handshake.
            Next::Continue if self.peer.is_tls() => self.deliver_decrypted(),
            next => next,
        }
    }

    /// Calls the handler. After the last call sending is finished, unless the connection has
    /// failed.
    fn deliver(&mut self, incoming: Incoming) -> Next {
        let closes = self.peer.inner().closes();
        match incoming {
            Incoming::Data(view) => {
                self.peer.inner().note_bytes();
                self.handler.on_message(&self.peer, view);
            }
            Incoming::Drained => self.handler.on_drained(&self.peer),
            Incoming::Eof => return self.close(None),
            Incoming::Failed(error) => return self.close(Some(&error.into())),
        }
        self.goes_on(closes)
    }

    /// Ends at once if the handler has asked for it during its call. If others have asked, or the
    /// server drains, the stream reports the end after the received bytes.
    fn goes_on(&mut self, closes: u32) -> Next {
        match self.peer.inner().closes() == closes {
            true => Next::Continue,
            false => self.close(None),
        }
    }

    fn close(&mut self, error: Option<&Error>) -> Next {
        if let Some(error) = error {
            report_error(&self.context, self.peer.id(), error);
        }
        self.handler.on_close(&self.peer, error);
        if error.is_none() {
            self.peer.inner().finish();
        }
        Next::Close
    }

    /// Delivers an event of a TLS connection: decrypts its bytes first.
    fn decrypt(&mut self, incoming: Incoming) -> Next {
        let inner = Rc::clone(self.peer.inner());
        let Some(tls) = inner.tls() else { return Next::Close };
        match incoming {
            Incoming::Data(ciphertext) => tls.give(ciphertext),
            Incoming::Eof => self.last = Some(Ok(())),
            Incoming::Failed(error) => self.last = Some(Err(error)),
            Incoming::Drained => {
                if self.deliver(Incoming::Drained) == Next::Close {
                    return Next::Close;
                }
            }
        }
        self.deliver_decrypted()
    }

    /// Delivers plaintext until none is left, or until receiving must wait for room.
    fn deliver_decrypted(&mut self) -> Next {
        let inner = Rc::clone(self.peer.inner());
        let Some(tls) = inner.tls() else { return Next::Close };
        while !inner.stream().waits_for_room() {
            let Some(plain) = tls.next_plain() else {
                return self.tell_end(tls);
            };
            if self.deliver(Incoming::Data(plain)) == Next::Close {
                return Next::Close;
            }
        }
        tls.waits();
        Next::Continue
    }

    /// Delivers the end, if it has come: that of the session, or else that of the stream.
    fn tell_end(&mut self, tls: &TlsStream) -> Next {
        match self.last.take() {
            Some(Err(error)) if tls.end().is_none() => {
                return self.deliver(Incoming::Failed(error));
            }
            Some(_) => tls.stream_ended(),
            None => {}
        }
        match tls.end() {
            None => Next::Continue,
            Some(Ok(())) => self.deliver(Incoming::Eof),
            Some(Err(error)) => self.deliver(Incoming::Failed(error.into())),
        }
    }
}

/// Runs a callback; returns `None` if it panicked.
fn contain<T>(context: &CoreContext, id: ConnectionId, call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => Some(value),
        Err(panic) => {
            report_panic(context, id, panic);
            None
        }
    }
}
