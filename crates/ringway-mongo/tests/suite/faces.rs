//! One client on a core, on plain threads and in tasks of tokio.

use bson::{Document, doc};
use ringway_mongo::{Client, Collection, ServerType, Wait};

use crate::support::fake::{Answer, Fake, last_batch};
use crate::support::ferret::Ferret;
use crate::support::{client, on_core, options};

#[test]
fn a_plain_thread_waits() {
    let Some(ferret) = Ferret::start() else { return };
    let client = client(&ferret.address);
    let numbers: Collection<Document> = client.database("d").collection("numbers");
    let documents: Vec<_> = (0..250).map(|at| doc! { "_id": at }).collect();
    assert_eq!(numbers.insert_many(&documents).wait().expect("written").inserted, 250);
    let cursor = numbers.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(100);
    let mut cursor = cursor.wait().expect("found");
    let mut expected = documents.into_iter();
    while let Some(document) = cursor.next().wait().expect("read") {
        assert_eq!(Some(document), expected.next());
    }
    assert_eq!(expected.next(), None);
    let names = client.database("d").list_collection_names().wait().expect("listed");
    assert_eq!(names, ["numbers"]);
}

#[test]
fn tasks_of_tokio_await() {
    let Some(ferret) = Ferret::start() else { return };
    let client = client(&ferret.address);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let tokio = tokio.expect("threads");
    let tasks: Vec<_> = (0..40)
        .map(|at| {
            let numbers: Collection<Document> = client.database("d").collection("numbers");
            tokio.spawn(async move {
                numbers.insert_one(&doc! { "_id": at }).await.expect("written");
                let mut cursor = numbers.find(doc! { "_id": at }).await.expect("found");
                assert_eq!(cursor.next().await.expect("read"), Some(doc! { "_id": at }));
                numbers.count_documents(doc! {}).wait().expect_err("a task must not block")
            })
        })
        .collect();
    for task in tasks {
        let refused = tokio.block_on(task).expect("no panic");
        assert!(refused.is_options() && refused.to_string().contains("tokio"), "{refused}");
    }
    assert!(client.pool_counts().made > 0, "those of other threads are seen here");
}

#[test]
fn what_a_client_knows_is_seen_from_every_thread() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
    let client = client(&format!("mongodb://{}", fake.place));
    assert!(client.servers().is_empty(), "nobody has asked for anything");
    client.database("d").ping().wait().expect("it answers");
    let seen = |client: &Client| {
        let kinds: Vec<_> = client.servers().iter().map(|server| server.kind).collect();
        (kinds, client.pool_counts().made, client.idle_connections())
    };
    let expected = (vec![ServerType::Standalone], 1, 1);
    assert_eq!(seen(&client), expected);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let of_task = client.clone();
    let in_task = tokio.expect("a thread").block_on(async move { seen(&of_task) });
    assert_eq!(in_task, expected);
    on_core(async move {
        client.database("d").ping().await.expect("it answers");
        assert_eq!(client.pool_counts().made, 1, "a core sees its own");
    });
}

#[test]
fn an_operation_that_panics_is_no_failure_of_the_network() {
    struct Picky;
    impl<'de> serde::Deserialize<'de> for Picky {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("of the test")
        }
    }
    let fake = Fake::serve(|_| Answer::Reply(last_batch(vec![doc! {}])));
    let things: Collection<Picky> = client(&fake.address).database("d").collection("c");
    let error = things.find_one(doc! {}).wait().map(drop).expect_err("it panics");
    assert!(!error.is_network() && error.to_string().contains("panicked"), "{error}");
}

#[test]
fn a_core_must_not_block() {
    let fake = Fake::serve(|_| Answer::Silence);
    on_core(async move {
        let refused = client(&fake.address).database("d").ping().wait();
        assert!(refused.expect_err("a core would stop").is_options());
    });
}

#[test]
fn a_cursor_may_go_to_another_thread() {
    let Some(ferret) = Ferret::start() else { return };
    let address = ferret.address.clone();
    let runtime = ringway_runtime::Runtime::builder().threads(1).start().expect("a core");
    let client = client(&address);
    let of_core = client.clone();
    let made = runtime.cores()[0].spawn(async move || {
        let numbers: Collection<Document> = of_core.database("d").collection("numbers");
        let documents: Vec<_> = (0..30).map(|at| doc! { "_id": at }).collect();
        numbers.insert_many(&documents).await.expect("written");
        numbers.find(doc! {}).batch_size(10).await.expect("found")
    });
    let cursor = made.expect("a core").wait().expect("no panic");
    assert_eq!(cursor.collect().wait().expect("read").len(), 30);
    drop(client);
    runtime.shutdown().expect("an end in order");
}

/// The server sees that the command is given up, because its connection is closed after a while.
#[test]
fn an_operation_that_a_thread_gives_up_ends() {
    let fake = Fake::serve(|_| Answer::Silence);
    let client = Client::new(options(&fake.address).pool_size_max(1));
    let mut ping = Box::pin(client.database("d").ping());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(ping.as_mut().poll(&mut cx).is_pending());
    while fake.commands() < 2 {
        std::thread::yield_now();
    }
    drop(ping);
    while fake.ended() == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn operations_on_a_core_that_has_ended_fail() {
    let fake = Fake::serve(|command| match command.name() {
        "find" => Answer::Reply(doc! {
            "cursor": { "id": 7_i64, "ns": "d.c", "firstBatch": [{ "a": 1 }] }, "ok": 1.0,
        }),
        _ => Answer::Reply(last_batch(Vec::new())),
    });
    let client = client(&fake.address);
    let runtime = ringway_runtime::Runtime::builder().threads(1).start().expect("a core");
    let things: Collection<Document> = client.database("d").collection("c");
    let found = runtime.cores()[0].spawn(async move || things.find(doc! {}).await.expect("found"));
    let mut cursor = found.expect("a core").wait().expect("no panic");
    runtime.shutdown().expect("an end in order");
    assert_eq!(cursor.next().wait().expect("it is in the batch"), Some(doc! { "a": 1 }));
    let gone = cursor.next().wait().expect_err("its core has gone");
    assert!(!gone.is_network() && gone.to_string().contains("core"), "{gone}");
}
