//! Calls under constant load while a test changes their servers.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use ringway_rpc::{Client, Codec, Kind, Method, Status};
use ringway_runtime::sync::Notify;
use ringway_runtime::{JoinHandle, spawn};

/// Not declared idempotent: it may be repeated only if it was certainly not executed.
static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);

const CALLERS: usize = 40;

/// Callers that call all the time, each one call after another.
pub(crate) struct Load {
    state: Rc<State>,
    callers: Vec<JoinHandle<Result<(), Status>>>,
}

#[derive(Default)]
struct State {
    done: Cell<usize>,
    stops: Cell<bool>,
    changed: Notify,
}

impl Load {
    pub(crate) fn begin(client: &Client) -> Self {
        let state = Rc::<State>::default();
        let callers = (0..CALLERS).map(|caller| {
            let (client, state) = (client.clone(), Rc::clone(&state));
            spawn(async move {
                let ended = call_all_the_time(caller, &client, &state).await;
                state.changed.notify_one(); // also after a failure
                ended
            })
        });
        Self { callers: callers.collect(), state }
    }

    /// Waits until `more` further calls were answered, or one has failed.
    pub(crate) async fn calls(&self, more: usize) {
        let enough = self.state.done.get() + more;
        while self.state.done.get() < enough && !self.callers.iter().any(JoinHandle::is_finished) {
            self.state.changed.notified().await;
        }
    }

    /// Lets the callers finish; returns how many calls were answered.
    pub(crate) async fn end(self) -> Result<usize, Status> {
        self.state.stops.set(true);
        for caller in self.callers {
            caller.await.expect("no panic")?;
        }
        Ok(self.state.done.get())
    }
}

async fn call_all_the_time(caller: usize, client: &Client, state: &State) -> Result<(), Status> {
    let raw = Codec::<Bytes>::raw();
    for turn in 0_u64.. {
        if state.stops.get() {
            break;
        }
        let request = Bytes::from(format!("{caller}/{turn}"));
        let reply = client.unary(&SAY, raw, raw, request.clone()).await?;
        assert_eq!(reply, request, "one's own answer");
        state.done.set(state.done.get() + 1);
        state.changed.notify_one();
    }
    Ok(())
}
