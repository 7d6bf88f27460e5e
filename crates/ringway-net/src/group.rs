//! Sending one message to many connections.

use std::cell::RefCell;
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
    place: usize,
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

#[derive(Default)]
struct Places {
    members: Vec<Option<WeakConnection>>,
    free: Vec<usize>,
}

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
    // Members are taken out one by one: `wanted` may join and leave.
    for place in 0..shard.len() {
        let Some(member) = shard.member(place) else { continue };
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

impl Shard {
    fn len(&self) -> usize {
        self.places.borrow().members.len()
    }

    /// The member at a place, whether or not its connection is still there.
    fn member(&self, place: usize) -> Option<WeakConnection> {
        self.places.borrow().members.get(place)?.clone()
    }
}

impl Places {
    fn take(&mut self, inner: WeakConnection) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.members[place] = Some(inner);
                place
            }
            None => {
                self.members.push(Some(inner));
                self.members.len() - 1
            }
        }
    }

    /// Whether the last member has left.
    fn leave(&mut self, place: usize) -> bool {
        self.members[place] = None;
        self.free.push(place);
        self.free.len() == self.members.len()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.members.fetch_sub(1, Ordering::Relaxed);
        self.shard.of.members.fetch_sub(1, Ordering::Relaxed);
        if !self.shard.places.borrow_mut().leave(self.place) {
            return;
        }
        // While a thread ends, its table may be gone already.
        let removed = SHARDS.try_with(|shards| {
            let mut shards = shards.borrow_mut();
            let is_own = |shard: &Rc<Shard>| Rc::ptr_eq(shard, &self.shard);
            shards.get(&self.shared.id).is_some_and(is_own).then(|| shards.remove(&self.shared.id))
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
        write!(f, "Membership({})", self.place)
    }
}

impl fmt::Debug for Delivering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivering({:?}, {} other cores)", self.here, self.elsewhere.len())
    }
}
