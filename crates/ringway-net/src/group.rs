//! Sending one message to many connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ringway_runtime::{CoreHandle, JoinError, RemoteHandle, SpawnError};

use crate::blocking::blocking_refused;
use crate::connection::{ConnectionInner, Peer, Pushed, WeakConnection};

/// A set of connections, on any cores, that get the same messages. Cheap to clone, usable on any
/// thread.
///
/// A message is encoded once: all members queue the same bytes. The
/// [`SlowReader`](crate::SlowReader) policy of a member's server decides what happens to a member
/// that does not read; it never delays the others.
///
/// ```no_run
/// # use ringway_net::{Connection, Group, Result};
/// async fn chat(mut conn: Connection, room: Group) -> Result {
///     let _member = room.join(&conn);
///     while let Some(view) = conn.recv().await? {
///         room.send(view.to_vec());
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Default)]
pub struct Group {
    shared: Arc<GroupShared>,
}

/// Keeps a connection in a group until this is dropped or the connection ends.
#[must_use = "dropping a membership leaves the group"]
pub struct Membership {
    shared: Arc<GroupShared>,
    shard: Rc<Shard>,
    slot: Rc<Cell<usize>>,
}

/// The outcome of sending one message, counted over the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Members whose send queue has the message.
    pub queued: usize,
    /// Members that have it queued and are above their high-water mark: the sender should slow
    /// down.
    pub congested: usize,
    /// Members that were too slow and did not get it.
    pub dropped: usize,
    /// Members whose connection or core had ended already. The predicate is not called for them.
    pub closed: usize,
    /// Cores on which not all members got the message: the core's mailbox was full, or the
    /// predicate panicked.
    pub cores_missed: usize,
}

/// The result of [`Group::send`]: the message is already on its way. Await it, or
/// [`wait`](Self::wait) for it on a plain thread, to learn the outcome.
pub struct Delivering {
    here: Delivery,
    elsewhere: Vec<Elsewhere>,
}

/// A core that was asked to queue the message on its members.
struct Elsewhere {
    core: MemberCore,
    delivery: RemoteHandle<Delivery>,
}

#[derive(Default)]
struct GroupShared {
    id: GroupId,
    members: AtomicUsize,
    /// The cores that have members now.
    cores: Mutex<Arc<Vec<MemberCore>>>,
}

#[derive(Clone)]
struct MemberCore {
    core: CoreHandle,
    /// The number of members on this core.
    members: Arc<AtomicUsize>,
}

/// The members of one core.
struct Shard {
    of: MemberCore,
    slots: RefCell<MemberSlots>,
}

/// The members of a core, in the order in which they joined. Empty slots are removed when they are
/// more than half, so that members who have left cost neither memory nor time.
#[derive(Default)]
struct MemberSlots {
    members: Vec<Option<Member>>,
    /// The number of empty slots: their members have left.
    vacant: usize,
    /// The number of deliveries that iterate over the slots; no slot moves meanwhile.
    visits: usize,
}

struct Member {
    inner: WeakConnection,
    slot: Rc<Cell<usize>>,
}

/// A delivery that iterates over the members of a core.
struct Visit<'a>(&'a Shard);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GroupId(u64);

thread_local! {
    /// The shards of the core that this thread runs, or last ran.
    static SHARDS: RefCell<HashMap<GroupId, Rc<Shard>>> = RefCell::default();
}

impl Group {
    /// Makes a group without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of members on all cores.
    pub fn len(&self) -> usize {
        self.shared.members.load(Ordering::Relaxed)
    }

    /// Whether the group has no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a connection to the group.
    pub fn join(&self, peer: &Peer) -> Membership {
        let shard = self.shard();
        let slot = shard.slots.borrow_mut().take(Rc::downgrade(peer.inner()));
        shard.of.members.fetch_add(1, Ordering::Relaxed);
        self.shared.members.fetch_add(1, Ordering::Relaxed);
        Membership { shared: Arc::clone(&self.shared), shard, slot }
    }

    /// Returns the members of the calling core.
    fn shard(&self) -> Rc<Shard> {
        let known = SHARDS.with_borrow(|shards| shards.get(&self.shared.id).cloned());
        // A shard of an earlier core of this thread stays with the memberships made there.
        if let Some(shard) = known.filter(|shard| shard.of.core.is_current()) {
            return shard;
        }
        let of = MemberCore { core: CoreHandle::current(), members: Arc::default() };
        self.shared.add_core(of.clone());
        let shard = Rc::new(Shard { of, slots: RefCell::default() });
        let kept = Rc::clone(&shard);
        drop(SHARDS.with_borrow_mut(|shards| shards.insert(self.shared.id, kept)));
        shard
    }

    /// Queues `message` on every member, under its server's slow-reader policy.
    pub fn send(&self, message: impl Into<Bytes>) -> Delivering {
        self.send_if(message, |_| true)
    }

    /// Queues `message` on the members for which `wanted` returns true; it is called on the
    /// member's core.
    pub fn send_if<W>(&self, message: impl Into<Bytes>, wanted: W) -> Delivering
    where
        W: Fn(&Peer) -> bool + Clone + Send + 'static,
    {
        let (message, id) = (message.into(), self.shared.id);
        let mut delivering = Delivering { here: Delivery::default(), elsewhere: Vec::new() };
        let cores = Arc::clone(&self.shared.cores());
        for core in cores.iter() {
            if core.core.is_current() {
                delivering.here = delivering.here + deliver(id, &message, &wanted);
                continue;
            }
            let (message, wanted) = (message.clone(), wanted.clone());
            match core.core.spawn(async move || deliver(id, &message, &wanted)) {
                Ok(delivery) => {
                    delivering.elsewhere.push(Elsewhere { core: core.clone(), delivery });
                }
                Err(SpawnError::Full) => delivering.here.cores_missed += 1,
                Err(_ended) => delivering.here.closed += core.members(),
            }
        }
        delivering
    }
}

/// Queues a message on the members of the calling core.
fn deliver(id: GroupId, message: &Bytes, wanted: &impl Fn(&Peer) -> bool) -> Delivery {
    let mut delivery = Delivery::default();
    let Some(shard) = SHARDS.with_borrow(|shards| shards.get(&id).cloned()) else {
        return delivery;
    };
    // Members are looked up one by one, because `wanted` may join and leave.
    let visit = Visit::begin(&shard);
    for slot in 0..visit.slots() {
        let Some(member) = visit.member(slot) else { continue };
        let Some(inner) = member.upgrade() else {
            delivery.closed += 1;
            continue;
        };
        let peer = Peer::of_inner(inner);
        if wanted(&peer) {
            delivery.count(ConnectionInner::push(peer.inner(), message.clone()));
        }
    }
    delivery
}

impl Delivering {
    /// Blocks a plain thread until every core has queued the message.
    ///
    /// # Panics
    /// On a core of Ringway and in a task of tokio, which must not block: await this there.
    #[track_caller]
    pub fn wait(self) -> Delivery {
        if let Some(why) = blocking_refused() {
            panic!("{why}");
        }
        let elsewhere = self.elsewhere.into_iter();
        self.here + elsewhere.map(|Elsewhere { core, delivery }| core.told(delivery.wait())).sum()
    }
}

impl IntoFuture for Delivering {
    type Output = Delivery;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Delivery>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut total = self.here;
            for Elsewhere { core, delivery } in self.elsewhere {
                total = total + core.told(delivery.await);
            }
            total
        })
    }
}

impl MemberCore {
    fn members(&self) -> usize {
        self.members.load(Ordering::Relaxed)
    }

    /// Returns the outcome of a message on that core.
    fn told(&self, outcome: Result<Delivery, JoinError>) -> Delivery {
        match outcome {
            Ok(delivery) => delivery,
            Err(error) if error.is_panic() => Delivery { cores_missed: 1, ..Delivery::default() },
            Err(_ended) => Delivery { closed: self.members(), ..Delivery::default() },
        }
    }
}

impl Delivery {
    fn count(&mut self, pushed: Pushed) {
        match pushed {
            Pushed::Queued => self.queued += 1,
            Pushed::Congested => {
                self.queued += 1;
                self.congested += 1;
            }
            Pushed::Dropped => self.dropped += 1,
            Pushed::Closed => self.closed += 1,
        }
    }
}

impl Add for Delivery {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            queued: self.queued + other.queued,
            congested: self.congested + other.congested,
            dropped: self.dropped + other.dropped,
            closed: self.closed + other.closed,
            cores_missed: self.cores_missed + other.cores_missed,
        }
    }
}

impl Sum for Delivery {
    fn sum<I: Iterator<Item = Self>>(deliveries: I) -> Self {
        deliveries.fold(Self::default(), Add::add)
    }
}

impl GroupShared {
    fn cores(&self) -> MutexGuard<'_, Arc<Vec<MemberCore>>> {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_core(&self, core: MemberCore) {
        Arc::make_mut(&mut self.cores()).push(core);
    }

    fn remove_core(&self, core: &MemberCore) {
        let is_other = |other: &MemberCore| !Arc::ptr_eq(&other.members, &core.members);
        Arc::make_mut(&mut self.cores()).retain(is_other);
    }
}

impl<'a> Visit<'a> {
    fn begin(shard: &'a Shard) -> Self {
        shard.slots.borrow_mut().visits += 1;
        Self(shard)
    }

    fn slots(&self) -> usize {
        self.0.slots.borrow().members.len()
    }

    /// Returns the member in a slot, whether or not its connection still exists.
    fn member(&self, slot: usize) -> Option<WeakConnection> {
        let slots = self.0.slots.borrow();
        slots.members.get(slot)?.as_ref().map(|member| member.inner.clone())
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut slots = self.0.slots.borrow_mut();
        slots.visits -= 1;
        slots.compact();
    }
}

impl MemberSlots {
    fn take(&mut self, inner: WeakConnection) -> Rc<Cell<usize>> {
        let slot = Rc::new(Cell::new(self.members.len()));
        self.members.push(Some(Member { inner, slot: Rc::clone(&slot) }));
        slot
    }

    /// Empties a slot; returns whether the last member has left.
    fn leave(&mut self, slot: usize) -> bool {
        self.members[slot] = None;
        self.vacant += 1;
        let is_last = self.vacant == self.members.len();
        self.compact();
        is_last
    }

    fn compact(&mut self) {
        if self.visits > 0 || self.vacant <= self.members.len() / 2 {
            return;
        }
        self.members.retain(Option::is_some);
        self.members.shrink_to(2 * self.members.len());
        self.vacant = 0;
        for (at, member) in self.members.iter().flatten().enumerate() {
            member.slot.set(at);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.members.fetch_sub(1, Ordering::Relaxed);
        self.shard.of.members.fetch_sub(1, Ordering::Relaxed);
        if !self.shard.slots.borrow_mut().leave(self.slot.get()) {
            return;
        }
        // While a thread ends, its table may be gone already.
        let removed = SHARDS.try_with(|shards| {
            let mut shards = shards.borrow_mut();
            let is_own = |shard: &Rc<Shard>| Rc::ptr_eq(shard, &self.shard);
            let is_known = shards.get(&self.shared.id).is_some_and(is_own);
            let removed = is_known.then(|| shards.remove(&self.shared.id));
            // A table grows by doubling; below a quarter of its capacity it shrinks.
            if shards.len() < shards.capacity() / 4 {
                let kept = 2 * shards.len();
                shards.shrink_to(kept);
            }
            removed
        });
        drop(removed);
        self.shared.remove_core(&self.shard.of);
    }
}

impl Default for GroupId {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({} members)", self.len())
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Membership({})", self.slot.get())
    }
}

impl fmt::Debug for Delivering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivering({:?}, {} other cores)", self.here, self.elsewhere.len())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use ringway_runtime::block_on;
    use ringway_runtime::io::Stream;

    use super::*;
    use crate::connection::Connection;

    const CROWD: usize = 10_000;

    thread_local! {
        /// Memberships that a predicate drops, and memberships that it adds.
        static KEPT: RefCell<Vec<Membership>> = const { RefCell::new(Vec::new()) };
        static COME: RefCell<Vec<Membership>> = const { RefCell::new(Vec::new()) };
    }

    /// Runs a test with a connection whose peer does not read.
    fn with_connection(test: impl AsyncFnOnce(Connection) + 'static) {
        let ran = block_on(async move {
            let (near, _far) = UnixStream::pair().expect("a pair of sockets");
            let stream = Stream::adopt(near.into(), &Rc::default()).expect("a socket");
            test(Connection::adopt(stream, Rc::default())).await;
        });
        ran.expect("a core");
    }

    fn slots(membership: &Membership) -> (usize, usize) {
        let slots = membership.shard.slots.borrow();
        (slots.members.len(), slots.members.capacity())
    }

    #[test]
    fn members_who_leave_free_their_slots() {
        with_connection(async |connection| {
            let group = Group::new();
            let mut members: Vec<_> = (0..CROWD).map(|_| group.join(&connection)).collect();
            let last = members.pop().expect("many");
            let first = members.remove(0);
            drop(members);
            let (len, capacity) = slots(&first);
            assert!(len <= 4 && capacity <= 8, "{len} slots, room for {capacity}");
            assert_eq!(group.send("x").await.queued, 2);
            drop(first);
            assert_eq!(group.send("x").await.queued, 1);
            drop(last);
            assert_eq!(group.send("x").await, Delivery::default());
        });
    }

    #[test]
    fn groups_without_members_free_their_table_entries() {
        with_connection(async |connection| {
            let groups: Vec<_> = (0..CROWD).map(|_| Group::new()).collect();
            let members: Vec<_> = groups.iter().map(|group| group.join(&connection)).collect();
            drop(members);
            let room = SHARDS.with_borrow(HashMap::capacity);
            assert!(room < 64, "room for {room} groups");
        });
    }

    #[test]
    fn members_who_stay_get_a_message_once_while_others_leave() {
        with_connection(async |connection| {
            let group = Group::new();
            KEPT.set((0..100).map(|_| group.join(&connection)).collect());
            let own = group.clone();
            let wanted = move |peer: &Peer| {
                // With each call, the first and the last of the kept members leave, and a new one
                // joins.
                let mut kept = KEPT.take();
                drop((kept.remove(0), kept.pop()));
                KEPT.set(kept);
                COME.with_borrow_mut(|come| come.push(own.join(peer)));
                true
            };
            let delivery = group.send_if("x", wanted).await;
            assert_eq!((delivery.queued, group.len()), (50, 50), "{delivery:?}");
            assert_eq!(group.send("y").await.queued, 50);
            assert!(KEPT.take().is_empty());
            COME.set(Vec::new());
        });
    }
}
