//! Very many cancelled calls, and their effect on other calls.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{ServerHandle, Status};
use ringway_runtime::{Interval, JoinHandle, interval, sleep, spawn, timeout};

use crate::work::WorkClient;
use crate::{MS, SECOND, connect, measure};

/// A caller on the same connections that only wants to be served.
struct Bystander {
    stops: Rc<Cell<bool>>,
    calls: JoinHandle<Result<u32, Status>>,
    messages: JoinHandle<Result<u32, Status>>,
    watch: JoinHandle<Result<(), Status>>,
    server: ServerHandle,
}

impl Bystander {
    async fn begin(client: &WorkClient, server: &ServerHandle) -> Self {
        let stops = Rc::new(Cell::new(false));
        client.say("connected".into()).await.expect("it is served");
        let calls = spawn(say(client.clone(), Rc::clone(&stops)));
        let messages = spawn(chat(client.clone(), Rc::clone(&stops)));
        let watch = spawn(watch(client.clone()));
        Self { stops, calls, messages, watch, server: server.clone() }
    }

    async fn end(self, name: &str) {
        sleep(200 * MS).await;
        self.stops.set(true);
        let calls = self.calls.await.expect("no panic").expect("every call is served");
        let messages = self.messages.await.expect("no panic").expect("the stream goes on");
        assert!(!self.watch.is_finished(), "a stream that waits goes on");
        let (net, stats) = (self.server.net().stats(), self.server.stats());
        let connections = (net.accepted, net.open);
        println!("{name}: bystander {calls} calls, {messages} messages, no error");
        println!("    connections (made, open) {connections:?} {stats:?}");
        assert_eq!((stats.violations, net.accepted), (0, net.open as u64));
    }
}

async fn say(client: WorkClient, stops: Rc<Cell<bool>>) -> Result<u32, Status> {
    let mut done = 0;
    while !stops.get() {
        assert_eq!(client.say("bystander".into()).timeout(5 * SECOND).await?, "bystander");
        done += 1;
    }
    Ok(done)
}

async fn chat(client: WorkClient, stops: Rc<Cell<bool>>) -> Result<u32, Status> {
    let (mut to, mut from) = client.chat();
    let mut done = 0;
    while !stops.get() {
        to.send(Bytes::from_static(b"bystander")).await?;
        assert_eq!(from.next().await?.as_deref(), Some(&b"bystander"[..]));
        done += 1;
        sleep(MS).await;
    }
    Ok(done)
}

async fn watch(client: WorkClient) -> Result<(), Status> {
    let mut watch = client.watch("bystander".into());
    while watch.next().await?.is_some() {}
    Ok(())
}

/// Runs callers that make several calls each.
async fn callers<F: Future<Output = ()> + 'static>(
    callers: usize,
    calls: usize,
    client: &WorkClient,
    each: impl Fn(WorkClient) -> F + Copy + 'static,
) {
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let client = client.clone();
            spawn(async move {
                for _ in 0..calls {
                    each(client.clone()).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no panic");
    }
}

/// Cancels a call after a while.
async fn give_up(client: WorkClient) {
    let given_up = timeout(20 * MS, client.hang(Bytes::new())).await;
    assert!(given_up.is_err(), "it hangs: {given_up:?}");
}

/// Drops a stream after its first message.
async fn leave_stream(client: WorkClient) {
    let mut watch = client.watch("first".into());
    assert_eq!(watch.next().await.expect("it is served").as_deref(), Some(&b"first"[..]));
}

/// Drops a bidirectional stream.
async fn leave_chat(client: WorkClient) {
    let (mut to, mut from) = client.chat();
    to.send("first".into()).await.expect("it is served");
    assert_eq!(from.next().await.expect("it is served").as_deref(), Some(&b"first"[..]));
}

async fn run_into_deadline(client: WorkClient, after: Duration) {
    let status = client.hang(Bytes::new()).timeout(after).await.expect_err("it hangs");
    assert!(status.is_deadline_exceeded(), "{status:?}");
}

fn storm<F: Future<Output = ()> + 'static>(
    name: &'static str,
    each: impl Fn(WorkClient) -> F + Copy + 'static,
) {
    measure(
        |server| server,
        move |server| async move {
            let client = connect(&server);
            let bystander = Bystander::begin(&client, &server).await;
            callers(500, 40, &client, each).await;
            bystander.end(name).await;
        },
    );
}

#[test]
fn twenty_thousand_calls_are_cancelled() {
    storm("20,000 calls given up", give_up);
}

#[test]
fn twenty_thousand_streams_are_dropped() {
    storm("20,000 streams given up", leave_stream);
}

#[test]
fn twenty_thousand_bidi_streams_are_dropped() {
    storm("20,000 bidi streams given up", leave_chat);
}

#[test]
fn twenty_thousand_calls_run_into_deadlines() {
    storm("20,000 deadlines of 20 ms", |client| run_into_deadline(client, 20 * MS));
}

#[test]
fn five_thousand_calls_a_second_are_cancelled() {
    measure(
        |server| server,
        |server| async move {
            let client = connect(&server);
            let bystander = Bystander::begin(&client, &server).await;
            let mut ticks: Interval = interval(2 * MS);
            for _ in 0..15_000 {
                ticks.tick().await;
                for _ in 0..10 {
                    spawn(give_up(client.clone()));
                }
            }
            bystander.end("5,000 calls a second given up, 30 s").await;
        },
    );
}

#[test]
fn ten_thousand_deadlines_pass_within_a_second() {
    measure(
        |server| server.in_flight_per_connection_max(20_000),
        |server| async move {
            let client = connect(&server);
            let bystander = Bystander::begin(&client, &server).await;
            let calls: Vec<_> = (0..10_000_u32)
                .map(|call| spawn(run_into_deadline(client.clone(), SECOND + MS / 10 * call)))
                .collect();
            for call in calls {
                call.await.expect("no panic");
            }
            bystander.end("10,000 deadlines within 1 s").await;
        },
    );
}
