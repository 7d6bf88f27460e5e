//! Received bytes that nobody has taken yet.

use std::collections::VecDeque;

use crate::buf::View;
use crate::limits;

/// The queue of received views. It is nearly always empty or of one view, so the queue behind the
/// first is allocated only when needed.
#[derive(Default)]
pub(crate) struct Inbox {
    first: Option<View>,
    rest: Option<Box<Rest>>,
    bytes: usize,
    /// Memory, in bytes, that the views hold.
    held: usize,
}

/// The views behind the first.
#[derive(Default)]
struct Rest(VecDeque<View>);

impl Inbox {
    /// Number of received bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory, in bytes, that the views hold.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.held
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether so much is held that the receive must pause.
    #[inline]
    pub(crate) fn is_full(&self, high_water: usize) -> bool {
        self.bytes >= high_water || self.behind() >= limits::HELD_VIEWS_MAX
    }

    /// Number of views behind the first one.
    #[inline]
    fn behind(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| rest.0.len())
    }

    /// Adds a view. If buffers are scarce, or a view of few bytes would wait behind another one,
    /// the bytes are copied, so that a slow reader pins no receive buffers.
    #[inline]
    pub(crate) fn push(&mut self, view: View) {
        self.bytes += view.len();
        let behind = self.first.is_some();
        if view.is_scarce() || behind && view.is_wasteful() {
            return self.push_copy(&view);
        }
        self.append(view);
    }

    #[cold]
    fn push_copy(&mut self, bytes: &[u8]) {
        let last = self.rest.as_mut().and_then(|rest| rest.0.back_mut()).or(self.first.as_mut());
        if last.is_some_and(|last| last.extend_copy(bytes)) {
            self.held += bytes.len();
        } else {
            self.append(View::copied(bytes));
        }
    }

    fn append(&mut self, view: View) {
        self.held += view.held_bytes();
        if self.first.is_none() {
            self.first = Some(view);
        } else {
            self.rest.get_or_insert_default().0.push_back(view);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<View> {
        let view = self.first.take()?;
        self.bytes -= view.len();
        self.held -= view.held_bytes();
        if let Some(rest) = &mut self.rest {
            self.first = rest.0.pop_front();
            if self.first.is_none() && rest.0.capacity() > limits::HELD_VIEWS_MAX {
                self.rest = None;
            }
        }
        Some(view)
    }
}
