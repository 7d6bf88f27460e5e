//! Name look-ups off the cores: a few at a time, and one for all callers with the same name.
//!
//! The system's resolver blocks while its name servers are silent: for half a minute and more, long
//! after the caller has given up. So look-ups take only some threads of the blocking pool, and a
//! client that tries again joins the look-up that is under way instead of blocking another thread.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ringway_runtime::{contain, drop_contained, spawn_blocking};

use crate::error::{Error, Kind, Result};
use crate::limits;

/// Returns the addresses of a name, with port 0, or the resolver's error.
///
/// # Errors
/// Fails when too many names wait, or the blocking pool is full.
pub(crate) async fn look_up(name: &str) -> Result<io::Result<Vec<SocketAddr>>> {
    static OF_THE_PROCESS: LazyLock<LookUps> = LazyLock::new(|| LookUps::new(resolve));
    let found = OF_THE_PROCESS.ask(name)?.await;
    Ok(found.map_err(|error| io::Error::new(error.kind(), error)))
}

fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    (name, 0).to_socket_addrs().map(Vec::from_iter)
}

/// The look-ups under way, and the resolver.
struct LookUps {
    resolve: fn(&str) -> io::Result<Vec<SocketAddr>>,
    table: Mutex<Table>,
    /// The number of jobs of the blocking pool that serve the queue: at least one while a name is
    /// in it. It changes under the table's lock, except when a job is dropped before it has
    /// started.
    workers: AtomicUsize,
}

#[derive(Default)]
struct Table {
    under_way: HashMap<String, Arc<LookUp>>,
    /// Names that no worker has taken yet, in order.
    queue: VecDeque<String>,
}

/// One name that is being looked up or waits in the queue.
#[derive(Default)]
struct LookUp {
    state: Mutex<LookUpState>,
}

#[derive(Default)]
struct LookUpState {
    found: Option<Found>,
    waiting: Vec<(usize, Waker)>,
    /// The number that the next caller gets.
    next: usize,
}

/// The resolver's result, shared by all callers.
type Found = Result<Vec<SocketAddr>, Arc<io::Error>>;

impl LookUps {
    fn new(resolve: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Self {
        Self { resolve, table: Mutex::default(), workers: AtomicUsize::new(0) }
    }

    fn ask(&'static self, name: &str) -> Result<Answer> {
        let mut table = lock(&self.table);
        if let Some(under_way) = table.under_way.get(name) {
            return Ok(Answer::of(under_way));
        }
        if table.queue.len() >= limits::LOOK_UPS_WAITING_MAX {
            let what = format!("{} names are already waiting to be looked up", table.queue.len());
            return Err(Error::new(Kind::Limit, what));
        }
        let look_up = Arc::<LookUp>::default();
        table.under_way.insert(name.to_owned(), Arc::clone(&look_up));
        table.queue.push_back(name.to_owned());
        let answer = Answer::of(&look_up);
        drop(look_up);
        if let Err(error) = self.add_worker()
            && self.workers.load(Ordering::Relaxed) == 0
        {
            table.queue.clear();
            table.under_way.remove(name);
            return Err(error);
        }
        Ok(answer)
    }

    /// Adds a job that serves the queue, unless there are enough.
    fn add_worker(&'static self) -> Result {
        if self.workers.load(Ordering::Relaxed) >= limits::LOOK_UPS_AT_ONCE {
            return Ok(());
        }
        self.workers.fetch_add(1, Ordering::Relaxed);
        let worker = Worker { look_ups: self, counted: true };
        let begun = spawn_blocking(move || worker.serve());
        begun.map(drop).map_err(|error| Error::with_source(Kind::Limit, "name look-up", error))
    }

    /// Returns the next name that a caller still waits for.
    fn next(&self, worker: &mut Worker) -> Option<(String, Arc<LookUp>)> {
        let mut table = lock(&self.table);
        while let Some(name) = table.queue.pop_front() {
            let under_way = &table.under_way[&name];
            if Arc::strong_count(under_way) > 1 {
                return Some((name, Arc::clone(under_way)));
            }
            table.under_way.remove(&name);
        }
        worker.leave();
        None
    }
}

/// A job of the blocking pool that serves the queue.
struct Worker {
    look_ups: &'static LookUps,
    counted: bool,
}

impl Worker {
    fn serve(mut self) {
        let look_ups = self.look_ups;
        while let Some((name, look_up)) = look_ups.next(&mut self) {
            let found = (look_ups.resolve)(&name).map_err(Arc::new);
            lock(&look_ups.table).under_way.remove(&name);
            look_up.tell(found);
        }
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.look_ups.workers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.leave();
    }
}

impl LookUp {
    fn tell(&self, found: Found) {
        let mut state = lock(&self.state);
        state.found = Some(found);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for (_, waker) in waiting {
            contain("a waker", || waker.wake());
        }
    }
}

impl LookUpState {
    /// Removes the waker of a caller that no longer waits.
    fn leave(&mut self, number: usize) -> Option<Waker> {
        let index = self.waiting.iter().position(|(other, _)| *other == number)?;
        Some(self.waiting.swap_remove(index).1)
    }
}

/// Waits for the result of a look-up.
struct Answer {
    look_up: Arc<LookUp>,
    number: usize,
}

impl Answer {
    fn of(look_up: &Arc<LookUp>) -> Self {
        let mut state = lock(&look_up.state);
        state.next += 1;
        Self { look_up: Arc::clone(look_up), number: state.next }
    }
}

impl Future for Answer {
    type Output = Found;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Found> {
        let mut stale = Some(cx.waker().clone()); // cloned and dropped outside of the lock: foreign code
        let mut state = lock(&self.look_up.state);
        let found = state.found.clone();
        if found.is_none() {
            let former = state.leave(self.number);
            let waker = std::mem::replace(&mut stale, former);
            state.waiting.extend(waker.map(|waker| (self.number, waker)));
        }
        drop(state);
        drop_contained("the destructor of a waker", stale);
        found.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let stale = lock(&self.look_up.state).leave(self.number);
        drop_contained("the destructor of a waker", stale);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, mpsc};
    use std::task::Wake;
    use std::time::Duration;

    use ringway_runtime::{block_on, spawn, timeout};

    use super::*;

    /// A guard against hanging, far above what any step takes.
    const LIMIT: Duration = Duration::from_secs(20);

    /// A resolver that blocks until it is opened, and counts its calls.
    #[derive(Default)]
    struct Gate {
        is_open: Mutex<bool>,
        opened: Condvar,
        asked: AtomicUsize,
    }

    impl Gate {
        fn pass(&self) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let shut = self.opened.wait_while(lock(&self.is_open), |is_open| !*is_open);
            drop(shut.unwrap_or_else(PoisonError::into_inner));
        }

        fn open(&self) {
            *lock(&self.is_open) = true;
            self.opened.notify_all();
        }
    }

    #[test]
    fn unresponsive_name_servers_leave_threads_for_the_program() {
        static GATE: LazyLock<Gate> = LazyLock::new(Gate::default);
        static LOOK_UPS: LazyLock<LookUps> = LazyLock::new(|| {
            LookUps::new(|_| {
                GATE.pass();
                Err(io::ErrorKind::NotFound.into())
            })
        });
        let ended = block_on(timeout(LIMIT, async {
            let names: Vec<String> = (0..200).map(|number| format!("name{number}.test")).collect();
            let asked: Vec<_> =
                names.iter().map(|name| LOOK_UPS.ask(name).expect("room")).map(spawn).collect();
            let (tell, told) = mpsc::channel();
            let job = spawn_blocking(move || tell.send(())).expect("room in the pool");
            job.await.expect("no panic").expect("the test listens");
            told.try_recv().expect("done while all look-ups are silent");
            assert!(GATE.asked.load(Ordering::Relaxed) <= limits::LOOK_UPS_AT_ONCE);
            // A name whose callers have gone is not looked up.
            asked.iter().skip(100).for_each(|task| task.abort());
            ringway_runtime::yield_now().await;
            GATE.open();
            for task in asked.into_iter().take(100) {
                let found = task.await.expect("no panic");
                assert_eq!(found.expect_err("silent").kind(), io::ErrorKind::NotFound);
            }
        }));
        ended.expect("a core").expect("in time");
        assert!(GATE.asked.load(Ordering::Relaxed) <= 100 + limits::LOOK_UPS_AT_ONCE);
    }

    #[test]
    fn concurrent_look_ups_of_a_name_are_shared() {
        static GATE: LazyLock<Gate> = LazyLock::new(Gate::default);
        static LOOK_UPS: LazyLock<LookUps> = LazyLock::new(|| {
            LookUps::new(|_| {
                GATE.pass();
                Ok(vec![SocketAddr::from(([127, 0, 0, 9], 0))])
            })
        });
        let ended = block_on(timeout(LIMIT, async {
            let asked: Vec<_> =
                (0..50).map(|_| spawn(LOOK_UPS.ask("same.test").expect("room"))).collect();
            ringway_runtime::yield_now().await;
            asked[0].abort();
            ringway_runtime::yield_now().await;
            GATE.open();
            for task in asked.into_iter().skip(1) {
                assert_eq!(task.await.expect("no panic").expect("found").len(), 1);
            }
        }));
        ended.expect("a core").expect("in time");
        assert_eq!(GATE.asked.load(Ordering::Relaxed), 1);
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("as the test asked for");
        }
    }

    #[test]
    fn panicking_waker_does_not_keep_the_result_from_others() {
        static GATE: LazyLock<Gate> = LazyLock::new(Gate::default);
        static LOOK_UPS: LazyLock<LookUps> = LazyLock::new(|| {
            LookUps::new(|_| {
                GATE.pass();
                Ok(Vec::new())
            })
        });
        let waker = Waker::from(Arc::new(Panics));
        let mut panics: Vec<_> = (0..limits::LOOK_UPS_AT_ONCE)
            .map(|number| LOOK_UPS.ask(&number.to_string()).expect("room"))
            .collect();
        for answer in &mut panics {
            assert!(Pin::new(answer).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let ended = block_on(timeout(LIMIT, async {
            let asked = ["0", "behind them all"].map(|name| LOOK_UPS.ask(name).expect("room"));
            let asked = asked.map(spawn);
            ringway_runtime::yield_now().await;
            GATE.open();
            for task in asked {
                task.await.expect("no panic").expect("found");
            }
        }));
        ended.expect("a core").expect("in time");
        drop(panics);
    }

    /// A waker whose destructor panics.
    struct PanicsAtItsEnd;

    impl Wake for PanicsAtItsEnd {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for PanicsAtItsEnd {
        fn drop(&mut self) {
            panic!("as the test asked for");
        }
    }

    #[test]
    fn wakers_with_panicking_destructors_are_replaced_and_dropped() {
        let look_up = Arc::default();
        let mut answer = Answer::of(&look_up);
        let mut poll = || {
            let waker = Waker::from(Arc::new(PanicsAtItsEnd));
            Pin::new(&mut answer).poll(&mut Context::from_waker(&waker)).is_pending()
        };
        assert!(poll() && poll());
        drop(answer);
    }

    #[test]
    fn waiting_names_are_bounded() {
        static GATE: LazyLock<Gate> = LazyLock::new(Gate::default);
        static LOOK_UPS: LazyLock<LookUps> = LazyLock::new(|| {
            LookUps::new(|_| {
                GATE.pass();
                Ok(Vec::new())
            })
        });
        let names = limits::LOOK_UPS_WAITING_MAX + limits::LOOK_UPS_AT_ONCE;
        let asked: Vec<_> = (0..=names).map(|number| LOOK_UPS.ask(&number.to_string())).collect();
        let refused = asked.into_iter().filter_map(Result::err).next();
        GATE.open();
        assert!(refused.expect("one too many").is_limit());
    }
}
