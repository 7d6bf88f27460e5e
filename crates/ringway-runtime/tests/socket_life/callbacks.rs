//! An end of a connection that a callback plays.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use ringway_runtime::io::{Incoming, Next, Stream};
use ringway_runtime::sync::oneshot;
use ringway_runtime::yield_now;

use crate::canary;
use crate::conduct::{Conduct, Ending, Give, Manner};
use crate::ends::{queue, send_back};
use crate::ledger::{Act, Doing, End};

/// Sends everything, then lets a callback receive until it is dropped.
pub(crate) async fn play(stream: Stream, end: &End, conduct: &Conduct) {
    conduct.gives.iter().for_each(|&give| _ = queue(&stream, end, give));
    if matches!(conduct.ending, Ending::Finish | Ending::FinishAndDrop | Ending::EndReceiving) {
        end.does(Act::Finished);
        stream.shutdown();
    }
    end.is_doing(Doing::Calling);
    let (dropped, was_dropped) = oneshot::channel::<()>();
    let player = Rc::new(Player {
        end: end.clone(),
        conduct: conduct.clone(),
        calls: Cell::new(0),
        is_echo: end.is_echo(),
        _dropped: dropped,
    });
    match conduct.manner {
        Manner::Callback => {
            stream.on_incoming(move |stream, incoming| player.call(stream, incoming))
        }
        _ => {
            let stream = Rc::new(stream);
            let known = Rc::downgrade(&stream);
            install(stream, player);
            disturb(&known, conduct).await;
        }
    }
    // The marks of the end show that the callback is gone.
    _ = was_dropped.await;
    canary::watch_for_a_while(&end.world).await;
}

/// Handles the stream of a callback from outside, as its conduct demands.
async fn disturb(stream: &Weak<Stream>, conduct: &Conduct) {
    for &give in &conduct.gives {
        yield_now().await;
        let Some(stream) = stream.upgrade() else { return };
        match give {
            Give::Paced(is_paced) => stream.set_paced(is_paced),
            Give::Limits { .. } => stream.set_limits(conduct.limits_from(give)),
            _ => stream.prompt(),
        }
    }
}

/// A callback that owns its stream.
fn install(stream: Rc<Stream>, player: Rc<Player>) {
    let owned = RefCell::new(Some(Rc::clone(&stream)));
    stream.set_callback(move |incoming| {
        let Some(stream) = owned.borrow().clone() else {
            return Next::Close;
        };
        let next = player.call(&stream, incoming);
        let calls = player.calls.get();
        match player.conduct.manner {
            Manner::Replaced(at) if calls == at && next == Next::Continue => {
                owned.take();
                install(stream, Rc::clone(&player));
                // The replaced callback said this, so it must not count for the new one.
                return Next::Continue;
            }
            Manner::DropsWithin(at) if calls >= at => {
                player.is_dropped();
                owned.take();
            }
            Manner::Panics(at) if calls >= at => {
                // The stream is reset, because half an answer must not look like a whole one.
                player.end.does(Act::Aborted);
                player.is_dropped();
                std::panic::resume_unwind(Box::new("a callback's panic"));
            }
            _ => {}
        }
        next
    });
}

/// The state that the callbacks of one end share.
struct Player {
    end: End,
    conduct: Conduct,
    calls: Cell<usize>,
    is_echo: bool,
    _dropped: oneshot::Sender<()>,
}

impl Player {
    fn call(&self, stream: &Stream, incoming: Incoming) -> Next {
        self.calls.set(self.calls.get() + 1);
        match incoming {
            Incoming::Data(view) => {
                self.end.takes(&view);
                if self.conduct.shares
                    && let Some(bytes) = view.share(..)
                {
                    self.end.shares(bytes);
                }
                if self.is_echo {
                    send_back(stream, &self.end, view);
                }
                self.goes_on(stream)
            }
            Incoming::Drained => Next::Continue,
            Incoming::Eof => {
                self.end.sees_end();
                self.is_dropped();
                Next::Close
            }
            Incoming::Failed(error) => {
                self.end.sees_error(&error);
                self.is_dropped();
                Next::Close
            }
        }
    }

    fn goes_on(&self, stream: &Stream) -> Next {
        if self.calls.get() < CALLS_BEFORE_ITS_END {
            return Next::Continue;
        }
        match self.conduct.ending {
            Ending::Drop | Ending::FinishAndDrop => {}
            Ending::Abort => {
                self.end.does(Act::Aborted);
                stream.abort();
            }
            _ => return Next::Continue,
        }
        self.is_dropped();
        Next::Close
    }

    fn is_dropped(&self) {
        self.end.does(Act::Finished);
        self.end.does(Act::Dropped);
    }
}

/// After this many calls, callbacks that do not wait for the other end close their stream.
const CALLS_BEFORE_ITS_END: usize = 3;
