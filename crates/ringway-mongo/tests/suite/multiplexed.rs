//! The handle whose commands share a connection.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use ringway_mongo::{Client, Multiplexed, MultiplexedCommand, Result, Wait};
use ringway_runtime::{JoinHandle, Runtime, spawn, yield_now};

use crate::support::fake::{Answer, Command, Fake, reply};
use crate::support::ferret::Ferret;
use crate::support::replica_set::ReplicaSet;
use crate::support::{client, drop_when, on_core, options, until};

/// Commands of a test that are under way together.
const COUNT: i32 = 5;

fn ping(handle: &Multiplexed, number: i32) -> MultiplexedCommand {
    handle.run_command(rawdoc! { "ping": number })
}

/// Tasks that each send one ping, in this order.
fn pings(handle: &Multiplexed, count: i32) -> Vec<JoinHandle<Result<RawDocumentBuf>>> {
    (0..count).map(|number| spawn(ping(handle, number).into_future())).collect()
}

/// The answer that belongs to a ping.
fn pong(command: &Command) -> Document {
    doc! { "pong": command.body.get_i32("ping").expect("a ping"), "ok": 1.0 }
}

fn number(outcome: &Result<RawDocumentBuf>) -> Option<i32> {
    outcome.as_ref().ok().map(|reply| reply.get_i32("pong").expect("an answer to a ping"))
}

/// Answers pings when it has so many, the last one first.
fn answer_together(count: usize) -> impl Fn(&Command) -> Answer {
    let held = Mutex::new(Vec::new());
    move |command| {
        let mut held = held.lock().expect("no panic");
        held.push(reply(command.id, &pong(command)));
        if held.len() < count {
            return Answer::Silence;
        }
        Answer::Bytes(held.drain(..).rev().flatten().collect())
    }
}

#[test]
fn tasks_share_a_connection_and_answers_may_come_in_any_order() {
    let fake = Fake::serve(answer_together(COUNT as usize));
    let address = fake.address.clone();
    on_core(async move {
        let client = client(&address);
        for _ in 0..3 {
            let handle = client.database("d").multiplexed();
            for (at, task) in (0..).zip(pings(&handle, COUNT)) {
                assert_eq!(number(&task.await.expect("no panic")), Some(at));
            }
        }
        assert_eq!(client.pool_counts().made, 1);
    });
    assert_eq!(fake.connections(), 1);
}

#[test]
fn an_error_of_one_command_is_its_own() {
    let fake = Fake::serve(|command| match command.body.get_i32("ping") {
        Ok(2) => Answer::Reply(doc! { "ok": 0.0, "code": 96, "errmsg": "no" }),
        _ => Answer::Reply(pong(command)),
    });
    let address = fake.address.clone();
    on_core(async move {
        let handle = client(&address).database("d").multiplexed();
        for (at, task) in (0..).zip(pings(&handle, COUNT)) {
            let outcome = task.await.expect("no panic");
            assert_eq!(number(&outcome), (at != 2).then_some(at));
            if let Err(error) = outcome {
                assert_eq!(error.server().map(|told| told.code), Some(96));
            }
        }
    });
    assert_eq!(fake.connections(), 1);
}

#[test]
fn no_more_commands_are_under_way_than_the_depth() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let held = Mutex::new(Vec::new());
    // It answers two when it has two: with a depth of two, there is never a third.
    let fake = Fake::serve(move |command| {
        let mut held = held.lock().expect("no panic");
        held.push(reply(command.id, &pong(command)));
        most.fetch_max(held.len(), Ordering::SeqCst);
        match held.len() {
            1 => Answer::Silence,
            _ => Answer::Bytes(held.drain(..).flatten().collect()),
        }
    });
    let address = fake.address.clone();
    on_core(async move {
        let handle = client(&address).database("d").multiplexed().depth(2);
        for (at, task) in (0..).zip(pings(&handle, 10)) {
            assert_eq!(number(&task.await.expect("no panic")), Some(at));
        }
    });
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[test]
fn a_connection_cut_at_every_byte_leaves_no_wrong_answer() {
    let whole = COUNT as usize * reply(0, &doc! { "pong": 0, "ok": 1.0 }).len();
    for cut in 0..whole {
        let held = Mutex::new(Vec::new());
        let fake = Fake::serve(move |command| {
            if command.connection > 0 {
                return Answer::Reply(pong(command));
            }
            let mut held = held.lock().expect("no panic");
            held.extend(reply(command.id, &pong(command)));
            match held.len() == whole {
                true => Answer::End(held[..cut].to_vec()),
                false => Answer::Silence,
            }
        });
        let address = fake.address.clone();
        on_core(async move {
            let handle = client(&address).database("d").multiplexed().depth(COUNT as usize);
            let answered = cut / (whole / COUNT as usize);
            // Those beyond the depth are not sent before the end: they have another connection.
            for (at, task) in pings(&handle, COUNT + 2).into_iter().enumerate() {
                let outcome = task.await.expect("no panic");
                let is_sent_again = at >= COUNT as usize;
                if answered == 0 || !is_sent_again {
                    assert_eq!(outcome.is_ok(), at < answered || is_sent_again, "cut {cut}: {at}");
                }
                match outcome {
                    Ok(_) => assert_eq!(number(&outcome), Some(at as i32), "cut {cut}"),
                    Err(error) => {
                        assert!(
                            error.is_network() && error.may_have_happened(),
                            "cut {cut}: {error}"
                        );
                    }
                }
            }
        });
    }
}

#[test]
fn a_command_whose_time_is_over_is_told_and_its_late_answer_goes_to_nobody() {
    let late = Mutex::new(None);
    let fake = Fake::serve(move |command| {
        let mut late = late.lock().expect("no panic");
        match command.body.get_i32("ping") {
            Ok(2) => {
                *late = Some(reply(command.id, &pong(command)));
                Answer::Silence
            }
            Ok(7) => {
                let mut bytes = late.take().expect("the one before");
                bytes.extend(reply(command.id, &pong(command)));
                Answer::Bytes(bytes)
            }
            _ => Answer::Reply(pong(command)),
        }
    });
    let address = fake.address.clone();
    on_core(async move {
        let client = client(&address);
        let handle = client.database("d").multiplexed();
        let hurried = handle.clone().timeout(Duration::from_millis(100));
        let error = ping(&hurried, 2).await.expect_err("no answer came");
        assert!(error.is_timeout() && error.may_have_happened(), "{error}");
        assert_eq!(number(&ping(&handle, 7).await), Some(7));
        assert_eq!(client.pool_counts().made, 1, "the late answer came in time for the connection");
    });
}

#[test]
fn a_server_that_does_not_answer_costs_the_connection_and_nobody_waits_for_ever() {
    let fake = Fake::serve(|command| match (command.connection, command.body.get_i32("ping")) {
        (0, Ok(0)) => Answer::Silence,
        (0, Ok(1)) => Answer::Silence,
        _ => Answer::Reply(pong(command)),
    });
    let address = fake.address.clone();
    on_core(async move {
        let client = client(&address);
        let handle = client.database("d").multiplexed().depth(2);
        let hurried = handle.clone().timeout(Duration::from_millis(50));
        let first = spawn(ping(&hurried, 0).into_future());
        let patient: Vec<_> = (1..4).map(|at| spawn(ping(&handle, at).into_future())).collect();
        let error = first.await.expect("no panic").expect_err("no answer came");
        assert!(error.is_timeout() && error.may_have_happened(), "{error}");
        let mut outcomes = Vec::new();
        for task in patient {
            outcomes.push(task.await.expect("no panic"));
        }
        let error = outcomes.remove(0).expect_err("its connection is closed");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
        assert!(error.to_string().contains("does not answer"), "{error}");
        let rest: Vec<_> = outcomes.iter().map(number).collect();
        assert_eq!(rest, [Some(2), Some(3)], "what was not sent has another connection");
    });
    assert_eq!(fake.connections(), 2);
}

#[test]
fn a_command_that_is_given_up_before_its_turn_is_never_sent() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let fake = Fake::serve(move |command| {
        told.lock().expect("no panic").push(command.body.get_i32("ping").expect("a ping"));
        Answer::Reply(pong(command))
    });
    let address = fake.address.clone();
    on_core(async move {
        let handle = client(&address).database("d").multiplexed();
        let given_up = ping(&handle, 1).into_future();
        drop_when(given_up, || true).await; // polled once, while there is no connection yet
        assert_eq!(number(&ping(&handle, 2).await), Some(2));
        let error = ping(&handle.clone().timeout(Duration::ZERO), 3).await;
        let error = error.expect_err("no time");
        assert!(error.is_timeout() && !error.may_have_happened(), "{error}");
        assert_eq!(number(&ping(&handle, 4).await), Some(4));
    });
    assert_eq!(*seen.lock().expect("no panic"), [2, 4]);
}

#[test]
fn commands_that_were_given_up_take_no_place_among_those_that_wait() {
    const PLACES: usize = 1 << 16;
    // Nobody is greeted, so nothing can be sent.
    let fake = Fake::serve_all(|_| Answer::Silence);
    on_core(async move {
        let handle = client(&fake.address).database("d").multiplexed();
        for _ in 0..=PLACES {
            drop_when(ping(&handle, 1).into_future(), || true).await;
        }
    });
}

#[test]
fn a_client_whose_commands_were_given_up_is_gone_at_once_when_it_is_dropped() {
    let set = ReplicaSet::start(1, |_, _, _| Answer::Silence);
    set.state().elect(None);
    on_core(async move {
        // Longer than the test may take.
        let address = format!("{}&serverSelectionTimeoutMS=600000", set.address(&[0]));
        let client = client(&address);
        drop_when(ping(&client.database("d").multiplexed(), 1).into_future(), || {
            set.members[0].commands() > 0
        })
        .await;
        drop(client);
        until(|| set.members[0].ended() == set.members[0].connections()).await;
    });
}

#[test]
fn a_server_that_shuts_down_is_sent_nothing_more_on_the_connection() {
    let shut = OnceLock::new();
    let fake = Fake::serve(move |command| match *shut.get_or_init(|| command.connection) {
        of if of == command.connection => {
            Answer::Reply(doc! { "ok": 0.0, "code": 91, "errmsg": "shutdown in progress" })
        }
        _ => Answer::Reply(pong(command)),
    });
    let address = format!("mongodb://{}", fake.place);
    on_core(async move {
        let handle = client(&address).database("d").multiplexed().depth(1);
        let mut tasks = pings(&handle, COUNT).into_iter();
        let first = tasks.next().expect("the first").await.expect("no panic");
        let error = first.expect_err("the server refuses it");
        assert_eq!(error.server().map(|told| told.code), Some(91));
        for (at, task) in (1..).zip(tasks) {
            assert_eq!(number(&task.await.expect("no panic")), Some(at), "another connection");
        }
    });
}

#[test]
fn what_has_no_place_on_a_shared_connection_is_not_sent() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
    let address = fake.address.clone();
    let writes = || {
        [
            rawdoc! { "insert": "c", "documents": [{ "_id": 1 }] },
            rawdoc! { "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {} },
        ]
    };
    on_core(async move {
        let handle = client(&address).database("d").multiplexed();
        let never = [
            rawdoc! { "hello": 1 },
            rawdoc! { "getMore": 5_i64, "collection": "c" },
            rawdoc! { "find": "c", "startTransaction": true },
            rawdoc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} },
            RawDocumentBuf::new(),
        ];
        for command in never.into_iter().chain(writes()) {
            let error = handle.run_command(command).await.expect_err("it is refused");
            assert!(error.is_options() && !error.may_have_happened(), "{error}");
        }
        let handle = handle.allow_writes();
        for write in writes() {
            handle.run_command(write).await.expect("writes are allowed");
        }
    });
    assert_eq!(fake.commands(), 3, "hello and the two that were allowed");
}

#[test]
fn the_end_of_its_core_ends_a_command() {
    let (told, is_under_way) = mpsc::channel();
    let fake = Fake::serve(move |_| {
        told.send(()).expect("the test waits");
        Answer::Silence
    });
    let runtime = Runtime::builder().threads(1).start().expect("a runtime");
    let (client, ended) = (client(&fake.address), Arc::new(()));
    let held = Arc::clone(&ended);
    let begun = runtime.cores()[0].spawn(async move || {
        drop(ping(&client.database("d").multiplexed(), 1).await);
        drop(held);
    });
    drop(begun.expect("room"));
    is_under_way.recv_timeout(Duration::from_secs(20)).expect("it is sent");
    runtime.shutdown().expect("no core failed");
    assert_eq!(Arc::strong_count(&ended), 1, "nothing of the task is left");
}

#[test]
fn threads_and_tasks_of_tokio_share_a_connection() {
    let fake = Fake::serve(answer_together(COUNT as usize));
    let client = client(&fake.address);
    let handle = client.database("d").multiplexed();
    let threads: Vec<_> = (0..COUNT - 1)
        .map(|number| {
            let handle = handle.clone();
            std::thread::spawn(move || ping(&handle, number).wait())
        })
        .collect();
    let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a thread");
    let last = tokio.block_on(ping(&handle, COUNT - 1).into_future());
    assert_eq!(number(&last), Some(COUNT - 1));
    for (at, thread) in (0..).zip(threads) {
        assert_eq!(number(&thread.join().expect("no panic")), Some(at));
    }
    assert_eq!(fake.connections(), 1);
}

#[test]
fn a_server_answers_many_tasks() {
    let Some(ferret) = Ferret::start() else { return };
    let address = ferret.address.clone();
    on_core(async move {
        let client = Client::new(options(&address));
        let books = client.database("d").collection::<Document>("c");
        let documents: Vec<_> = (0..200).map(|id| doc! { "_id": id }).collect();
        books.insert_many(&documents).await.expect("they are written");
        let made = client.pool_counts().made;
        let handle = client.database("d").multiplexed();
        let tasks: Vec<_> = (0..200)
            .map(|id: i32| {
                let find = rawdoc! { "find": "c", "filter": { "_id": id }, "limit": 1_i64, "singleBatch": true };
                spawn(handle.run_command(find).into_future())
            })
            .collect();
        for (id, task) in (0_i32..).zip(tasks) {
            let reply = task.await.expect("no panic").expect("an answer");
            let reply = Document::try_from(reply).expect("well formed");
            let cursor = reply.get_document("cursor").expect("a cursor");
            let batch = cursor.get_array("firstBatch").expect("a batch");
            assert_eq!(batch, &vec![doc! { "_id": id }.into()]);
        }
        assert_eq!(client.pool_counts().made, made, "one connection did it all");
    });
}

#[test]
fn a_reply_that_announces_another_one_costs_the_connection() {
    const MORE_TO_COME: u8 = 2;
    let fake = Fake::serve(|command| {
        let mut bytes = reply(command.id, &pong(command));
        bytes[16] |= if command.connection == 0 { MORE_TO_COME } else { 0 };
        Answer::Bytes(bytes)
    });
    let address = fake.address.clone();
    on_core(async move {
        let handle = client(&address).database("d").multiplexed().depth(1);
        for at in 0..3 {
            assert_eq!(number(&ping(&handle, at).await), Some(at));
        }
    });
    assert_eq!(fake.connections(), 2);
}

#[test]
fn a_server_that_does_not_answer_costs_no_other_connection() {
    let fake = Fake::serve(|command| match command.connection {
        0 => Answer::Silence,
        _ => Answer::Reply(pong(command)),
    });
    on_core(async move {
        let client = client(&fake.address);
        let handle = client.database("d").multiplexed().timeout(Duration::from_millis(50));
        let patient = handle.clone().timeout(Duration::from_secs(20));
        let first = spawn(ping(&handle, 0).into_future());
        let second = spawn(ping(&patient, 1).into_future());
        while fake.commands() < 3 {
            yield_now().await; // `hello` and both pings
        }
        client.database("d").ping().await.expect("on a connection of its own");
        first.await.expect("no panic").expect_err("no answer came");
        let error = second.await.expect("no panic").expect_err("its connection is closed");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
        assert_eq!(client.idle_connections(), 1, "the other connection is well");
        client.database("d").ping().await.expect("on the same connection");
        assert_eq!(client.pool_counts().made, 2);
        while fake.ended() == 0 {
            yield_now().await; // the silent connection is closed
        }
    });
}

#[test]
fn who_cannot_log_in_is_told_so() {
    let fake = Fake::serve(|_| {
        Answer::Reply(doc! { "ok": 0.0, "code": 18, "codeName": "AuthenticationFailed" })
    });
    let address = fake.address.replace("mongodb://", "mongodb://ada:pencil@");
    on_core(async move {
        let handle = client(&address).database("d").multiplexed();
        let error = ping(&handle, 1).await.expect_err("refused");
        assert!(error.is_authentication() && !error.may_have_happened(), "{error}");
    });
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    struct Loud;

    impl Wake for Loud {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the test");
        }
    }

    let fake = Fake::serve(answer_together(3));
    let address = fake.address.clone();
    on_core(async move {
        let handle = client(&address).database("d").multiplexed();
        let loud = Waker::from(Arc::new(Loud));
        let mut own: Vec<_> = (0..2).map(|at| ping(&handle, at).into_future()).collect();
        for own in &mut own {
            assert!(Pin::new(own).poll(&mut Context::from_waker(&loud)).is_pending());
        }
        assert_eq!(number(&ping(&handle, 2).await), Some(2));
        for (at, own) in (0..).zip(own) {
            assert_eq!(number(&own.await), Some(at));
        }
    });
    assert_eq!(fake.connections(), 1);
}
