//! The integration tests of this crate, as one program.

#[path = "../../../ringway-wire/tests/suite/support/alone.rs"]
mod alone;

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use alone::alone;
use ringway_runtime::affinity::{CoreSet, pin_current_thread};
use ringway_tokio::{enter, handle, run, set_handle};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Runs a test on a core, for a minute at most.
fn on_core<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    let limited = ringway_runtime::timeout(Duration::from_secs(60), test);
    ringway_runtime::block_on(limited).expect("a core").expect("in time")
}

#[test]
fn a_future_runs_on_tokio_s_thread_and_is_awaited_on_the_core() {
    let (thread, core) = on_core(async {
        let ran = run(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            std::thread::current().name().map(str::to_owned)
        });
        (ran.await.expect("it ends"), ringway_runtime::CoreHandle::is_here())
    });
    assert_eq!(thread.as_deref(), Some("ringway-tokio"));
    assert!(core);
}

#[test]
fn a_panic_is_told_and_ends_nothing_else() {
    on_core(async {
        let panicked = run(async { panic!("as {} may", "futures") });
        let error = panicked.await.map(|(): ()| ()).expect_err("it panicked");
        assert!(error.is_panic() && !error.is_limit());
        assert_eq!(error.to_string(), "a future on tokio panicked: as futures may");
        assert_eq!(run(async { 5 }).await.expect("tokio goes on"), 5);
    });
}

#[test]
fn whoever_stops_waiting_cancels() {
    on_core(async {
        let (begun, has_begun) = oneshot::channel();
        let (held, dropped) = oneshot::channel::<()>();
        let mut has_begun = pin!(has_begun);
        {
            let mut running = pin!(run(async move {
                let _held = held;
                begun.send(()).expect("the test waits");
                pending::<()>().await;
            }));
            poll_fn(|cx| {
                assert!(running.as_mut().poll(cx).is_pending());
                has_begun.as_mut().poll(cx).map(|begun| begun.expect("it runs"))
            })
            .await;
        }
        dropped.await.expect_err("its destructors have run");
    });
}

#[test]
fn what_is_entered_stays_on_its_core_and_uses_tokio() {
    on_core(async {
        let own = Rc::new(Cell::new(0));
        let used = enter(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let client = TcpStream::connect(listener.local_addr()?).await?;
            let (server, _) = listener.accept().await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            let sent = tokio::spawn(async move {
                server.writable().await?;
                server.try_write(b"hello")
            });
            client.readable().await?;
            let mut hello = [0; 5];
            own.set(client.try_read(&mut hello)?);
            sent.await?
        });
        let sent: io::Result<usize> = used.await.expect("a runtime");
        assert_eq!((sent.expect("it is sent"), own.get()), (5, 5));
    });
}

#[test]
fn what_is_entered_is_dropped_inside_as_well() {
    struct Spawns(Option<oneshot::Sender<()>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let told = self.0.take().expect("it is dropped once");
            tokio::spawn(async move { told.send(()) }); // panics elsewhere
        }
    }
    on_core(async {
        let (tell, told) = oneshot::channel();
        {
            let spawns = Spawns(Some(tell));
            let mut entered = pin!(enter(async move {
                let _spawns = spawns;
                pending::<()>().await;
            }));
            let begun = poll_fn(|cx| Poll::Ready(entered.as_mut().poll(cx)));
            assert!(begun.await.is_pending());
        }
        told.await.expect("its task has run");
    });
}

#[test]
fn tokio_s_thread_is_not_pinned_with_the_core_that_starts_it() {
    alone(|| {
        let all = CoreSet::available().expect("the kernel answers");
        let first = all.iter().next().expect("there is a core");
        let seen = on_core(async move {
            pin_current_thread(first).expect("it is allowed");
            run(async { CoreSet::available() }).await
        });
        assert_eq!(seen.expect("it runs").expect("the kernel answers"), all);
    });
}

#[test]
fn a_runtime_of_the_program_s_own_is_used_and_its_end_is_told() {
    alone(|| {
        let own = Builder::new_multi_thread().worker_threads(1).thread_name("mine").build();
        let own = own.expect("a thread");
        set_handle(own.handle().clone()).expect("it is the first");
        assert_eq!(handle().expect("it is there").id(), own.handle().id());
        on_core(async {
            let name = run(async { std::thread::current().name().map(str::to_owned) });
            assert_eq!(name.await.expect("it runs").as_deref(), Some("mine"));
            let id = enter(async { Handle::current().id() }).await.expect("it is there");
            assert_eq!(id, handle().expect("it is there").id());
        });
        own.shutdown_background();
        let error = on_core(run(async {})).expect_err("it has ended");
        assert_eq!(error.to_string(), "the tokio runtime was shut down");
        assert!(!error.is_panic() && !error.is_limit());
    });
}

#[test]
fn what_runs_already_is_not_replaced() {
    let first = handle().expect("a runtime");
    let refused = set_handle(first.clone()).expect_err("there is one");
    assert_eq!(refused.id(), first.id());
}
