//! What other threads want done on a core that carries streams.
//!
//! A handle that is used or dropped elsewhere must reach its core without fail: a cancellation that
//! is lost because a mailbox was full would leave a call running. So each core that has carriers
//! runs one task with a list of orders. The list is bounded by the handles alive: each one places
//! an order when it is first used elsewhere and one when it is dropped.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use ringway_runtime::{contain, drop_each, yield_now};

/// Runs on the core.
pub(crate) type Order = Box<dyn FnOnce() + Send>;

/// One core's list of orders, shared with whoever places them.
pub(crate) struct Desk {
    core: u32,
    orders: Mutex<Orders>,
}

#[derive(Default)]
struct Orders {
    list: Vec<Order>,
    clerk: Option<Waker>,
    closed: bool,
}

/// The desks of all cores that live, by number.
static DESKS: Mutex<BTreeMap<u32, Arc<Desk>>> = Mutex::new(BTreeMap::new());

/// Numbers are not used again, so that a handle never reaches another core than its own.
static NEXT_CORE: AtomicU32 = AtomicU32::new(0);

impl Desk {
    /// Opens the desk of the calling core, with a task that serves it until the core ends.
    ///
    /// # Panics
    /// Outside of a runtime's thread.
    pub(crate) fn open() -> Arc<Self> {
        let core = NEXT_CORE.fetch_add(1, Ordering::Relaxed);
        let desk = Arc::new(Self { core, orders: Mutex::default() });
        let open = OpenDesk(Arc::clone(&desk));
        ringway_runtime::spawn_named("orders for streams", async move { open.serve().await });
        lock(&DESKS).insert(core, Arc::clone(&desk));
        desk
    }

    /// The number by which other threads find it.
    pub(crate) fn core(&self) -> u32 {
        self.core
    }

    /// Whether its core has ended.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.orders).closed
    }

    fn place(&self, order: Order) {
        let mut orders = lock(&self.orders);
        if orders.closed {
            return;
        }
        orders.list.push(order);
        let clerk = orders.clerk.take();
        drop(orders);
        clerk.into_iter().for_each(Waker::wake);
    }
}

/// Has `order` run on a core. It is dropped, perhaps later, if that core has ended.
pub(crate) fn place(core: u32, order: Order) {
    let desk = lock(&DESKS).get(&core).cloned();
    if let Some(desk) = desk {
        desk.place(order);
    }
}

/// Runs at once, on the core itself, what others want done there: all that was placed before.
pub(crate) fn run_waiting(core: u32) {
    let desk = lock(&DESKS).get(&core).cloned();
    if let Some(desk) = desk {
        let list = std::mem::take(&mut lock(&desk.orders).list);
        run(list);
    }
}

fn run(list: Vec<Order>) {
    for order in list {
        // Some drop what belongs to users. The desk goes on whatever comes of it.
        contain("an order from another thread", order);
    }
}

/// Closes the desk when its task ends, with the core at the latest.
struct OpenDesk(Arc<Desk>);

impl OpenDesk {
    async fn serve(&self) {
        loop {
            let list = poll_fn(|cx| {
                let mut orders = lock(&self.0.orders);
                if orders.list.is_empty() {
                    orders.clerk = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(std::mem::take(&mut orders.list))
            });
            run(list.await);
            yield_now().await; // more may be placed all the time
        }
    }
}

impl Drop for OpenDesk {
    fn drop(&mut self) {
        lock(&DESKS).remove(&self.0.core);
        let mut orders = lock(&self.0.orders);
        orders.closed = true;
        let list = std::mem::take(&mut orders.list);
        drop(orders);
        // Tells those who wait for an order that nobody will see to it.
        drop_each("an order from another thread", list);
    }
}

/// No foreign code runs under these locks, so a poisoned one guards sound content.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Panics when it is dropped.
    struct Angry;

    impl Drop for Angry {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    /// Is there again as soon as it has been carried out, until the other end is dropped.
    fn keep_busy(core: u32, until: mpsc::Sender<()>) {
        if until.send(()).is_ok() {
            place(core, Box::new(move || keep_busy(core, until)));
        }
    }

    #[test]
    fn orders_that_never_end_leave_the_core_to_others_as_well() {
        let runtime = ringway_runtime::Runtime::builder().threads(1).start().expect("a core");
        let core = &runtime.cores()[0];
        let desk = core.spawn(async || Desk::open()).expect("it runs").wait().expect("no panic");
        let (until, busy) = mpsc::channel();
        keep_busy(desk.core(), until);
        for _ in 0..10 {
            busy.recv_timeout(Duration::from_secs(20)).expect("it is carried out");
        }
        let (done, is_done) = mpsc::channel();
        let other = core.spawn(async move || done.send(())).expect("it runs");
        let heard = is_done.recv_timeout(Duration::from_secs(20));
        drop(busy);
        heard.expect("another task has its turn");
        other.wait().expect("no panic").expect("the test waits");
    }

    #[test]
    fn an_order_that_panics_is_the_only_one_to_suffer() {
        let runtime = ringway_runtime::Runtime::builder().threads(1).start().expect("a core");
        let desk = runtime.cores()[0].spawn(async || Desk::open()).expect("it runs").wait();
        let desk = desk.expect("no panic");
        let (done, is_done) = mpsc::channel();
        for number in 0..3 {
            let (done, angry) = (done.clone(), Angry);
            place(
                desk.core(),
                Box::new(move || {
                    done.send(number).expect("the test waits");
                    drop(angry);
                }),
            );
            let seen = is_done.recv_timeout(Duration::from_secs(20)).expect("the desk is served");
            assert_eq!(seen, number);
        }
        assert!(!desk.is_closed());
    }
}
