//! An overloaded server: its work is useful, and nothing else is blocked.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{
    Client, Code, Context, Next, Server, ServerHandle, Sink, Status, Streaming, service,
};
use ringway_wire::native::Open;

use crate::support::caller::Caller;
use crate::support::{LIMIT, end, eventually, socket_addr};

#[service(package = "busy.v1", crate = "ringway_rpc")]
trait Busy {
    /// Blocks its core until the test lets it continue, and then some milliseconds more.
    async fn compute(&self, request: Bytes) -> Result<Bytes, Status>;
    /// Like `compute`, with a stream of requests that it does not read.
    async fn compute_all(&self, parts: Streaming<Bytes>) -> Result<Bytes, Status>;
    /// Computes for as many milliseconds as the request says.
    async fn spin(&self, request: Bytes) -> Result<Bytes, Status>;
    /// Like `spin`, for the time in the first message.
    async fn spin_all(&self, parts: Streaming<Bytes>) -> Result<Bytes, Status>;
    async fn say(&self, request: Bytes) -> Result<Bytes, Status>;
    #[method(concurrency = 1)]
    async fn one(&self, context: Context, request: Bytes) -> Result<Bytes, Status>;
    #[method(concurrency = 1)]
    async fn collect(&self, parts: Streaming<Bytes>) -> Result<Bytes, Status>;
    #[method(concurrency = 1)]
    async fn chat(&self, parts: Streaming<Bytes>, back: Sink<Bytes>) -> Result<(), Status>;
    #[method(concurrency = 2, offload)]
    async fn block(&self, request: Bytes) -> Result<Bytes, Status>;
    #[method(offload)]
    async fn think(&self, request: Bytes) -> Result<Bytes, Status>;
}

struct Worker {
    seen: Arc<Seen>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

/// State that the test inspects.
#[derive(Default)]
struct Seen {
    begun: AtomicUsize,
    /// The requests of `one`, in order.
    order: Mutex<Vec<Bytes>>,
    /// Running calls of `block`, and their maximum.
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Worker {
    fn wait(&self) {
        self.seen.begun.fetch_add(1, Ordering::SeqCst);
        let go_on = self.go_on.lock().expect("no panic with it");
        go_on.recv_timeout(LIMIT).expect("the test lets it go on");
    }
}

impl Busy for Worker {
    async fn compute(&self, request: Bytes) -> Result<Bytes, Status> {
        self.wait();
        spin(3);
        Ok(request)
    }

    async fn compute_all(&self, _: Streaming<Bytes>) -> Result<Bytes, Status> {
        self.compute(Bytes::new()).await
    }

    async fn spin(&self, request: Bytes) -> Result<Bytes, Status> {
        self.seen.begun.fetch_add(1, Ordering::SeqCst);
        spin(request[0]);
        Ok(request)
    }

    async fn spin_all(&self, mut parts: Streaming<Bytes>) -> Result<Bytes, Status> {
        let first = parts.next().await?;
        self.spin(first.unwrap_or_default()).await
    }

    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        Ok(request)
    }

    async fn one(&self, _: Context, request: Bytes) -> Result<Bytes, Status> {
        self.seen.order.lock().expect("no panic with it").push(request.clone());
        if request == "hold" {
            ringway_runtime::sleep(Duration::from_millis(40)).await;
        }
        Ok(request)
    }

    async fn collect(&self, mut parts: Streaming<Bytes>) -> Result<Bytes, Status> {
        let mut all = Vec::new();
        while let Some(part) = parts.next().await? {
            all.extend_from_slice(&part);
        }
        Ok(all.into())
    }

    async fn chat(&self, mut parts: Streaming<Bytes>, mut back: Sink<Bytes>) -> Result<(), Status> {
        while let Some(part) = parts.next().await? {
            back.send(part).await?;
        }
        Ok(())
    }

    async fn block(&self, request: Bytes) -> Result<Bytes, Status> {
        let running = self.seen.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.seen.most.fetch_max(running, Ordering::SeqCst);
        self.wait();
        self.seen.running.fetch_sub(1, Ordering::SeqCst);
        Ok(request)
    }

    async fn think(&self, request: Bytes) -> Result<Bytes, Status> {
        Ok(request)
    }
}

fn spin(ms: u8) {
    let until = Instant::now() + Duration::from_millis(ms.into());
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Starts a server with one core; returns its state and the way to let a handler continue.
fn serve(set: impl FnOnce(Server) -> Server) -> (ServerHandle, Arc<Seen>, mpsc::Sender<()>) {
    let seen = Arc::<Seen>::default();
    let (let_go, go_on) = mpsc::channel();
    let worker = Worker { seen: Arc::clone(&seen), go_on: Mutex::new(go_on) };
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = set(server.service(BusyServer::new(worker)));
    (server.start().expect("the server starts"), seen, let_go)
}

/// Opens calls and sends them at once.
fn burst(
    caller: &mut Caller,
    count: usize,
    open: &Open<'_>,
) -> Vec<ringway_wire::native::StreamId> {
    let streams = (0..count).map(|_| caller.machine.open(open.clone()).expect("room"));
    let streams = streams.collect();
    caller.flush();
    streams
}

fn unary<'a>(name: &'a str, message: &'a [u8]) -> Open<'a> {
    let message = Some(ringway_wire::native::Body::Copy(message));
    Open { name, message, end: true, ..Open::default() }
}

#[test]
fn computing_calls_do_not_block_their_core() {
    check_others_have_turns("busy.v1.Busy/Compute");
    check_others_have_turns("busy.v1.Busy/ComputeAll");
}

#[track_caller]
fn check_others_have_turns(method: &str) {
    const CALLS: usize = 60;
    let (handle, seen, let_go) = serve(|server| server);
    let mut busy = Caller::connect(socket_addr(&handle));
    let mut other = Caller::connect(socket_addr(&handle));
    other.call("busy.v1.Busy/Say", b"connected").ok();
    let calls = burst(&mut busy, CALLS, &unary(method, b"?"));
    eventually("the first one computes", || seen.begun.load(Ordering::SeqCst) == 1);
    let said = other.open("busy.v1.Busy/Say", b"in between");
    let said_so = Arc::new(AtomicBool::new(false));
    let listening = std::thread::spawn({
        let said_so = Arc::clone(&said_so);
        move || {
            assert_eq!(other.answer(said).ok(), "in between");
            said_so.store(true, Ordering::SeqCst);
        }
    });
    let mut let_on = 0;
    while !said_so.load(Ordering::SeqCst) {
        assert!(let_on < CALLS, "all have computed before anybody else had a turn");
        let_go.send(()).expect("the server runs");
        let_on += 1;
        eventually("the next one computes", || {
            let begun = seen.begun.load(Ordering::SeqCst);
            begun > let_on || begun == CALLS || said_so.load(Ordering::SeqCst)
        });
    }
    (let_on..CALLS).for_each(|_| let_go.send(()).expect("the server runs"));
    for stream in calls {
        busy.answer(stream).ok();
    }
    listening.join().expect("no panic");
    end(handle);
}

#[test]
fn calls_waiting_behind_computing_calls_are_in_flight() {
    const CALLS: usize = 300;
    let (handle, seen, let_go) = serve(|server| server.in_flight_max(50));
    let mut caller = Caller::connect(socket_addr(&handle));
    caller.call("busy.v1.Busy/Say", b"connected").ok();
    let calls = burst(&mut caller, CALLS, &unary("busy.v1.Busy/Compute", b"?"));
    // Two calls have used up their turn; one of the waiting calls has its turn next.
    (0..2).for_each(|_| let_go.send(()).expect("the server runs"));
    eventually("the third one computes", || seen.begun.load(Ordering::SeqCst) == 3);
    let stats = handle.stats();
    assert!((1..=50).contains(&stats.in_flight) && stats.unread_bytes > 0, "{stats:?}");
    (0..CALLS).for_each(|_| let_go.send(()).expect("the server runs"));
    let answers = calls.into_iter().map(|stream| caller.answer(stream));
    let (done, refused): (Vec<_>, Vec<_>) = answers.partition(|answer| answer.code == Code::Ok);
    assert!(refused.iter().all(|answer| answer.refused), "{refused:?}");
    assert_eq!(done.len(), seen.begun.load(Ordering::SeqCst));
    assert_eq!(refused.len() as u64, handle.stats().refused);
    assert!(refused.len() >= 200, "{} were refused", refused.len());
    assert_eq!((handle.stats().in_flight, handle.stats().unread_bytes), (0, 0));
    end(handle);
}

#[test]
fn call_whose_deadline_passes_while_it_waits_is_not_run() {
    for (method, adaptive) in [("Spin", false), ("SpinAll", false), ("Spin", true)] {
        let method = format!("busy.v1.Busy/{method}");
        let (handle, seen, _) =
            serve(|server| if adaptive { server.adaptive_concurrency() } else { server });
        let mut caller = Caller::connect(socket_addr(&handle));
        caller.call("busy.v1.Busy/Say", b"connected").ok();
        let timeout = Some(Duration::from_millis(600));
        let open = Open { timeout, ..unary(&method, &[50]) };
        let calls = burst(&mut caller, 100, &open);
        let (mut done, mut left) = (0, 0);
        for stream in calls {
            let answer = caller.answer(stream);
            match answer.code {
                Code::Ok => done += 1,
                Code::DeadlineExceeded => left += 1,
                // An adaptive limit sheds calls that have waited too long.
                _ => left += usize::from(answer.refused && adaptive),
            }
        }
        // Twelve calls in their time, and as many for each time that bytes arrived.
        let begun = seen.begun.load(Ordering::SeqCst);
        assert!(begun <= 60, "{begun} were run, {left} were not");
        assert!(done > 0 && done + left == 100, "{done} done, {left} not");
        assert!(handle.stats().expired > 0 || adaptive);
        end(handle);
    }
}

#[test]
fn calls_of_low_priority_run_last_and_are_shed_first() {
    let (handle, seen, _) = serve(|server| server.queue_room(20));
    let mut caller = Caller::connect(socket_addr(&handle));
    caller.call("busy.v1.Busy/Say", b"connected").ok();
    let hold = caller.machine.open(unary("busy.v1.Busy/One", b"hold")).expect("room");
    let calls: Vec<_> = (0..40)
        .map(|call| {
            let priority = if call % 2 == 0 { 200 } else { 0 };
            let open = Open {
                priority,
                ..unary("busy.v1.Busy/One", if call % 2 == 0 { b"low" } else { b"up!" })
            };
            (priority, caller.machine.open(open).expect("room"))
        })
        .collect();
    caller.flush();
    caller.answer(hold).ok();
    for (priority, stream) in calls {
        let answer = caller.answer(stream);
        assert_eq!(answer.refused, priority == 200, "{answer:?}");
    }
    assert_eq!(handle.stats().shed, 20);
    let order = seen.order.lock().expect("no panic with it");
    assert!(order[1..].iter().all(|request| request == "up!"), "{order:?}");
    drop(order);
    end(handle);
}

#[test]
fn request_stream_is_buffered_while_its_call_is_queued() {
    let (handle, _, _) = serve(|server| server);
    for name in ["busy.v1.Busy/Collect", "busy.v1.Busy/Chat"] {
        let mut caller = Caller::connect(socket_addr(&handle));
        caller.call("busy.v1.Busy/Say", b"connected").ok();
        let first = caller.open_with(name, Some(b"a"), false, |_| {});
        let second = caller.open_with(name, Some(b"x"), false, |_| {});
        let given_up = caller.open_with(name, None, false, |_| {});
        caller.send(given_up, b"?", false);
        caller.send(second, b"y", false);
        caller.send(second, b"z", true);
        caller.call("busy.v1.Busy/Say", b"all of it has come").ok();
        caller.cancel(given_up, "enough");
        caller.finish(first);
        for (stream, expected) in [(first, &["a"][..]), (second, &["x", "y", "z"])] {
            let mut got = Vec::new();
            let end = loop {
                match caller.message(stream) {
                    Ok(message) => got.push(message),
                    Err(end) => break end,
                }
            };
            if name.ends_with("Collect") {
                assert_eq!(end.ok(), expected.concat());
            } else {
                assert_eq!(
                    (end.code, got),
                    (Code::Ok, expected.iter().map(|it| Bytes::from(*it)).collect())
                );
            }
        }
    }
    eventually("nothing is kept", || handle.stats().unread_bytes == 0);
    end(handle);
}

#[test]
fn offloaded_call_counts_until_its_thread_is_done() {
    let (handle, seen, let_go) = serve(|server| server);
    let client = Client::connect(handle.addresses()[0].clone()).expect("an address");
    let client = BusyClient::new(client);
    let give_up_two = || {
        // Cancelled by their callers, but still on their threads.
        let timeout = Duration::from_millis(5);
        let given_up: Vec<_> = (0..2)
            .map(|_| {
                let call = client.block(Bytes::new()).timeout(timeout);
                std::thread::spawn(move || call.wait())
            })
            .collect();
        for call in given_up {
            let status = call.join().expect("no panic").expect_err("it is blocked");
            assert!(status.is_deadline_exceeded() || status.is_unavailable(), "{status:?}");
        }
    };
    eventually("two have begun", || {
        give_up_two(); // on a busy machine the deadline may pass before they begin
        seen.begun.load(Ordering::SeqCst) == 2
    });
    give_up_two();
    // Calls cancelled before they began leave without having run.
    let waits = client.block(Bytes::from_static(b"waits"));
    let waits = std::thread::spawn(move || waits.timeout(LIMIT).wait());
    let begun = seen.begun.load(Ordering::SeqCst);
    (0..begun + 1).for_each(|_| let_go.send(()).expect("the server runs"));
    let outcome = waits.join().expect("no panic");
    assert!(outcome.is_ok_and(|reply| reply == "waits") || begun > 2);
    assert_eq!(seen.most.load(Ordering::SeqCst), 2);
    end(handle);
}

#[test]
fn offloaded_call_answered_by_an_interceptor_is_counted_once() {
    let (handle, _seen, _let_go) = serve(|server| {
        let early = async |_: Context, _dropped: Next| Err(Status::permission_denied("not you"));
        server.adaptive_concurrency().intercept(early)
    });
    let mut caller = Caller::connect(socket_addr(&handle));
    for name in ["busy.v1.Busy/Think", "busy.v1.Busy/Block"].repeat(3) {
        assert_eq!(caller.call(name, b"").code, Code::PermissionDenied, "{name}");
    }
    end(handle);
}

#[test]
fn a_call_that_waits_for_its_core_alone_needs_no_room_in_the_queue() {
    let (handle, _seen, _let_go) = serve(|server| server.queue_room(0));
    let mut caller = Caller::connect(socket_addr(&handle));
    caller.call("busy.v1.Busy/Say", b"connected").ok();
    let mut open = |name, message| caller.machine.open(unary(name, message)).expect("room");
    // They come together, and the first one uses up their turn.
    let spins = open("busy.v1.Busy/Spin", &[30]);
    let one = open("busy.v1.Busy/One", b"its limit is not reached");
    caller.flush();
    caller.answer(spins).ok();
    assert_eq!(caller.answer(one).ok(), "its limit is not reached");
    end(handle);
}
