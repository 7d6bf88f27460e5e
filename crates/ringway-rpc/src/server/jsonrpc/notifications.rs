//! Notifications that come by POST, which are carried out even if their client goes.

use std::cell::Cell;
use std::rc::Rc;

use ringway_runtime::{JoinHandle, spawn_named};

use super::texts::JsonTexts;

/// The notifications of a core whose clients have gone: as many as one connection may have calls, because no other limit
/// of a connection holds for them. Those of one more client end with it.
pub(crate) struct Notifications(Rc<Left>);

struct Left {
    calls: Rc<Cell<usize>>,
    max: usize,
}

/// Carried out for a client that waits; dropped when that has gone.
struct CarriedOut {
    task: JoinHandle<Option<JsonTexts>>,
    calls: usize,
    of: Rc<Left>,
    /// Whether the client has gone.
    is_left: Rc<Cell<bool>>,
}

/// Gives room back when the notifications of a client that has gone are carried out.
struct Room {
    calls: usize,
    of: Rc<Left>,
    is_left: Rc<Cell<bool>>,
}

impl Notifications {
    /// With the number of those on the core, of which there may be `max`.
    pub(crate) fn new(calls: Rc<Cell<usize>>, max: usize) -> Self {
        Self(Rc::new(Left { calls, max }))
    }

    /// Carries out what was taken in, and returns what may take the next text; `None` if the core has ended or is short
    /// of memory.
    pub(crate) async fn carry_out(&self, texts: JsonTexts) -> Option<JsonTexts> {
        let (calls, is_left) = (texts.len(), Rc::new(Cell::new(false)));
        let room = Room { calls, of: Rc::clone(&self.0), is_left: Rc::clone(&is_left) };
        let task = spawn_named("notifications", async move {
            let _until_carried_out = room;
            texts.rest().await.ok().map(|()| texts)
        });
        let mut carried_out = CarriedOut { task, calls, of: Rc::clone(&self.0), is_left };
        (&mut carried_out.task).await.ok()?
    }
}

impl Drop for CarriedOut {
    fn drop(&mut self) {
        if self.task.is_finished() {
            return;
        }
        let calls = self.of.calls.get() + self.calls;
        if calls > self.of.max {
            return self.task.abort();
        }
        self.of.calls.set(calls);
        self.is_left.set(true);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.is_left.get() {
            self.of.calls.set(self.of.calls.get() - self.calls);
        }
    }
}
