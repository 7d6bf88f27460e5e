//! The calls of a connection that have not been answered yet, by the slots of their streams.

use ringway_runtime::JoinHandle;
use ringway_wire::native::StreamId;

use crate::context::Context;
use crate::status::Code;

/// A table as long as the highest slot in use, which the peer's setting bounds.
#[derive(Default)]
pub(super) struct Calls {
    by_slot: Vec<Option<Call>>,
    count: usize,
}

/// A call that waits.
pub(super) struct Call {
    stream: StreamId,
    state: State,
}

enum State {
    /// In a queue, for room to run.
    Queued,
    /// For its handler.
    Running { context: Context, task: Option<JoinHandle<()>> },
}

impl Calls {
    pub(super) fn insert(&mut self, call: Call) {
        let slot = call.stream.slot() as usize;
        if self.by_slot.len() <= slot {
            self.by_slot.resize_with(slot + 1, || None);
        }
        let former = self.by_slot[slot].replace(call);
        self.count += usize::from(former.is_none());
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn find(&mut self, stream: StreamId) -> Option<&mut Call> {
        self.by_slot.get_mut(stream.slot() as usize)?.as_mut().filter(|call| call.stream == stream)
    }

    pub(super) fn remove(&mut self, stream: StreamId) -> Option<Call> {
        self.find(stream)?;
        self.count -= 1;
        self.by_slot[stream.slot() as usize].take()
    }

    /// The task that runs a call is known only after it has been made.
    pub(super) fn set_task(&mut self, stream: StreamId, handle: JoinHandle<()>) {
        if let Some(Call { state: State::Running { task, .. }, .. }) = self.find(stream) {
            *task = Some(handle);
        }
    }

    /// What the handler of a call that runs as a task knows of it.
    pub(super) fn context(&mut self, stream: StreamId) -> Option<Context> {
        match &self.find(stream)?.state {
            State::Running { context, .. } => Some(context.clone()),
            State::Queued => None,
        }
    }

    pub(super) fn take_all(&mut self) -> Vec<Call> {
        self.count = 0;
        self.by_slot.iter_mut().filter_map(Option::take).collect()
    }
}

impl Call {
    pub(super) fn queued(stream: StreamId) -> Self {
        Self { stream, state: State::Queued }
    }

    pub(super) fn running(stream: StreamId, context: Context) -> Self {
        Self { stream, state: State::Running { context, task: None } }
    }

    /// Tells whoever looks at the call's context, then drops its handler where it waits. Nothing of
    /// the connection may be borrowed: the handler's destructors are code of a user.
    pub(super) fn cancel(self, code: Code, reason: &str) {
        if let State::Running { context, task } = self.state {
            context.cancel(code, reason);
            if let Some(task) = task {
                task.abort();
            }
        }
    }
}
