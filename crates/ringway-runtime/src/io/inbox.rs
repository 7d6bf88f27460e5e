//! Received bytes that nobody has taken yet.

use std::collections::VecDeque;

use crate::buf::View;
use crate::limits;

/// In order of arrival. Nearly always empty or of one view, so the queue behind the first is not
/// allocated before it is needed.
#[derive(Default)]
pub(crate) struct Inbox {
    first: Option<View>,
    rest: VecDeque<View>,
    bytes: usize,
}

impl Inbox {
    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether so much is held that the receive has to pause.
    pub(crate) fn is_full(&self, high_water: usize) -> bool {
        self.bytes >= high_water || self.rest.len() >= limits::HELD_VIEWS_MAX
    }

    /// Takes a view in. Under `pressure`, and for a small view behind another one, the bytes are
    /// copied so that no receive buffer is pinned by a reader who is behind.
    pub(crate) fn push(&mut self, view: View, pressure: bool) {
        self.bytes += view.len();
        let behind = self.first.is_some();
        let small = view.len() <= limits::COPY_BEHIND_BYTES;
        if !(pressure || (behind && small)) {
            return self.append(view);
        }
        let last = self.rest.back_mut().or(self.first.as_mut());
        if !last.is_some_and(|last| last.extend_copy(&view)) {
            self.append(View::copied(&view));
        }
    }

    fn append(&mut self, view: View) {
        if self.first.is_none() {
            self.first = Some(view);
        } else {
            self.rest.push_back(view);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<View> {
        let view = self.first.take()?;
        self.first = self.rest.pop_front();
        self.bytes -= view.len();
        if self.first.is_none() && self.rest.capacity() > limits::HELD_VIEWS_MAX {
            self.rest = VecDeque::new();
        }
        Some(view)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
