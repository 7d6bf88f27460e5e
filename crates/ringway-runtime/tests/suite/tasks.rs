//! Tasks of one core: results, panics, aborts, fairness, numbers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Poll, Waker};

use ringway_runtime::sync::{Notify, oneshot};
use ringway_runtime::{CoreHandle, JoinHandle, spawn, yield_now};

use crate::support;
use crate::support::{Driver, echo, exchange, pair};

on_every_driver!(
    a_task_gives_its_result,
    a_panicking_task_ends_alone,
    an_aborted_task_is_dropped_and_its_waiter_told,
    a_task_that_aborts_itself_ends_after_its_poll,
    an_abort_after_the_end_changes_nothing,
    a_dropped_handle_lets_the_task_run,
    a_panic_in_a_destructor_is_the_tasks_end,
    a_panic_in_the_destructor_of_an_aborted_task_is_contained,
    a_panic_in_the_destructor_after_a_self_abort_is_contained,
    a_panic_in_a_destructor_at_the_cores_end_is_contained,
    yielding_tasks_take_turns,
    a_task_that_yields_lets_the_core_look_at_its_sockets,
    a_stale_waker_reaches_no_later_task,
    a_hundred_thousand_tasks_at_once,
);

async fn a_task_gives_its_result(_: Driver) {
    let inner = spawn(async { spawn(async { 20 }).await.expect("no panic") + 1 });
    assert_eq!(inner.await.expect("no panic") * 2, 42);
}

async fn a_panicking_task_ends_alone(_: Driver) {
    let other = spawn(async {
        yield_now().await;
        "alive"
    });
    let failed = spawn(async { panic!("as {} wanted", "we") });
    let error = failed.await.expect_err("it panicked");
    assert!(error.is_panic() && !error.is_aborted());
    assert!(error.to_string().contains("as we wanted"), "{error}");
    assert_eq!(other.await.expect("not touched by it"), "alive");
}

/// Calls a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

async fn an_aborted_task_is_dropped_and_its_waiter_told(_: Driver) {
    let dropped = Rc::new(Cell::new(false));
    let flag = dropped.clone();
    let task = spawn(async move {
        let _guard = OnDrop(|| flag.set(true));
        std::future::pending::<()>().await;
    });
    yield_now().await;
    assert!(!dropped.get());
    task.abort();
    assert!(dropped.get(), "an abort drops at once what is not running");
    assert!(task.is_finished());
    let error = task.await.expect_err("aborted");
    assert!(error.is_aborted() && !error.is_panic());
}

/// A task that holds its own handle.
fn with_own_handle<F: Future<Output = ()> + 'static>(
    body: impl FnOnce(Rc<JoinHandle<()>>) -> F + 'static,
) -> Rc<JoinHandle<()>> {
    let (give, own) = oneshot::channel();
    let handle = Rc::new(spawn(async move {
        let own = own.await.expect("given below");
        body(own).await;
    }));
    give.send(handle.clone()).expect("the task waits for it");
    handle
}

async fn a_task_that_aborts_itself_ends_after_its_poll(_: Driver) {
    let steps = Rc::new(Cell::new(0));
    let seen = steps.clone();
    let handle = with_own_handle(async move |own| {
        own.abort();
        seen.set(1);
        yield_now().await;
        seen.set(2);
    });
    while !handle.is_finished() {
        yield_now().await;
    }
    yield_now().await;
    yield_now().await;
    assert_eq!(steps.get(), 1);
}

async fn an_abort_after_the_end_changes_nothing(_: Driver) {
    let task = spawn(async { 7 });
    yield_now().await;
    assert!(task.is_finished());
    task.abort();
    assert_eq!(task.await.expect("it had ended before"), 7);
}

async fn a_dropped_handle_lets_the_task_run(_: Driver) {
    let (sender, receiver) = oneshot::channel();
    drop(spawn(async move {
        yield_now().await;
        sender.send("done").expect("the receiver waits");
    }));
    assert_eq!(receiver.await, Ok("done"));
}

async fn a_panic_in_a_destructor_is_the_tasks_end(_: Driver) {
    let task = spawn(panics_when_dropped());
    let error = task.await.expect_err("its destructor panicked");
    assert!(error.is_panic(), "{error}");
    assert!(error.to_string().contains("destructor"), "{error}");
}

/// Ends at its first poll. Then its captured state is dropped, and the destructor panics.
fn panics_when_dropped() -> impl Future<Output = ()> {
    let guard = OnDrop(|| panic!("a destructor"));
    std::future::poll_fn(move |_| {
        let _held: &OnDrop<_> = &guard;
        Poll::Ready(())
    })
}

async fn a_panic_in_the_destructor_of_an_aborted_task_is_contained(_: Driver) {
    let task = spawn(async {
        let _guard = OnDrop(|| panic!("a destructor"));
        std::future::pending::<()>().await;
    });
    yield_now().await;
    task.abort();
    assert!(task.await.expect_err("aborted").is_aborted());
    assert_eq!(spawn(async { 1 }).await.expect("the core goes on"), 1);
}

async fn a_panic_in_the_destructor_after_a_self_abort_is_contained(_: Driver) {
    let handle = with_own_handle(async |own| {
        let _guard = OnDrop(|| panic!("a destructor"));
        own.abort();
        yield_now().await;
    });
    while !handle.is_finished() {
        yield_now().await;
    }
    yield_now().await;
    assert_eq!(spawn(async { 1 }).await.expect("the core goes on"), 1);
}

async fn a_panic_in_a_destructor_at_the_cores_end_is_contained(_: Driver) {
    drop(spawn(async {
        let _guard = OnDrop(|| panic!("a destructor"));
        std::future::pending::<()>().await;
    }));
    yield_now().await;
}

async fn yielding_tasks_take_turns(_: Driver) {
    let order = Rc::new(RefCell::new(Vec::new()));
    let tasks: Vec<_> = (0..3)
        .map(|id| {
            let order = order.clone();
            spawn(async move {
                for _ in 0..4 {
                    order.borrow_mut().push(id);
                    yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(*order.borrow(), [0, 1, 2].repeat(4));
}

// Not in the simulation, whose clock stands still while a task can run.
#[test]
fn input_is_served_beside_tasks_that_never_rest() {
    for driver in [Driver::Uring, Driver::Epoll] {
        support::run(driver, input_beside_restless_tasks);
    }
}

async fn input_beside_restless_tasks(_: Driver) {
    let stop = Rc::new(Cell::new(false));
    let busy: Vec<_> = (0..50)
        .map(|_| {
            let stop = stop.clone();
            spawn(async move {
                while !stop.get() {
                    yield_now().await;
                }
            })
        })
        .collect();
    let (client, server) = pair().await;
    let server = spawn(echo(server));
    for _ in 0..100 {
        exchange(&client, b"between two rounds").await;
    }
    stop.set(true);
    for task in busy {
        task.await.expect("no panic");
    }
    drop(client);
    server.await.expect("no panic").expect("no error");
}

async fn a_task_that_yields_lets_the_core_look_at_its_sockets(_: Driver) {
    let turns = || CoreHandle::current().counters().turns;
    let before = turns();
    for _ in 0..100 {
        yield_now().await;
    }
    assert_eq!(turns() - before, 100);
}

async fn a_stale_waker_reaches_no_later_task(_: Driver) {
    let stolen: Rc<RefCell<Option<Waker>>> = Rc::default();
    let thief = stolen.clone();
    let first = spawn(std::future::poll_fn(move |cx| {
        *thief.borrow_mut() = Some(cx.waker().clone());
        Poll::Ready(())
    }));
    first.await.expect("no panic");
    let polls = Rc::new(Cell::new(0));
    let counted = polls.clone();
    let second = spawn(std::future::poll_fn(move |_| {
        counted.set(counted.get() + 1);
        Poll::<()>::Pending
    }));
    yield_now().await;
    stolen.take().expect("kept").wake();
    yield_now().await;
    yield_now().await;
    assert_eq!(polls.get(), 1, "the slot's earlier owner woke the later one");
    second.abort();
}

async fn a_hundred_thousand_tasks_at_once(_: Driver) {
    const TASKS: usize = 100_000;
    let gate = Rc::new(Notify::new());
    let started = Rc::new(Cell::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let (gate, started) = (gate.clone(), started.clone());
            spawn(async move {
                let open = gate.notified();
                started.set(started.get() + 1);
                open.await;
                number
            })
        })
        .collect();
    while started.get() < TASKS {
        yield_now().await;
    }
    gate.notify_waiters();
    let mut sum = 0;
    for task in tasks {
        sum += task.await.expect("no panic");
    }
    assert_eq!(sum, TASKS * (TASKS - 1) / 2);
}

#[test]
fn who_needs_a_core_and_has_none_is_told_where() {
    support::alone(|| {
        let places = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = std::sync::Arc::clone(&places);
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(|it| it.file().to_owned());
            noted.lock().expect("no panic").push(place.unwrap_or_default());
        }));
        let attempts: [fn(); 2] = [|| drop(spawn(async {})), || drop(CoreHandle::current())];
        for attempt in attempts {
            std::panic::catch_unwind(attempt).expect_err("there is no core");
        }
        let places = places.lock().expect("no panic");
        assert!(
            places.len() == 2 && places.iter().all(|place| place.ends_with("tasks.rs")),
            "{places:?}"
        );
    });
}
