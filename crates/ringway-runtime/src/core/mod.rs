//! One core: its driver, tasks, timers and sockets, and the turn that joins them.

mod abort;
mod accounting;
mod alive;
mod callbacks;
mod current;
mod dispatch;
mod end;
mod file_ops;
mod files;
mod hangs;
mod number;
mod registry;
mod send_memory;
mod spin;
mod still_clock;
mod turn;
mod turn_clock;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use socket2::SockRef;

pub(crate) use accounting::Held;
pub use alive::cores_alive;
pub(crate) use current::{
    ensure_vacant, enter, look_at_current, try_with_current, wake_task, with_current,
};
use file_ops::FileOps;
pub(crate) use file_ops::FileOutcome;
pub(crate) use number::CoreNumber;
pub(crate) use registry::{CoreShared, Message};
pub(crate) use send_memory::SendMemory;
pub(crate) use spin::Spin;
use still_clock::StillClock;
use turn_clock::TurnClock;

use crate::contain::drop_waker;
use crate::driver::{Driver, Event, Key, RecvClass, sockets};
use crate::io::{RecvState, Socket, StreamState};
use crate::slab::Slab;
use crate::task::{JoinHandle, Tasks};
use crate::timer::wheel::{TimerKey, Wheel};

/// Everything that one thread of a runtime owns.
pub(crate) struct Core {
    pub(crate) shared: Arc<CoreShared>,
    number: CoreNumber,
    pub(crate) tasks: Tasks,
    pub(crate) driver: RefCell<Box<dyn Driver>>,
    pub(crate) sockets: RefCell<Slab<Socket>>,
    pub(crate) send_memory: SendMemory,
    pub(crate) files: FileOps,
    /// Descriptors of sockets, and operations on files, that the driver has.
    open: Cell<usize>,
    /// Number of those that stay open only for their peers.
    pub(crate) draining: Cell<usize>,
    /// Whether the core is ending, so that no socket stays open for a peer or a handle.
    ending: Cell<bool>,
    /// Memory that all sockets hold.
    pub(crate) held: Held,
    /// Sockets that have something for the driver at the end of the turn.
    dirty: RefCell<Vec<Key>>,
    timers: RefCell<Wheel<Timer>>,
    clock: TurnClock,
    /// Watches the clock of a simulation.
    still_clock: Option<StillClock>,
    events: Cell<Vec<Event>>,
    inbox: RefCell<MailboxBatch>,
    fired: Cell<Vec<Timer>>,
    pub(crate) spin: Spin,
    /// The last field, so that everything above is dropped before it.
    _alive: alive::Alive,
}

/// Buffers for draining the mailbox, kept for their memory.
#[derive(Default)]
struct MailboxBatch {
    messages: Vec<Message>,
    wakes: Vec<u64>,
}

/// The action of a timer.
pub(crate) enum Timer {
    /// Wakes a task.
    Wake(Waker),
    /// Checks the deadlines of a socket.
    Socket(Key),
}

impl Core {
    /// Creates the core of the calling thread, which must also have made `driver`.
    pub(crate) fn new(
        shared: Arc<CoreShared>,
        driver: Box<dyn Driver>,
        spin: Duration,
        held_bytes_max: usize,
    ) -> Rc<Self> {
        let now = driver.now();
        Rc::new(Self {
            tasks: Tasks::new(shared.id()),
            shared,
            sockets: RefCell::default(),
            open: Cell::new(0),
            draining: Cell::new(0),
            ending: Cell::new(false),
            held: Held::new(held_bytes_max),
            number: CoreNumber::next(),
            send_memory: SendMemory::default(),
            files: FileOps::default(),
            dirty: RefCell::default(),
            timers: RefCell::new(Wheel::new(now)),
            clock: TurnClock::new(now),
            still_clock: StillClock::of(&*driver),
            driver: RefCell::new(driver),
            events: Cell::default(),
            inbox: RefCell::default(),
            fired: Cell::default(),
            spin: Spin::new(spin),
            _alive: alive::Alive::begin(),
        })
    }

    /// The time at which this turn's events were found.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The current time.
    pub(crate) fn clock(&self) -> Instant {
        self.driver.borrow().now()
    }

    /// The time at which the core was created.
    pub(crate) fn began(&self) -> Instant {
        self.clock.origin()
    }

    /// Time between the core's creation and this turn's events.
    #[inline]
    pub(crate) fn uptime(&self) -> Duration {
        self.clock.uptime()
    }

    /// Runs `future` as a task named by its type.
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.tasks.spawn(future, std::any::type_name::<F>())
    }

    pub(crate) fn number(&self) -> CoreNumber {
        self.number
    }

    /// Notes that the driver has got, or closed, a descriptor, or has begun or ended an operation on files.
    pub(crate) fn count_open(&self, change: isize) {
        self.open.set(self.open.get().saturating_add_signed(change));
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    pub(crate) fn set_ending(&self) {
        self.ending.set(true);
    }

    /// Marks a stream to be served at the end of the turn.
    #[inline]
    pub(crate) fn mark_stream(&self, key: Key, state: &mut StreamState) {
        if !std::mem::replace(&mut state.dirty, true) {
            self.mark_dirty(key);
        }
    }

    #[inline]
    pub(crate) fn start_recv(&self, key: Key, state: &mut StreamState) {
        state.recv = RecvState::Armed;
        self.driver.borrow_mut().recv_start(key, state.class);
    }

    pub(crate) fn stop_recv(&self, key: Key, state: &mut StreamState) {
        state.recv = RecvState::Stopping;
        self.driver.borrow_mut().recv_stop(key);
    }

    /// Switches a stream that fills every buffer to large buffers.
    #[cold]
    fn change_to_bulk(&self, key: Key, state: &mut StreamState) {
        state.class = RecvClass::Bulk;
        self.stop_recv(key, state);
        state.recv = RecvState::Changing;
    }

    /// Adds a socket to the list of those served at the end of the turn. The caller ensures that it
    /// is listed once.
    pub(crate) fn mark_dirty(&self, key: Key) {
        self.dirty.borrow_mut().push(key);
    }

    /// Lets `f` set options of a socket; the simulated driver has no sockets, so it does nothing
    /// there.
    pub(crate) fn with_socket(
        &self,
        fd: RawFd,
        f: impl FnOnce(SockRef<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.driver.borrow().is_simulated() {
            return Ok(());
        }
        f(SockRef::from(&sockets::borrow(fd)))
    }

    pub(crate) fn start_timer(&self, deadline: Instant, timer: Timer) -> TimerKey {
        self.timers.borrow_mut().insert(deadline, timer)
    }

    /// Moves a timer; `false` if it has already fired.
    pub(crate) fn move_timer(&self, key: TimerKey, deadline: Instant) -> bool {
        self.timers.borrow_mut().rearm(key, deadline)
    }

    pub(crate) fn stop_timer(&self, key: TimerKey) {
        let timer = self.timers.borrow_mut().cancel(key);
        if let Some(Timer::Wake(waker)) = timer {
            drop_waker(Some(waker));
        }
    }
}

/// Creates an eventfd with which other threads wake a core.
pub(crate) fn wake_descriptor() -> io::Result<Arc<OwnedFd>> {
    use rustix::event::{EventfdFlags, eventfd};
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}
