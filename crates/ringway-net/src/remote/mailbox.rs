//! Jobs of other threads for a core that owns what their handles name.
//!
//! A handle that is used or dropped on another thread must reach its core in every case: if a full
//! mailbox lost a cancellation, the call would keep running. So each core with such handles
//! runs one task with a list of jobs. The live handles bound the list: each posts one job when it
//! is first used on another thread and one when it is dropped.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use ringway_runtime::{contain, drop_each, yield_now};

/// A closure that runs on the core.
pub type Job = Box<dyn FnOnce() + Send>;

/// One core's list of jobs, shared with the threads that post them.
pub struct Mailbox {
    core: u32,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    list: Vec<Job>,
    waker: Option<Waker>,
    closed: bool,
}

/// The mailboxes of all live cores, by number.
static MAILBOXES: Mutex<BTreeMap<u32, Arc<Mailbox>>> = Mutex::new(BTreeMap::new());

/// Numbers are not reused, so that a handle never reaches another core.
static NEXT_CORE: AtomicU32 = AtomicU32::new(0);

impl Mailbox {
    /// Opens the mailbox of the calling core, and spawns a task that serves it until the core ends.
    ///
    /// # Panics
    /// Panics outside of a runtime's thread.
    pub fn open() -> Arc<Self> {
        let core = NEXT_CORE.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Self { core, jobs: Mutex::default() });
        let open = OpenMailbox(Arc::clone(&mailbox));
        ringway_runtime::spawn_named("jobs of other threads", async move { open.serve().await });
        lock(&MAILBOXES).insert(core, Arc::clone(&mailbox));
        mailbox
    }

    /// Returns the number by which other threads find the mailbox.
    pub fn core(&self) -> u32 {
        self.core
    }

    /// Whether its core has ended.
    pub fn is_closed(&self) -> bool {
        lock(&self.jobs).closed
    }

    fn post(&self, job: Job) {
        let mut jobs = lock(&self.jobs);
        if jobs.closed {
            return;
        }
        jobs.list.push(job);
        let waker = jobs.waker.take();
        drop(jobs);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Posts `job` to a core. If that core has ended, the job is dropped, perhaps later.
pub fn post(core: u32, job: Job) {
    let mailbox = lock(&MAILBOXES).get(&core).cloned();
    if let Some(mailbox) = mailbox {
        mailbox.post(job);
    }
}

/// Whether a core takes jobs: it has a mailbox and has not ended.
pub fn takes_jobs(core: u32) -> bool {
    lock(&MAILBOXES).contains_key(&core)
}

/// Runs, on the core itself, all jobs that were posted before.
pub fn run_waiting(core: u32) {
    let mailbox = lock(&MAILBOXES).get(&core).cloned();
    if let Some(mailbox) = mailbox {
        let list = std::mem::take(&mut lock(&mailbox.jobs).list);
        run(list);
    }
}

fn run(list: Vec<Job>) {
    for job in list {
        // Jobs may drop values of users; a panic must not end the mailbox.
        contain("a job from another thread", job);
    }
}

/// Closes the mailbox when its task ends, at the latest with the core.
struct OpenMailbox(Arc<Mailbox>);

impl OpenMailbox {
    async fn serve(&self) {
        loop {
            let list = poll_fn(|cx| {
                let mut jobs = lock(&self.0.jobs);
                if jobs.list.is_empty() {
                    jobs.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(std::mem::take(&mut jobs.list))
            });
            run(list.await);
            yield_now().await; // jobs may be posted without end
        }
    }
}

impl Drop for OpenMailbox {
    fn drop(&mut self) {
        lock(&MAILBOXES).remove(&self.0.core);
        let mut jobs = lock(&self.0.jobs);
        jobs.closed = true;
        let list = std::mem::take(&mut jobs.list);
        drop(jobs);
        // Dropping a job notifies its waiter that it will not run.
        drop_each("a job from another thread", list);
    }
}

/// Locks a mutex. No foreign code runs under these locks, so after a panic their content is still
/// valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Panics when it is dropped.
    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    /// Posts itself again whenever it runs, until the other end is dropped.
    fn keep_busy(core: u32, until: mpsc::Sender<()>) {
        if until.send(()).is_ok() {
            post(core, Box::new(move || keep_busy(core, until)));
        }
    }

    #[test]
    fn endless_jobs_leave_turns_to_other_tasks() {
        let runtime = ringway_runtime::Runtime::builder().threads(1).start().expect("a core");
        let core = &runtime.cores()[0];
        let mailbox =
            core.spawn(async || Mailbox::open()).expect("it runs").wait().expect("no panic");
        let (until, busy) = mpsc::channel();
        keep_busy(mailbox.core(), until);
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
    fn panicking_job_affects_no_other_job() {
        let runtime = ringway_runtime::Runtime::builder().threads(1).start().expect("a core");
        let mailbox = runtime.cores()[0].spawn(async || Mailbox::open()).expect("it runs").wait();
        let mailbox = mailbox.expect("no panic");
        let (done, is_done) = mpsc::channel();
        for number in 0..3 {
            let (done, panics) = (done.clone(), PanicsOnDrop);
            post(
                mailbox.core(),
                Box::new(move || {
                    done.send(number).expect("the test waits");
                    drop(panics);
                }),
            );
            let seen =
                is_done.recv_timeout(Duration::from_secs(20)).expect("the mailbox is served");
            assert_eq!(seen, number);
        }
        assert!(!mailbox.is_closed());
    }
}
