//! Handlers whose sinks are used on other threads: messages sent before the return arrive before
//! the end.

use std::pin::pin;
use std::sync::{Mutex, mpsc};
use std::task::{self, Waker};

use bytes::Bytes;
use ringway_rpc::{
    Client, Context, Server, ServerHandle, Sink, Status, Streaming, TrySendError, service,
};
use ringway_runtime::Backend;

use crate::support::{LIMIT, end, socket_addr};

/// More messages than fit into the pipe between the threads and into the initial window of a
/// stream.
const MESSAGES: usize = 300;
const MESSAGE_BYTES: usize = 10_000;
/// As many messages as fit into the pipe.
const HELD: usize = 20;
/// A lost message would be lost in most calls, not in all.
const CALLS: usize = 10;

#[service(crate = "ringway_rpc")]
trait Away {
    /// Sends on another thread, leaves the sink as the request says, and returns.
    async fn watch(&self, context: Context, how: Bytes, out: Sink<Bytes>) -> Result<(), Status>;
    /// Like `watch`, but the core does nothing else from the first message to the return.
    async fn hold(&self, context: Context, how: Bytes, out: Sink<Bytes>) -> Result<(), Status>;
    /// Sends as much as it can on another thread, and returns meanwhile.
    async fn spill(&self, _unused: Bytes, out: Sink<Bytes>) -> Result<(), Status>;
    /// Cancels through its stream of requests on another thread, with or without having asked for a
    /// message.
    async fn talk(&self, names: Streaming<Bytes>, out: Sink<Bytes>) -> Result<(), Status>;
}

struct Threads {
    /// Receives the status of a sink that fails.
    ended: Mutex<mpsc::Sender<Status>>,
}

impl Away for Threads {
    async fn watch(
        &self,
        context: Context,
        how: Bytes,
        mut out: Sink<Bytes>,
    ) -> Result<(), Status> {
        context.set_initial_metadata("how", std::str::from_utf8(&how).expect("text"))?;
        let ended = self.ended.lock().expect("no panic").clone();
        elsewhere(async move {
            let count = match &*how {
                b"one" => 1,
                b"for ever" => usize::MAX,
                _ => MESSAGES,
            };
            for number in 0..count {
                if let Err(status) = out.send(message(number)).await {
                    ended.send(status.clone()).expect("the test waits");
                    return Err(status);
                }
            }
            part(out, &how);
            Ok(())
        })
        .await
    }

    async fn hold(&self, context: Context, how: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
        context.set_initial_metadata("how", std::str::from_utf8(&how).expect("text"))?;
        let work = move || {
            for number in 0..HELD {
                out.try_send(message(number)).expect("room");
            }
            part(out, &how);
        };
        std::thread::spawn(work).join().expect("no panic");
        Ok(())
    }

    async fn spill(&self, _unused: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
        let ended = self.ended.lock().expect("no panic").clone();
        let (begun, has_begun) = mpsc::channel();
        std::thread::spawn(move || {
            let mut count = 0;
            let why = loop {
                match out.try_send(message(count)) {
                    Ok(()) => count += 1,
                    Err(TrySendError::Full(_)) => std::thread::yield_now(),
                    Err(TrySendError::Failed(why)) => break why,
                }
                let _returned = begun.send(());
            };
            let told = Status::new(why.code(), format!("after {count}: {}", why.message()));
            ended.send(told).expect("the test waits");
        });
        has_begun.recv().expect("it begins");
        ringway_runtime::yield_now().await;
        Ok(())
    }

    async fn talk(&self, mut names: Streaming<Bytes>, _out: Sink<Bytes>) -> Result<(), Status> {
        let asks = names.next().await?.is_some_and(|name| name == "ask");
        let work = move || {
            if asks {
                let polled = pin!(names.next()).poll(&mut task::Context::from_waker(Waker::noop()));
                assert!(polled.is_pending(), "the core is held");
            }
            names.cancel("enough");
        };
        std::thread::spawn(work).join().expect("no panic");
        Ok(())
    }
}

fn part(out: Sink<Bytes>, how: &[u8]) {
    match how {
        b"finish" => out.finish(),
        b"cancel" => out.cancel("enough"),
        b"keep" => std::mem::forget(out),
        _ => drop(out),
    }
}

/// Runs `work` to its end on a thread without a core.
async fn elsewhere<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let tokio = || tokio::runtime::Builder::new_current_thread().build().expect("without I/O");
    let work = ringway_runtime::spawn_blocking(move || tokio().block_on(work));
    work.expect("a thread").await.expect("no panic")
}

fn message(number: usize) -> Bytes {
    let mut message = vec![number as u8; MESSAGE_BYTES];
    message[..8].copy_from_slice(&(number as u64).to_le_bytes());
    message.into()
}

/// Runs `test` with a server on each driver and a client on a core.
fn check(test: impl AsyncFn(AwayClient, mpsc::Receiver<Status>) + Clone + Send + 'static) {
    for backend in [Backend::Auto, Backend::Epoll] {
        let (ended, ends) = mpsc::channel();
        let server = serve(backend, ended);
        let url = format!("tcp://{}", socket_addr(&server));
        let test = test.clone();
        let tested = async move {
            let client = AwayClient::new(Client::connect(&*url).expect("an address"));
            let test = test(client, ends);
            ringway_runtime::timeout(LIMIT, test).await.expect("it ends in time");
        };
        ringway_runtime::block_on(tested).expect("a core");
        end(server);
    }
}

fn serve(backend: Backend, ended: mpsc::Sender<Status>) -> ServerHandle {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let service = AwayServer::new(Threads { ended: Mutex::new(ended) });
    server.threads(1).backend(backend).service(service).start().expect("the server starts")
}

/// Returns how many messages arrive in order, and how the call ends.
async fn read(mut messages: Streaming<Bytes>) -> (usize, Result<(), Status>) {
    let mut count = 0;
    loop {
        match messages.next().await {
            Ok(Some(next)) => assert!(next == message(count), "the message after {count}"),
            Ok(None) => return (count, Ok(())),
            Err(status) => return (count, Err(status)),
        }
        count += 1;
    }
}

/// Checks that all sent messages arrive and the call succeeds, however the handler leaves its sink.
fn check_all_arrive(how: &'static str, expected: usize) {
    check(async move |client, _| {
        let mut counts = vec![];
        for _ in 0..CALLS {
            let mut messages = client.watch(Bytes::from(how));
            let initial = messages.metadata().await.expect("it begins");
            assert_eq!(initial.get("how"), Some(how));
            let (count, end) = read(messages).await;
            end.expect("no failure");
            counts.push(count);
        }
        assert_eq!(counts, [expected; CALLS]);
    });
}

#[test]
fn messages_arrive_although_the_core_was_busy_until_the_return() {
    check(async |client, _| {
        for how in ["finish", "drop", "keep"] {
            let mut messages = client.hold(Bytes::from(how));
            let initial = messages.metadata().await.expect("it begins");
            assert_eq!(initial.get("how"), Some(how));
            let (count, end) = read(messages).await;
            end.expect("no failure");
            assert_eq!(count, HELD, "{how}");
        }
    });
}

#[test]
fn messages_of_a_sink_finished_on_another_thread_arrive() {
    check_all_arrive("finish", MESSAGES);
}

#[test]
fn messages_of_a_sink_dropped_on_another_thread_arrive() {
    check_all_arrive("drop", MESSAGES);
}

#[test]
fn messages_of_a_sink_kept_on_another_thread_arrive() {
    check_all_arrive("keep", MESSAGES);
}

#[test]
fn message_before_the_return_arrives_with_the_initial_metadata() {
    check_all_arrive("one", 1);
}

#[test]
fn message_sent_during_the_return_arrives_or_its_send_fails() {
    check(async |client, ended| {
        for _ in 0..5 * CALLS {
            let (count, end) = read(client.spill(Bytes::new())).await;
            end.expect("no failure");
            // Its writer may not have stopped yet.
            let told = loop {
                match ended.try_recv() {
                    Ok(told) => break told,
                    Err(_) => ringway_runtime::yield_now().await,
                }
            };
            let over = "the call is over: its handler has returned";
            assert_eq!(told.to_string(), format!("CANCELLED: after {count}: {over}"));
        }
    });
}

#[test]
fn call_cancelled_on_another_thread_fails() {
    check(async |client, _| {
        let how = || Bytes::from("cancel");
        for messages in [client.watch(how()), client.hold(how())] {
            let status = read(messages).await.1.expect_err("it was cancelled");
            assert_eq!((status.is_cancelled(), status.message()), (true, "enough"), "{status}");
        }
        for name in ["ask", "do not"] {
            let (mut names, messages) = client.talk();
            names.send(Bytes::from(name)).await.expect("room");
            let status = read(messages).await.1.expect_err("it was cancelled");
            assert_eq!((status.is_cancelled(), status.message()), (true, "enough"), "{status}");
        }
    });
}

#[test]
fn late_reader_gets_all_messages() {
    check(async |client, _| {
        let (messages, others): (Vec<_>, Vec<_>) = (0..4)
            .map(|turn| {
                let how = if turn % 2 == 0 { "finish" } else { "drop" };
                (client.watch(Bytes::from(how)), client.watch(Bytes::from(how)))
            })
            .unzip();
        for other in others {
            let (count, end) = read(other).await;
            end.expect("no failure");
            assert_eq!(count, MESSAGES);
        }
        // Each of these has filled its window meanwhile, and its writer waits.
        for messages in messages {
            let (count, end) = read(messages).await;
            end.expect("no failure");
            assert_eq!(count, MESSAGES);
        }
    });
}

#[test]
fn remote_writer_learns_that_the_client_has_cancelled() {
    check(async |client, ended| {
        let mut messages = client.watch(Bytes::from("for ever"));
        for number in 0..MESSAGES {
            let next = messages.next().await.expect("it goes on");
            assert!(next == Some(message(number)), "the message after {number}");
        }
        messages.cancel("enough");
        let heard = ringway_runtime::spawn_blocking(move || ended.recv_timeout(LIMIT));
        let status = heard.expect("a thread").await.expect("no panic").expect("it hears of it");
        assert!(status.is_cancelled(), "{status}");
    });
}
