//! An end of a connection whose sending and receiving are tasks.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;

use bytes::Bytes;
use ringway_runtime::io::{Pressure, Stream};
use ringway_runtime::{CoreHandle, View, now_exact, sleep, spawn, yield_now};

use crate::callbacks;
use crate::canary;
use crate::conduct::{Conduct, Ending, Give, Manner, Pace};
use crate::ledger::{Act, Doing, End, World};

/// Plays `end` until its conduct is done.
pub(crate) async fn live(stream: Stream, end: End, conduct: Conduct) {
    end.behaves(&conduct);
    if conduct.expiry.is_some() {
        end.does(Act::Expires);
    }
    stream.set_limits(conduct.limits());
    stream.set_paced(conduct.is_paced);
    stream.hold_until_closed(Loan::new(&end.world));
    match conduct.manner {
        Manner::Tasks => play(stream, &end, &conduct).await,
        _ => callbacks::play(stream, &end, &conduct).await,
    }
    end.does(Act::Left);
}

async fn play(stream: Stream, end: &End, conduct: &Conduct) {
    match conduct.ending {
        Ending::Finish => {
            let send = async {
                send_all(&stream, end, conduct).await;
                end.does(Act::Finished);
                stream.shutdown();
            };
            both(conduct.pace, send, receive(&stream, end, conduct)).await;
        }
        Ending::Answer => {
            let send = send_all(&stream, end, conduct);
            both(conduct.pace, send, receive(&stream, end, conduct)).await;
        }
        Ending::Drop | Ending::FinishAndDrop => {
            let send = send_all(&stream, end, conduct);
            beside(send, receive(&stream, end, conduct)).await;
        }
        Ending::FlushAndDrop => {
            let send = async {
                send_all(&stream, end, conduct).await;
                wait_for_flush(&stream, end).await;
            };
            beside(send, receive(&stream, end, conduct)).await;
        }
        Ending::EndReceiving => {
            let send = async {
                send_all(&stream, end, conduct).await;
                end.does(Act::EndedReceiving);
                stream.end_receiving();
            };
            both(conduct.pace, send, receive(&stream, end, conduct)).await;
        }
        Ending::Abort => {
            let send = send_all(&stream, end, conduct);
            beside(send, receive(&stream, end, conduct)).await;
            end.does(Act::Aborted);
            stream.abort();
            receive(&stream, end, conduct).await;
        }
    }
    leave(stream, end, conduct.ending).await;
}

async fn leave(stream: Stream, end: &End, ending: Ending) {
    end.is_doing(Doing::Nothing);
    end.does(Act::Finished);
    if ending == Ending::FinishAndDrop {
        stream.shutdown();
    }
    end.does(Act::Dropped);
    drop(stream);
    canary::watch_for_a_while(&end.world).await;
}

async fn send_all(stream: &Stream, end: &End, conduct: &Conduct) {
    for &give in &conduct.gives {
        let pressure = send_one(stream, end, conduct, give).await;
        if pressure == Pressure::Closed {
            return;
        }
    }
}

/// Performs one step of sending. Returns `Closed` when the stream takes no more.
async fn send_one(stream: &Stream, end: &End, conduct: &Conduct, give: Give) -> Pressure {
    end.is_doing(Doing::Sending);
    match give {
        Give::Written(_) | Give::Moved(_) | Give::Lent(_) => return queue(stream, end, give),
        Give::Yield => yield_now().await,
        Give::Pause(pause) => {
            end.is_doing(Doing::Pausing);
            sleep(pause).await;
        }
        Give::Drained => {
            end.is_doing(Doing::Draining);
            if let Err(error) = stream.drained().await {
                end.sees_send_error(&error);
                return Pressure::Closed;
            }
        }
        Give::Flushed => return wait_for_flush(stream, end).await,
        Give::Paced(is_paced) => stream.set_paced(is_paced),
        Give::Limits { .. } => stream.set_limits(conduct.limits_from(give)),
    }
    Pressure::Low
}

async fn wait_for_flush(stream: &Stream, end: &End) -> Pressure {
    end.is_doing(Doing::Draining);
    match stream.flushed().await {
        Ok(()) => Pressure::Low,
        Err(error) => {
            end.sees_send_error(&error);
            Pressure::Closed
        }
    }
}

/// Queues the next bytes of `end`.
pub(crate) fn queue(stream: &Stream, end: &End, give: Give) -> Pressure {
    let (Give::Written(len) | Give::Moved(len) | Give::Lent(len)) = give else {
        return Pressure::Low;
    };
    let bytes = end.next_bytes(len);
    let pressure = match give {
        Give::Written(_) => stream.write(&bytes),
        Give::Moved(_) => stream.send(bytes),
        _ => stream.send(Bytes::from_owner(Lent { bytes, _loan: Loan::new(&end.world) })),
    };
    if pressure == Pressure::Closed {
        end.was_refused(len, stream.failure(), "sending was refused");
    }
    pressure
}

/// Receives until the end of the stream.
async fn receive(stream: &Stream, end: &End, conduct: &Conduct) {
    let (pace, is_echo) = (conduct.pace, end.is_echo());
    let mut kept: Vec<View> = Vec::new();
    let mut since_pause = 0;
    loop {
        end.is_doing(Doing::Receiving);
        match stream.recv().await {
            Ok(Some(view)) => {
                end.takes(&view);
                since_pause += view.len();
                if conduct.shares
                    && let Some(bytes) = view.share(..)
                {
                    end.shares(bytes);
                }
                if is_echo {
                    send_back(stream, end, view);
                } else if pace != Pace::Steady && kept.len() < VIEWS_KEPT {
                    kept.push(view);
                }
            }
            Ok(None) => {
                end.sees_end();
                match stream.recv().await {
                    Ok(None) => return,
                    // An end that the stream has reported is final, unless sending fails afterwards.
                    other => return drop(other),
                }
            }
            Err(error) => return end.sees_error(&error),
        }
        if let Pace::Slow { bytes, pause } = pace
            && since_pause > bytes
        {
            end.is_doing(Doing::Pausing);
            sleep(pause).await;
            kept.clear();
            since_pause = 0;
        }
    }
}

/// Returns a view to its sender.
pub(crate) fn send_back(stream: &Stream, end: &End, view: View) {
    let len = view.len();
    end.gives(len);
    if stream.send(view) == Pressure::Closed {
        end.was_refused(len, stream.failure(), "an echo was refused");
    }
}

/// Polls both futures to their ends, in parallel or one after the other.
async fn both(pace: Pace, send: impl Future<Output = ()>, receive: impl Future<Output = ()>) {
    if pace == Pace::AfterSending {
        send.await;
        return receive.await;
    }
    let (mut send, mut receive) = (pin!(send), pin!(receive));
    let (mut sent, mut received) = (false, false);
    poll_fn(|cx| {
        sent = sent || send.as_mut().poll(cx).is_ready();
        received = received || receive.as_mut().poll(cx).is_ready();
        if sent && received { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Polls the first future to its end, and the second one meanwhile.
async fn beside(send: impl Future<Output = ()>, receive: impl Future<Output = ()>) {
    let (mut send, mut receive) = (pin!(send), pin!(receive));
    let mut received = false;
    poll_fn(|cx| {
        let sent = send.as_mut().poll(cx);
        received = received || sent.is_pending() && receive.as_mut().poll(cx).is_ready();
        sent
    })
    .await;
}

/// Foreign memory in a queue of the runtime.
struct Lent {
    bytes: Vec<u8>,
    _loan: Loan,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A value that the runtime must drop. Its destructor calls code that uses the runtime.
pub(crate) struct Loan(Arc<World>);

impl Loan {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        world.lent.fetch_add(1, SeqCst);
        Self(Arc::clone(world))
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.0.lent.fetch_sub(1, SeqCst);
        if CoreHandle::is_here() {
            now_exact();
            drop(spawn(async {}));
        }
    }
}

/// Views that a slow reader keeps until its next pause.
const VIEWS_KEPT: usize = 8;
