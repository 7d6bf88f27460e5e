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

use crate::connection::{ConnectionInner, Peer, Pushed, WeakConnection};

/// Connections, on any cores, that get the same messages. Cheap to clone, usable on any thread.
///
/// A message is encoded once: all members queue the same bytes. A member that does not read is
/// treated by its server's [`SlowReader`](crate::SlowReader) policy, and never delays the others.
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

/// Keeps a connection in a group until it is dropped, or the connection ends.
#[must_use = "dropping a membership leaves the group"]
pub struct Membership {
    shared: Arc<GroupShared>,
    shard: Rc<Shard>,
    place: Rc<Cell<usize>>,
}

/// The outcome of a message, counted over the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Members that have the message in their send queue.
    pub queued: usize,
    /// Members that have it queued and are above their high-water mark: a sender should slow down.
    pub congested: usize,
    /// Members that were too slow and did not get it.
    pub dropped: usize,
    /// Members that had ended already, alone or with their core. They are not asked whether they want
    /// it.
    pub closed: usize,
    /// Cores whose members did not get it, at least not all: they were behind by their whole mailbox,
    /// or the predicate panicked there.
    pub cores_missed: usize,
}

/// The answer of [`Group::send`]: the message is on its way already. Await it, or
/// [`wait`](Self::wait) for it on a plain thread, to learn what became of it.
pub struct Delivering {
    here: Delivery,
    elsewhere: Vec<Elsewhere>,
}

/// A core that has been asked to queue the message.
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
    /// How many there are.
    members: Arc<AtomicUsize>,
}

/// The members of one core.
struct Shard {
    of: MemberCore,
    places: RefCell<Places>,
}

/// In the order in which they came. Those who have left are taken out when they are half of all, so that
/// a crowd which has gone costs neither memory nor time.
#[derive(Default)]
struct Places {
    members: Vec<Option<Member>>,
    /// Places of members who have left.
    vacant: usize,
    /// Deliveries that are going through them; nobody changes places meanwhile.
    visits: usize,
}

struct Member {
    inner: WeakConnection,
    place: Rc<Cell<usize>>,
}

/// A delivery that goes through the members of a core.
struct Visit<'a>(&'a Shard);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GroupId(u64);

thread_local! {
    /// Those of the core that the thread is, or was last.
    static SHARDS: RefCell<HashMap<GroupId, Rc<Shard>>> = RefCell::default();
}

impl Group {
    /// A group without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Members now, over all cores.
    pub fn len(&self) -> usize {
        self.shared.members.load(Ordering::Relaxed)
    }

    /// Whether nobody is in the group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes a connection a member.
    pub fn join(&self, peer: &Peer) -> Membership {
        let shard = self.shard();
        let place = shard.places.borrow_mut().take(Rc::downgrade(peer.inner()));
        shard.of.members.fetch_add(1, Ordering::Relaxed);
        self.shared.members.fetch_add(1, Ordering::Relaxed);
        Membership { shared: Arc::clone(&self.shared), shard, place }
    }

    /// The members of the calling core.
    fn shard(&self) -> Rc<Shard> {
        let known = SHARDS.with_borrow(|shards| shards.get(&self.shared.id).cloned());
        // One that an earlier core of this thread has left belongs to whoever is a member there.
        if let Some(shard) = known.filter(|shard| shard.of.core.is_current()) {
            return shard;
        }
        let of = MemberCore { core: CoreHandle::current(), members: Arc::default() };
        self.shared.add_core(of.clone());
        let shard = Rc::new(Shard { of, places: RefCell::default() });
        let kept = Rc::clone(&shard);
        drop(SHARDS.with_borrow_mut(|shards| shards.insert(self.shared.id, kept)));
        shard
    }

    /// Queues `message` on every member, under its server's slow-reader policy.
    pub fn send(&self, message: impl Into<Bytes>) -> Delivering {
        self.send_if(message, |_| true)
    }

    /// Queues `message` on the members that `wanted` says yes to; it is asked on the member's core.
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
    // Members are looked up one by one: `wanted` may join and leave.
    let visit = Visit::begin(&shard);
    for place in 0..visit.places() {
        let Some(member) = visit.member(place) else { continue };
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
    pub fn wait(self) -> Delivery {
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

    /// The outcome of a message on that core.
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
        shard.places.borrow_mut().visits += 1;
        Self(shard)
    }

    fn places(&self) -> usize {
        self.0.places.borrow().members.len()
    }

    /// The member at a place, whether or not its connection is still there.
    fn member(&self, place: usize) -> Option<WeakConnection> {
        let places = self.0.places.borrow();
        places.members.get(place)?.as_ref().map(|member| member.inner.clone())
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut places = self.0.places.borrow_mut();
        places.visits -= 1;
        places.close_ranks();
    }
}

impl Places {
    fn take(&mut self, inner: WeakConnection) -> Rc<Cell<usize>> {
        let place = Rc::new(Cell::new(self.members.len()));
        self.members.push(Some(Member { inner, place: Rc::clone(&place) }));
        place
    }

    /// Whether the last member has left.
    fn leave(&mut self, place: usize) -> bool {
        self.members[place] = None;
        self.vacant += 1;
        let is_last = self.vacant == self.members.len();
        self.close_ranks();
        is_last
    }

    fn close_ranks(&mut self) {
        if self.visits > 0 || self.vacant <= self.members.len() / 2 {
            return;
        }
        self.members.retain(Option::is_some);
        self.members.shrink_to(2 * self.members.len());
        self.vacant = 0;
        for (at, member) in self.members.iter().flatten().enumerate() {
            member.place.set(at);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.members.fetch_sub(1, Ordering::Relaxed);
        self.shard.of.members.fetch_sub(1, Ordering::Relaxed);
        if !self.shard.places.borrow_mut().leave(self.place.get()) {
            return;
        }
        // While a thread ends, its table may be gone already.
        let removed = SHARDS.try_with(|shards| {
            let mut shards = shards.borrow_mut();
            let is_own = |shard: &Rc<Shard>| Rc::ptr_eq(shard, &self.shard);
            let is_known = shards.get(&self.shared.id).is_some_and(is_own);
            let removed = is_known.then(|| shards.remove(&self.shared.id));
            // It grows twofold: one that has shrunk to a quarter has had its crowd.
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
        write!(f, "Membership({})", self.place.get())
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
        /// Those that a predicate has leave, and those that it has join.
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

    fn places(membership: &Membership) -> (usize, usize) {
        let places = membership.shard.places.borrow();
        (places.members.len(), places.members.capacity())
    }

    #[test]
    fn a_crowd_that_has_left_leaves_no_places_behind() {
        with_connection(async |connection| {
            let group = Group::new();
            let mut members: Vec<_> = (0..CROWD).map(|_| group.join(&connection)).collect();
            let last = members.pop().expect("many");
            let first = members.remove(0);
            drop(members);
            let (len, capacity) = places(&first);
            assert!(len <= 4 && capacity <= 8, "{len} places, room for {capacity}");
            assert_eq!(group.send("x").await.queued, 2);
            drop(first);
            assert_eq!(group.send("x").await.queued, 1);
            drop(last);
            assert_eq!(group.send("x").await, Delivery::default());
        });
    }

    #[test]
    fn groups_that_have_no_members_any_more_leave_no_table_behind() {
        with_connection(async |connection| {
            let groups: Vec<_> = (0..CROWD).map(|_| Group::new()).collect();
            let members: Vec<_> = groups.iter().map(|group| group.join(&connection)).collect();
            drop(members);
            let room = SHARDS.with_borrow(HashMap::capacity);
            assert!(room < 64, "room for {room} groups");
        });
    }

    #[test]
    fn whoever_stays_gets_a_message_once_whoever_leaves_meanwhile() {
        with_connection(async |connection| {
            let group = Group::new();
            KEPT.set((0..100).map(|_| group.join(&connection)).collect());
            let own = group.clone();
            let wanted = move |peer: &Peer| {
                // With each who is asked, the last of the others leaves as well, and another one comes.
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
