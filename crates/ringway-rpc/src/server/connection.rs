//! What the calls of one connection share in every protocol: the machine, the streams and the running
//! calls.

mod rest;
mod take_in;

use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::{Connection, View};
use ringway_runtime::drop_each;
use ringway_wire::native::{GoAwayCode, Outgoing, Reply, StreamId, Unserved};

use self::rest::Rest;
use super::admitted::Deferred;
use super::age::Age;
use super::backlog::Pause;
use super::budget::Kept;
use super::calls::Calls;
use super::connections::CoreConnection;
use super::core::ServerCore;
use super::guests::host::GuestHost;
use super::intake::IntakeShare;
use super::machine::Machine;
use super::method_ids::MethodIds;
use crate::call::context::Site;
use crate::call::status::{Code, Status};
use crate::connection::carrier::{self, CarrierId};
use crate::connection::driver::MESSAGE;
use crate::connection::table::StreamTable;
use crate::limits;
use crate::waiters::Borrowed;

/// A connection as the server sees it. The connection's task receives and sends; calls are answered
/// through it.
///
/// Nothing here stays borrowed while user code runs: a handler that is polled or dropped may call back
/// through one of its streams.
pub(crate) struct ServerConnection<M: Machine> {
    core: Rc<ServerCore>,
    site: Rc<Site>,
    /// Whether another connection carries the calls of this one.
    is_part: bool,
    machine: RefCell<M>,
    streams: RefCell<StreamTable>,
    pub(super) calls: RefCell<Calls>,
    /// Calls whose handlers start once all received bytes have been processed.
    pub(super) deferred: RefCell<VecDeque<Deferred>>,
    /// The bytes that they keep, except those that the machine counts.
    pub(super) deferred_len: Cell<usize>,
    /// Whether calls wait until the client has taken replies.
    pub(super) pause: Pause,
    pub(super) method_ids: RefCell<MethodIds>,
    /// The id by which stream handles find this connection; registered with the first stream.
    pub(super) carrier: Cell<Option<CarrierId>>,
    /// A reusable buffer for encoding replies.
    scratch: Cell<Vec<u8>>,
    task: RefCell<Option<Waker>>,
    /// Whether the task runs or has been woken, so that queued output leaves without another wake-up.
    awake: Cell<bool>,
    closed: Cell<bool>,
    /// Whether the client is read, as the machine knows.
    is_read: Cell<bool>,
    /// The index of this connection in the core's list.
    pub(super) list_index: Cell<usize>,
    /// The bytes kept here, as last reported to the core.
    pub(super) kept: Cell<Kept>,
    /// Calls that the machine has ended by itself, as last reported to the core.
    pub(super) unserved: Cell<Unserved>,
    /// Whether the connection is to be closed at once, even with calls running.
    pub(super) is_ended: Cell<bool>,
    pub(super) intake: IntakeShare,
    /// Received bytes that are to be processed when the core has time for more.
    put_off: Cell<Option<Box<View>>>,
    age: Age,
    rest: Rest,
    /// When it was opened, in milliseconds.
    opened_ms: u64,
    /// The last failure of a call, and when that was.
    pub(super) last_failure: Cell<Option<Box<(Code, Duration)>>>,
    /// Answers requests that are no calls.
    pub(super) guest_host: OnceCell<Box<dyn GuestHost>>,
    /// The number of calls that the client was last told are welcome.
    leased: Cell<Option<u32>>,
    send_mark: usize,
}

impl<M: Machine> ServerConnection<M> {
    pub(crate) fn open(core: Rc<ServerCore>, connection: &Connection, machine: M) -> Rc<Self> {
        let limits = connection.limits();
        let send_mark = send_mark(limits.send_low_water, limits.send_high_water);
        let site = Rc::new(Site::of(connection, core.drain_of_calls()));
        Self::opened(core, site, send_mark, machine, false)
    }

    /// Opens the calls that come from `site`, whose connection carries them.
    pub(crate) fn open_part(core: Rc<ServerCore>, site: Rc<Site>, machine: M) -> Rc<Self> {
        Self::opened(core, site, 0, machine, true)
    }

    fn opened(
        core: Rc<ServerCore>,
        site: Rc<Site>,
        send_mark: usize,
        machine: M,
        is_part: bool,
    ) -> Rc<Self> {
        let opened = Rc::new(Self {
            machine: RefCell::new(machine),
            site,
            is_part,
            streams: RefCell::default(),
            calls: RefCell::default(),
            deferred: RefCell::default(),
            deferred_len: Cell::new(0),
            pause: Pause::default(),
            method_ids: RefCell::new(MethodIds::new(core.settings().native.settings.max_methods)),
            carrier: Cell::new(None),
            scratch: Cell::default(),
            task: RefCell::default(),
            awake: Cell::new(false),
            closed: Cell::new(false),
            is_read: Cell::new(true),
            list_index: Cell::new(0),
            kept: Cell::default(),
            unserved: Cell::default(),
            is_ended: Cell::new(false),
            intake: IntakeShare::default(),
            put_off: Cell::new(None),
            age: Age::new(core.settings(), core.now()),
            rest: Rest::new(core.now()),
            opened_ms: core.now().as_millis() as u64,
            last_failure: Cell::new(None),
            guest_host: OnceCell::new(),
            leased: Cell::new(None),
            send_mark,
            core,
        });
        let of_core = Rc::clone(&opened) as Rc<dyn CoreConnection>;
        opened.core.connections().insert(&of_core);
        opened.renew_lease();
        if opened.core.budget().is_over_soft_limit() {
            opened.machine().set_memory_pressure(true);
        }
        if let Some(drain) = opened.core.draining() {
            opened.go_away(drain);
        }
        opened
    }

    pub(crate) fn core(&self) -> &Rc<ServerCore> {
        &self.core
    }

    pub(super) fn opened_at(&self) -> Duration {
        Duration::from_millis(self.opened_ms)
    }

    pub(super) fn site(&self) -> &Rc<Site> {
        &self.site
    }

    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub(super) fn machine(&self) -> RefMut<'_, M> {
        self.machine.borrow_mut()
    }

    /// Borrows the stream table. Wakers run when the borrow ends, so nothing else may be borrowed then.
    #[inline]
    pub(super) fn streams(&self) -> Borrowed<'_, StreamTable> {
        Borrowed::of(&self.streams)
    }

    /// Borrows the stream table for reading.
    pub(super) fn known_streams(&self) -> Ref<'_, StreamTable> {
        self.streams.borrow()
    }

    /// Borrows the stream table for changes that wake nobody.
    #[inline]
    pub(super) fn quiet_streams(&self) -> RefMut<'_, StreamTable> {
        self.streams.borrow_mut()
    }

    /// The id under which this connection is registered for the handles of its streams.
    pub(super) fn carrier(self: &Rc<Self>) -> CarrierId {
        self.carrier.get().unwrap_or_else(|| {
            let id = carrier::register(Rc::clone(self) as Rc<dyn carrier::Carrier>);
            self.carrier.set(Some(id));
            id
        })
    }
}

/// Methods for the connection's task.
impl<M: Machine> ServerConnection<M> {
    /// Marks the task as running: it need not be woken before [`end_turn`](Self::end_turn).
    pub(super) fn begin_turn(&self, waker: &Waker) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            *task = Some(waker.clone());
        }
        self.awake.set(true);
        self.begin_intake();
    }

    pub(super) fn end_turn(&self) {
        self.awake.set(false);
        self.end_intake();
    }

    pub(super) fn transmit(&self, room: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.machine.borrow_mut().transmit(room, out);
    }

    pub(super) fn has_output(&self) -> bool {
        self.machine.borrow().has_output()
    }

    /// Whether to stop reading requests because too much is queued for a peer that does not read, or kept
    /// for handlers, or because others are to take in theirs first.
    pub(super) fn is_full(&self) -> bool {
        let is_full = self.has_too_much();
        if self.is_read.replace(!is_full) == is_full {
            self.machine.borrow_mut().note_reading(!is_full, self.core.now());
        }
        is_full
    }

    #[inline]
    fn has_too_much(&self) -> bool {
        self.has_much_unsent()
            || self.has_much_deferred()
            || self.core.budget().is_receiving_paused()
            || self.waits_to_receive()
    }

    /// Whether requests are left unread because much is queued for a peer that does not read.
    #[inline]
    fn has_much_unsent(&self) -> bool {
        self.machine.borrow().output_len() >= self.core.intake().unsent_max()
    }

    /// Whether requests are left unread for replies that wait for others, as those of a batch do for its last one.
    pub(super) fn waits_for_handlers(&self) -> bool {
        !self.has_output() && self.has_much_unsent()
    }

    /// Whether the machine has events that do not come from received bytes.
    pub(super) fn has_events(&self) -> bool {
        self.machine.borrow().has_events()
    }

    /// The length of the socket's send queue up to which the machine hands over more output.
    pub(super) fn send_mark(&self) -> usize {
        self.send_mark
    }

    pub(super) fn next_timeout(&self) -> Option<Duration> {
        let machine = (!self.is_held_back()).then(|| self.machine.borrow().poll_timeout());
        let own = [self.age.due(), self.rest.due(), self.held_back_until()];
        own.into_iter().chain([machine.flatten()]).flatten().min()
    }

    /// Whether the server leaves unread what the client sends, because others come first. The client's silence means
    /// nothing then, so the machine's deadlines wait until the connection is read again. Those of an end do not. What
    /// was put off may also wait for a client that does not read its replies, which is no reason to be patient with it.
    #[inline]
    fn is_held_back(&self) -> bool {
        let is_put_off = self.has_put_off() && !self.has_much_unsent();
        let waits = self.is_in_line() || self.has_much_deferred() || is_put_off;
        (waits || self.core.budget().is_receiving_paused())
            && self.core.draining().is_none()
            && !self.age.is_retired()
    }

    pub(super) fn handle_timeout(&self, now: Duration) -> Result<(), M::Violation> {
        // The machine ends all calls then, but does not know which of them have begun.
        if self.age.is_over(now, self.core.draining()) {
            self.refuse_waiting();
        }
        if let Some(grace) = self.age.retire(now)
            && self.core.draining().is_none()
        {
            let reason = "the connection has reached its age";
            self.machine.borrow_mut().go_away(GoAwayCode::MaxAge, grace, reason);
        }
        if self.held_back_until().is_some_and(|until| until <= now) {
            self.end_late(now);
        }
        if self.rest.begins(now) {
            self.free_spare();
        }
        if self.is_held_back() {
            return Ok(());
        }
        self.machine.borrow_mut().handle_timeout(now)
    }

    /// Frees what is kept for the next calls.
    pub(super) fn free_spare(&self) {
        self.machine().drop_spare();
        self.quiet_streams().drop_spare();
        self.calls.borrow_mut().drop_spare();
        self.deferred.borrow_mut().shrink_to_fit();
        self.scratch.take();
        self.guest_host.get().into_iter().for_each(|host| host.drop_spare());
    }

    /// Reports the bytes kept here to the core, and lets it check its memory.
    pub(super) fn settle(&self) {
        self.update_usage();
        self.core.watch_budget();
    }

    /// Whether the connection is to be closed at once.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended.get()
    }

    /// Whether the connection drains and has no calls left.
    pub(super) fn is_drained(&self) -> bool {
        let is_ending = self.core.draining().is_some() || self.age.is_retired();
        is_ending && self.machine.borrow().is_drained()
    }

    /// Whether the connection has reached its age, after which the client is to make another one.
    pub(super) fn is_retired(&self) -> bool {
        let _ends_at_the_alarm = self.age.retire(self.core.now());
        self.age.is_retired()
    }

    /// The time at which running calls are ended, because of the drain or the connection's age.
    pub(super) fn calls_end_at(&self) -> Option<Duration> {
        match self.core.draining() {
            Some(left) => Some(self.core.now().saturating_add(left)),
            None => self.age.calls_end_at(),
        }
    }

    /// Tells the client how many calls are welcome, if that has changed: the connection's share of the
    /// adaptive limit, plus its open streams, which no limit counts.
    pub(super) fn renew_lease(&self) {
        let Some(share) = self.core.lease() else { return };
        let permits = share.saturating_add(self.known_streams().open() as u32);
        if self.leased.replace(Some(permits)) != Some(permits) {
            self.machine.borrow_mut().lease(permits);
            self.wake();
        }
    }

    /// Ends all calls of a connection that has ended.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.update_usage();
        self.end_calls();
        self.leave_registry();
        self.core.connections().remove(self.list_index.get(), self.is_part);
        self.machine().discard_output();
        drop_each(MESSAGE, self.take_discarded());
    }

    /// Ends all calls because the client has gone, or says nothing more.
    pub(super) fn end_calls(&self) {
        let why = match self.site.peer().address() {
            Some(address) => format!("the connection from {address} was lost"),
            None => String::from("the connection was lost"),
        };
        self.guest_host.get().into_iter().for_each(|host| host.end_all());
        drop(self.take_put_off());
        let lost = self.calls.borrow_mut().take_all();
        for call in lost {
            call.cancel(Code::Cancelled, &why);
        }
        self.drop_deferred();
        self.streams().finish_all(&Status::unavailable(why));
    }

    /// Takes the message bodies that will not be sent any more, to be dropped outside of any borrow.
    #[inline]
    pub(super) fn take_discarded(&self) -> Vec<Bytes> {
        self.machine.borrow_mut().take_discarded()
    }

    /// Unregisters a closed connection once all handles of its streams are gone. Until then, handles may
    /// still read messages that were received.
    pub(super) fn leave_registry(&self) {
        if self.closed.get()
            && self.known_streams().is_empty()
            && let Some(id) = self.carrier.take()
        {
            carrier::unregister(id);
        }
    }
}

/// Methods for calls, which run in the connection's task or in their own.
impl<M: Machine> ServerConnection<M> {
    /// Wakes the connection's task to send what is queued, at the latest after the tasks that are ready
    /// now.
    pub(crate) fn wake(&self) {
        if !self.awake.replace(true)
            && let Some(task) = &*self.task.borrow()
        {
            self.rest.note_use(self.core.now());
            task.wake_by_ref();
        }
    }

    /// Answers a call and returns the status that was sent. Does nothing if the call has already ended.
    #[inline]
    pub(super) fn respond(&self, stream: StreamId, reply: Reply<'_>) -> Option<u8> {
        let status = self.machine.borrow_mut().respond(stream, reply);
        self.wake();
        status
    }

    /// Lends the buffer for encoding a reply.
    #[inline]
    pub(super) fn take_scratch(&self) -> Vec<u8> {
        let mut scratch = self.scratch.take();
        scratch.clear();
        scratch
    }

    /// Keeps the buffer for the next reply, unless it has grown too large.
    #[inline]
    pub(super) fn keep_scratch(&self, scratch: Vec<u8>) {
        if scratch.capacity() <= limits::SERVER_SCRATCH_BYTES_KEPT {
            self.scratch.set(scratch);
        }
    }
}

impl<M: Machine> Drop for ServerConnection<M> {
    fn drop(&mut self) {
        let machine = self.machine.get_mut();
        machine.discard_output();
        drop_each(MESSAGE, machine.take_discarded());
    }
}

/// The send mark, a little above the low-water mark: the socket always has something to send, and a small
/// reply can still overtake what the machine holds back.
fn send_mark(low_water: usize, high_water: usize) -> usize {
    low_water + high_water.saturating_sub(low_water) / 8 + 1
}
