//! What a core does when its connections keep too many bytes.

use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::spawn_named;
use ringway_wire::native::Side;

use super::connections::CoreConnection;
use super::core::ServerCore;
use crate::limits;

impl ServerCore {
    /// Schedules shedding if memory use calls for it. It runs after the readers that have just been
    /// woken, so that those that keep up are not mistaken for slow ones.
    #[inline]
    pub(super) fn watch_budget(self: &Rc<Self>) {
        let budget = self.budget();
        if budget.needs_attention(self.now()) && !budget.is_receiving_paused.replace(true) {
            self.shed_memory_soon();
        }
    }

    #[cold]
    fn shed_memory_soon(self: &Rc<Self>) {
        let core = Rc::clone(self);
        // Tasks that were woken before this one run first.
        spawn_named("unread messages", async move { core.shed_memory(core.now()) });
    }

    /// Ends streams where too many bytes are kept, and asks clients to send less while usage is high.
    fn shed_memory(&self, now: Duration) {
        let (budget, connections) = (self.budget(), self.connections().all());
        // Some connections may have ended streams since their last update.
        connections.iter().for_each(|connection| connection.update_usage());
        if budget.has_no_room_for_spare() {
            connections.iter().for_each(|connection| connection.drop_spare());
        }
        for side in [Side::Unread, Side::Unsent] {
            if budget.of(side).is_over() {
                self.make_room(&connections, side);
            }
        }
        if let Some(is_over_soft_limit) = budget.soft_limit_change(now) {
            connections
                .iter()
                .for_each(|connection| connection.set_over_soft_limit(is_over_soft_limit));
        }
        budget.is_receiving_paused.set(false);
        connections.iter().for_each(|connection| connection.wake());
    }

    /// Ends the streams that keep the most bytes, then whole connections. This looks at all connections,
    /// so it frees a share of the limit at once and its cost is spread over many received bytes.
    fn make_room(&self, connections: &[Rc<dyn CoreConnection>], side: Side) {
        let usage = self.budget().of(side);
        let enough = usage.max - usage.max / limits::SHED_SHARE;
        let kept = |&(_, at): &(usize, usize)| connections[at].kept(side) > 0;
        let candidates = (0..connections.len()).map(|at| (0, at)).filter(kept);
        let mut largest: BinaryHeap<(usize, usize)> =
            candidates.map(|(_, at)| (connections[at].largest_len(side), at)).collect();
        while usage.kept.get() > enough
            && let Some((_, at)) = largest.pop()
        {
            let connection = &connections[at];
            if connection.end_largest(side) {
                self.share().count_exhausted();
                largest.push((connection.largest_len(side), at));
            }
        }
        if usage.is_over() {
            self.end_connections(connections, side);
        }
        if side == Side::Unread {
            // The streams that were ended have left spare memory.
            connections.iter().for_each(|connection| connection.drop_spare());
        }
    }

    /// Ends the connections that keep the most bytes which belong to no stream, such as incomplete frames
    /// and replies that nobody reads.
    #[cold]
    fn end_connections(&self, connections: &[Rc<dyn CoreConnection>], side: Side) {
        let mut fullest: BinaryHeap<(usize, usize)> =
            (0..connections.len()).map(|at| (connections[at].kept(side), at)).collect();
        let mut kept = self.budget().of(side).kept.get();
        while kept > self.budget().of(side).max
            && let Some((size, at)) = fullest.pop()
        {
            kept -= size;
            connections[at].end();
            self.share().count_exhausted();
        }
    }
}
