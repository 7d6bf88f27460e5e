//! Cancellation of a tree of tasks.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use super::waiters::{Offer, Turn, WaiterKey, WaiterList, poll_by};
use crate::contain::{drop_waker, wake};

/// A flag that is set once and wakes everybody who waits for it; cancelling a token also cancels
/// its children.
///
/// It is a handle: clones share the flag. A child's cancellation does not reach its parent, and a
/// child whose last handle is dropped leaves nothing behind in the parent.
///
/// ```
/// use ringway_runtime::sync::CancellationToken;
///
/// let server = CancellationToken::new();
/// let (one, other) = (server.child(), server.child());
/// one.cancel();
/// assert!(!server.is_cancelled() && !other.is_cancelled());
/// server.cancel();
/// assert!(other.is_cancelled());
/// ```
#[derive(Clone)]
pub struct CancellationToken {
    node: Rc<Node>,
}

/// Waits for a cancellation; made by [`CancellationToken::cancelled`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Cancelled<'a> {
    node: &'a Node,
    key: Option<WaiterKey>,
}

struct Node {
    cancelled: Cell<bool>,
    line: RefCell<WaiterList>,
    children: RefCell<Children>,
    /// Empty for a root, for a child made after the cancellation, and once detached.
    parent: RefCell<Option<Parent>>,
}

struct Parent {
    node: Rc<Node>,
    /// This node's slot in the parent's children.
    slot: usize,
}

#[derive(Default)]
struct Children {
    slots: Vec<Option<Weak<Node>>>,
    free: Vec<usize>,
}

impl CancellationToken {
    /// Makes a token without a parent.
    pub fn new() -> CancellationToken {
        CancellationToken { node: Rc::new(Node::new(false, None)) }
    }

    /// Creates a token that is cancelled with this one, or on its own.
    pub fn child(&self) -> CancellationToken {
        if self.is_cancelled() {
            return CancellationToken { node: Rc::new(Node::new(true, None)) };
        }
        let mut children = self.node.children.borrow_mut();
        let slot = children.free.pop().unwrap_or(children.slots.len());
        let parent = Parent { node: self.node.clone(), slot };
        let node = Rc::new(Node::new(false, Some(parent)));
        let entry = Some(Rc::downgrade(&node));
        match children.slots.get_mut(slot) {
            Some(free) => *free = entry,
            None => children.slots.push(entry),
        }
        CancellationToken { node }
    }

    /// Cancels this token and all its descendants. Tasks are woken after the whole tree is marked.
    pub fn cancel(&self) {
        for node in Node::mark(self.node.clone()) {
            while let Some(waker) = node.release_front() {
                wake(waker);
            }
        }
    }

    /// Whether this token or one of its ancestors was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.node.cancelled.get()
    }

    /// Waits for the cancellation; ready at once if it has happened.
    pub fn cancelled(&self) -> Cancelled<'_> {
        Cancelled { node: &self.node, key: None }
    }
}

impl Node {
    fn new(cancelled: bool, parent: Option<Parent>) -> Node {
        Node {
            cancelled: Cell::new(cancelled),
            line: RefCell::new(WaiterList::new()),
            children: RefCell::default(),
            parent: RefCell::new(parent),
        }
    }

    /// Sets the flag in the whole tree and returns the nodes that were not set before. A list
    /// instead of recursion, since the user decides the depth of the tree.
    fn mark(root: Rc<Node>) -> Vec<Rc<Node>> {
        let mut marked = Vec::new();
        let mut unvisited = vec![root];
        while let Some(node) = unvisited.pop() {
            if !node.cancelled.replace(true) {
                let children = node.children.borrow();
                unvisited.extend(children.slots.iter().flatten().filter_map(Weak::upgrade));
                drop(children);
                marked.push(node);
            }
        }
        marked
    }

    fn release_front(&self) -> Option<Waker> {
        self.line.borrow_mut().release_front(u64::MAX)
    }

    /// Removes this node from its parent and returns the parent.
    fn detach(&self) -> Option<Rc<Node>> {
        let Parent { node, slot } = self.parent.borrow_mut().take()?;
        let mut children = node.children.borrow_mut();
        children.slots[slot] = None;
        children.free.push(slot);
        drop(children);
        Some(node)
    }

    fn poll(&self, key: &mut Option<WaiterKey>, offer: &mut Offer<'_>) -> Poll<()> {
        let mut line = self.line.borrow_mut();
        match line.turn(key, offer) {
            Turn::Waiting => Poll::Pending,
            Turn::New if !self.cancelled.get() => {
                *key = line.join(1, offer);
                Poll::Pending
            }
            Turn::New | Turn::Granted | Turn::Released => Poll::Ready(()),
        }
    }
}

impl Drop for Node {
    /// Drops a chain of parents that only this node kept alive, in a loop instead of recursion.
    fn drop(&mut self) {
        let mut parent = self.detach();
        while let Some(node) = parent.and_then(Rc::into_inner) {
            parent = node.detach();
        }
    }
}

impl Future for Cancelled<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        poll_by(cx, |offer| this.node.poll(&mut this.key, offer))
    }
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let (_, stale) = self.node.line.borrow_mut().leave(key);
        drop_waker(stale);
    }
}

impl Default for CancellationToken {
    fn default() -> CancellationToken {
        CancellationToken::new()
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken").field("cancelled", &self.is_cancelled()).finish()
    }
}

impl fmt::Debug for Cancelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").field("waiting", &self.key.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Probe;
    use super::*;

    #[test]
    fn a_cancellation_wakes_waiters_of_the_whole_tree_once() {
        let (root, probe) = (CancellationToken::new(), Probe::new());
        let grandchild = root.child().child();
        let (mut above, mut below) = (root.cancelled(), grandchild.cancelled());
        assert!(probe.poll(&mut above).is_pending());
        assert!(probe.poll(&mut below).is_pending());
        root.cancel();
        root.cancel();
        assert_eq!(probe.wakes(), 2);
        assert!(probe.poll(&mut above).is_ready());
        assert!(probe.poll(&mut below).is_ready());
        assert!(root.child().is_cancelled(), "a child made afterwards is cancelled too");
    }

    #[test]
    fn dropped_children_leave_nothing_behind() {
        let root = CancellationToken::new();
        for _ in 0..1_000 {
            let (_one, _two) = (root.child(), root.child());
        }
        assert_eq!(root.node.children.borrow().slots.len(), 2);
        assert_eq!(Rc::strong_count(&root.node), 1);
    }

    #[test]
    fn a_dropped_waiter_is_forgotten() {
        let (token, probe) = (CancellationToken::new(), Probe::new());
        let mut waiting = token.cancelled();
        assert!(probe.poll(&mut waiting).is_pending());
        drop(waiting);
        token.cancel();
        assert_eq!(probe.wakes(), 0);
    }

    #[test]
    fn a_very_deep_tree_is_cancelled_and_dropped_without_recursion() {
        let root = CancellationToken::new();
        let mut leaf = root.clone();
        for _ in 0..200_000 {
            leaf = leaf.child();
        }
        root.cancel();
        assert!(leaf.is_cancelled());
        drop(root);
        drop(leaf);
    }
}
