//! What a core does when it keeps too many bytes for its connections.

use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::spawn_named;
use ringway_wire::native::Side;

use super::connections::CoreConnection;
use super::core::ServerCore;
use crate::limits;

impl ServerCore {
    /// Has the core look after its memory, if it is time to: when the readers that have just been
    /// woken have read. Those that keep up are not to be taken for those that do not.
    #[inline]
    pub(super) fn watch_budget(self: &Rc<Self>) {
        let budget = self.budget();
        if budget.needs_care(self.now()) && !budget.is_strained.replace(true) {
            self.relieve_soon();
        }
    }

    #[cold]
    fn relieve_soon(self: &Rc<Self>) {
        let core = Rc::clone(self);
        // It runs behind those who were woken before.
        spawn_named("unread messages", async move { core.relieve(core.now()) });
    }

    /// Makes room where too much is kept, and asks clients for less while there is much.
    fn relieve(&self, now: Duration) {
        let (budget, connections) = (self.budget(), self.connections().all());
        // Some may have ended streams since they were last looked at.
        connections.iter().for_each(|connection| connection.account());
        if budget.has_no_room_for_spare() {
            connections.iter().for_each(|connection| connection.drop_spare());
        }
        for side in [Side::Unread, Side::Unsent] {
            if budget.of(side).is_over() {
                self.make_room(&connections, side);
            }
        }
        if let Some(is_tight) = budget.turn(now) {
            connections.iter().for_each(|connection| connection.set_tight(is_tight));
        }
        budget.is_strained.set(false);
        connections.iter().for_each(|connection| connection.wake());
    }

    /// Ends the streams that keep most, then the connections. All connections are looked at for this,
    /// so a share of the room is made at once: by the time that is used up, much has come, and each
    /// byte of it has cost little.
    fn make_room(&self, connections: &[Rc<dyn CoreConnection>], side: Side) {
        let account = self.budget().of(side);
        let enough = account.max - account.max / limits::RELIEF_SHARE;
        let kept = |&(_, at): &(usize, usize)| connections[at].kept(side) > 0;
        let places = (0..connections.len()).map(|at| (0, at)).filter(kept);
        let mut largest: BinaryHeap<(usize, usize)> =
            places.map(|(_, at)| (connections[at].largest_len(side), at)).collect();
        while account.kept.get() > enough
            && let Some((_, at)) = largest.pop()
        {
            let connection = &connections[at];
            if connection.end_largest(side) {
                self.share().count_exhausted();
                largest.push((connection.largest_len(side), at));
            }
        }
        if account.is_over() {
            self.end_connections(connections, side);
        }
        if side == Side::Unread {
            // Of the streams that were ended.
            connections.iter().for_each(|connection| connection.drop_spare());
        }
    }

    /// What is kept belongs to no stream: halves of frames, and answers that nobody reads.
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
