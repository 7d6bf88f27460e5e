use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Wake, Waker};

use super::*;

/// Far more than any wait of these tests; it ends a test that would hang.
const LONG: Duration = Duration::from_secs(30);

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A job that waits until the sender is dropped.
fn gate() -> (mpsc::Sender<()>, impl FnOnce() + Send) {
    let (open, wait) = mpsc::channel();
    (open, move || wait.recv().unwrap_or_default()) // the error is the opening
}

#[test]
fn a_job_answers_from_another_thread() {
    let pool = BlockingPool::new(2, 2);
    let here = thread::current().id();
    let task = pool.spawn(move || thread::current().id() != here).expect("room");
    assert!(block_on(task).expect("no panic"));
    assert_eq!(pool.shutdown(LONG), Ok(()));
}

#[test]
fn a_panic_is_the_answer_and_the_thread_goes_on() {
    let pool = BlockingPool::new(1, 4);
    let thread_id = || thread::current().id();
    let before = block_on(pool.spawn(thread_id).expect("room")).expect("no panic");
    let task = pool.spawn(|| panic!("expected by this test")).expect("room");
    let payload = block_on::<BlockingTask<()>>(task).expect_err("it panicked");
    assert_eq!(payload.downcast_ref(), Some(&"expected by this test"));
    pool.submit(Box::new(|| panic!("also expected"))).expect("room");
    let after = block_on(pool.spawn(thread_id).expect("room")).expect("no panic");
    assert_eq!(before, after);
}

#[test]
fn a_queue_without_a_bound_takes_jobs() {
    let pool = BlockingPool::new(1, usize::MAX);
    for number in 0..3 {
        assert_eq!(block_on(pool.spawn(move || number).expect("room")).expect("no panic"), number);
    }
}

#[test]
fn threads_and_queue_are_bounded() {
    let pool = BlockingPool::new(2, 1);
    let (gates, tasks): (Vec<_>, Vec<_>) = std::iter::repeat_with(gate)
        .take(3)
        .map(|(open, job)| (open, pool.spawn(job).expect("room")))
        .unzip();
    let error = pool.spawn(|| ()).expect_err("two run and one waits");
    assert_eq!(error.to_string(), "the blocking pool is full: 2 threads are busy and 1 jobs wait");
    assert_eq!(pool.shared.lock().threads, 2);
    drop(gates);
    tasks.into_iter().for_each(|task| block_on(task).expect("no panic"));
    block_on(pool.spawn(|| ()).expect("room again")).expect("no panic");
}

#[test]
fn without_a_queue_a_job_goes_straight_to_a_thread() {
    let pool = BlockingPool::new(1, 0);
    let (open, job) = gate();
    let first = pool.spawn(job).expect("a thread starts");
    assert!(matches!(pool.spawn(|| ()), Err(SubmitError::Full { .. })));
    drop(open);
    block_on(first).expect("no panic");
}

#[test]
fn idle_threads_exit_and_new_ones_start() {
    let pool = BlockingPool::with_idle(4, 4, Duration::from_millis(1));
    for _ in 0..3 {
        block_on(pool.spawn(|| ()).expect("room")).expect("no panic");
        assert_eq!(pool.shared.wait_for_threads(LONG), 0);
        assert_eq!(pool.shared.lock().idle, 0);
        assert_eq!(pool.shared.lock().handles.len(), 0, "a thread that has ended is let go");
    }
}

#[test]
fn shutdown_drops_what_has_not_begun_and_joins_the_rest() {
    let pool = BlockingPool::new(1, 4);
    let (open, job) = gate();
    let (begun_tx, begun) = mpsc::channel();
    let running = pool.spawn(move || {
        begun_tx.send(()).expect("the test waits");
        job();
    });
    let running = running.expect("room");
    begun.recv().expect("the job begins");
    let waiting = pool.spawn(|| ()).expect("room");
    assert_eq!(pool.shutdown(Duration::ZERO), Err(StillRunning { jobs: 1 }));
    let payload = block_on(waiting).expect_err("it never began");
    assert!(payload.is::<Abandoned>());
    assert!(matches!(pool.spawn(|| ()), Err(SubmitError::Stopped)));
    drop(open);
    block_on(running).expect("a job that has begun ends normally");
    assert_eq!(pool.shutdown(LONG), Ok(()));
    assert_eq!(pool.shared.lock().handles.len(), 0);
}

#[test]
fn a_dropped_task_does_not_stop_its_job() {
    let pool = BlockingPool::new(1, 4);
    let (done_tx, done) = mpsc::channel();
    drop(pool.spawn(move || done_tx.send(())).expect("room"));
    done.recv_timeout(LONG).expect("the job ran");
}

#[test]
fn many_submitters_lose_no_job() {
    let pool = BlockingPool::with_idle(3, 10_000, Duration::from_micros(50));
    let count = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let count = count.clone();
                    let job = move || count.fetch_add(1, Ordering::Relaxed);
                    block_on(pool.spawn(job).expect("room")).expect("no panic");
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 2_000);
    assert!(pool.shared.lock().handles.len() <= 3 + 1);
    assert_eq!(pool.shutdown(LONG), Ok(()));
}

/// A job may come when the only thread has made up its mind to end, and has not got to it yet.
#[test]
fn a_job_that_meets_a_leaving_thread_is_run() {
    let pool = BlockingPool::with_idle(1, 1, Duration::from_nanos(1));
    let mut state = pool.shared.lock();
    (state.threads, state.idle) = (1, 1); // this one
    drop(state);
    assert!(pool.shared.next_job().is_none());
    let (done, is_done) = mpsc::channel();
    pool.submit(Box::new(move || done.send(()).expect("the test waits"))).expect("room");
    is_done.recv_timeout(LONG).expect("another thread runs it");
}

#[test]
fn threads_of_the_pool_do_not_inherit_a_pinning_that_came_later() {
    let pool = BlockingPool::new(1, 1);
    let allowed = CoreSet::available().expect("the kernel answers");
    let first = allowed.iter().next().expect("at least one core");
    let seen = thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            crate::affinity::pin_current_thread(first).expect("it is allowed");
            block_on(pool.spawn(CoreSet::available).expect("room")).expect("no panic")
        });
        pinned.join().expect("no panic")
    });
    assert_eq!(seen.expect("the kernel answers"), allowed);
}
