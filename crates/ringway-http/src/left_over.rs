//! What handlers leave unread of their requests' bodies.
//!
//! The next request of a connection begins behind the body of this one. So the rest of a body is read and dropped, within
//! bounds, or the answer says that the connection ends (RFC 9112, sections 9.3 and 9.6).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use http_body::Body as _;
use hyper::body::Incoming;
use ringway_runtime::timeout;

use crate::limits::{LEFT_OVER_BYTES_MAX, LEFT_OVER_WAIT};

/// The rest of the body of the request that a connection answers. The body puts it here when it is dropped, which may
/// happen on any thread.
#[derive(Clone, Default, Debug)]
pub(crate) struct LeftOver(Arc<Mutex<State>>);

#[derive(Default, Debug)]
struct State {
    rest: Option<Rest>,
    /// The connection's task, if it waits for the rest.
    waiter: Option<Waker>,
}

/// What is left of a body.
#[derive(Debug)]
pub(crate) enum Rest {
    /// It is still to be read.
    Unread(Incoming),
    /// No request can follow: the body has failed, or its client waits to be asked for it.
    Lost,
}

impl LeftOver {
    pub(crate) fn put(&self, rest: Rest) {
        let mut state = self.locked();
        // Another is there if the body of an earlier request is dropped only now.
        let former = state.rest.replace(rest);
        let waiter = state.waiter.take();
        drop((state, former)); // in this order: to drop a body wakes who reads it from the socket
        waiter.into_iter().for_each(Waker::wake);
    }

    /// Reads what is left now. Returns whether another request can follow.
    pub(crate) async fn drain(&self) -> bool {
        let rest = self.locked().rest.take();
        match rest {
            None => true,
            Some(Rest::Lost) => false,
            Some(Rest::Unread(incoming)) => drain(incoming).await,
        }
    }

    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Rest> {
        let mut state = self.locked();
        if let Some(rest) = state.rest.take() {
            return Poll::Ready(rest);
        }
        if !state.waiter.as_ref().is_some_and(|waiter| waiter.will_wake(cx.waker())) {
            let former = state.waiter.replace(cx.waker().clone());
            drop((state, former)); // in this order: the waker may be anybody's
        }
        Poll::Pending
    }

    /// No other code runs under the lock, so the state is sound even after a panic.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what a handler leaves behind while its answer is under way, such as a stream that ends before that of its
/// client. Without it the connection would end behind an answer that has promised to keep it.
pub(crate) struct LateDrain {
    left_over: LeftOver,
    under_way: Option<Pin<Box<dyn Future<Output = bool>>>>,
}

impl LateDrain {
    pub(crate) fn new(left_over: LeftOver) -> Self {
        Self { left_over, under_way: None }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        loop {
            if let Some(under_way) = &mut self.under_way {
                if under_way.as_mut().poll(cx).is_pending() {
                    return;
                }
                self.under_way = None;
            }
            match self.left_over.poll_take(cx) {
                Poll::Ready(Rest::Unread(incoming)) => {
                    self.under_way = Some(Box::pin(drain(incoming)));
                }
                Poll::Ready(Rest::Lost) => {}
                Poll::Pending => return,
            }
        }
    }
}

/// Returns whether the end of the body has come within the bounds.
async fn drain(mut incoming: Incoming) -> bool {
    let mut left = LEFT_OVER_BYTES_MAX;
    if incoming.size_hint().lower() > left {
        return false;
    }
    let reading = async {
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
            let Ok(frame) = frame else { return false };
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        true
    };
    timeout(LEFT_OVER_WAIT, reading).await.unwrap_or(false)
}
