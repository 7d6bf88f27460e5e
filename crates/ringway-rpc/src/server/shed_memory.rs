//! What a core does when its connections keep too many bytes.

use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::{release_free_memory, sleep, spawn_blocking, spawn_named};
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

    /// Frees a share of the limit at once, since this looks at all connections. The client that keeps the most pays
    /// first: by the stream that keeps the most, or by its connection if its bytes belong to no stream, such as
    /// incomplete frames, replies that nobody reads and what calls need to wait.
    fn make_room(&self, connections: &[Rc<dyn CoreConnection>], side: Side) {
        let usage = self.budget().of(side);
        let enough = usage.max - usage.max / limits::SHED_SHARE;
        let clients = clients_of(connections);
        let kept = |at: usize| clients[at].iter().map(|part| part.kept(side)).sum::<usize>();
        let mut fullest: BinaryHeap<(usize, usize)> =
            (0..clients.len()).map(|at| (kept(at), at)).filter(|&(kept, _)| kept > 0).collect();
        let mut given_up = 0;
        while usage.kept.get() - given_up > enough
            && let Some((size, at)) = fullest.pop()
        {
            let largest = clients[at].iter().max_by_key(|part| part.largest_len(side));
            if largest.is_some_and(|part| part.end_largest(side)) {
                self.share().count_exhausted();
                fullest.push((kept(at), at));
            } else if usage.kept.get() - given_up > usage.max {
                given_up += size; // which is reported when the connection is closed
                clients[at].iter().for_each(|part| part.end());
                self.share().count_exhausted();
            }
        }
        if side == Side::Unread {
            // The streams that were ended have left spare memory.
            connections.iter().for_each(|connection| connection.drop_spare());
        }
    }

    /// Gives memory of a wave that is over back to the system, once it has rested.
    #[cold]
    pub(super) fn give_memory_back(&self) {
        self.budget().end_wave();
        spawn_named("memory of a wave", async {
            sleep(limits::WAVE_REST).await;
            // The heap of another thread may be in the middle of a wave: none of it is lost by this.
            let _no_thread_is_free = spawn_blocking(release_free_memory);
        });
    }
}

/// The connections of each client, with their parts.
fn clients_of(connections: &[Rc<dyn CoreConnection>]) -> Vec<Vec<&Rc<dyn CoreConnection>>> {
    let mut places = HashMap::new();
    let mut clients: Vec<Vec<&Rc<dyn CoreConnection>>> = Vec::new();
    for connection in connections {
        let place = *places.entry(connection.site_id()).or_insert(clients.len());
        if place == clients.len() {
            clients.push(Vec::new());
        }
        clients[place].push(connection);
    }
    clients
}
