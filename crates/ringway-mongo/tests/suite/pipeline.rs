//! Pipelines: several commands under way on one connection.

use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use ringway_mongo::{Client, Error, Result};

use crate::support::fake::{Answer, Command, Fake, reply};
use crate::support::ferret::Ferret;
use crate::support::{client, on_core, options};

/// Commands of a pipeline of the tests.
const COUNT: i32 = 5;

fn pings() -> impl Iterator<Item = RawDocumentBuf> {
    (0..COUNT).map(|number| rawdoc! { "ping": number })
}

async fn run(
    client: &Client,
    depth: usize,
    commands: impl Iterator<Item = RawDocumentBuf>,
) -> Vec<Result<RawDocumentBuf>> {
    let mut pipeline = client.database("d").pipeline().depth(depth);
    for command in commands {
        pipeline.push(command).expect("room");
    }
    pipeline.await.expect("a connection")
}

/// The answer that belongs to a ping.
fn pong(command: &Command) -> Document {
    doc! { "pong": command.body.get_i32("ping").expect("a ping"), "ok": 1.0 }
}

fn number(outcome: &Result<RawDocumentBuf>) -> Option<i32> {
    outcome.as_ref().ok().map(|reply| reply.get_i32("pong").expect("an answer to a ping"))
}

#[test]
fn each_command_has_its_own_answer_or_error() {
    let fake = Fake::serve(|command| match command.body.get_i32("ping") {
        Ok(2) => Answer::Reply(doc! { "ok": 0.0, "code": 96, "errmsg": "no" }),
        _ => Answer::Reply(pong(command)),
    });
    let address = fake.address.clone();
    on_core(async move {
        let client = client(&address);
        for depth in [1, 2, 3, 100] {
            let outcomes = run(&client, depth, pings()).await;
            let numbers: Vec<_> = outcomes.iter().map(number).collect();
            assert_eq!(numbers, [Some(0), Some(1), None, Some(3), Some(4)], "depth {depth}");
            let error = outcomes[2].as_ref().expect_err("it failed");
            assert_eq!(error.server().map(|told| told.code), Some(96));
        }
    });
    assert_eq!(fake.connections(), 1, "an error of a command is none of the connection");
}

#[test]
fn commands_are_under_way_together_and_answers_may_come_in_any_order() {
    // It answers when it has all, the last one first.
    let held = Mutex::new(Vec::new());
    let fake = Fake::serve(move |command| {
        let mut held = held.lock().expect("no panic");
        held.push(reply(command.id, &pong(command)));
        if held.len() < COUNT as usize {
            return Answer::Silence;
        }
        Answer::Bytes(held.drain(..).rev().flatten().collect())
    });
    let address = fake.address.clone();
    on_core(async move {
        let outcomes = run(&client(&address), COUNT as usize, pings()).await;
        let numbers: Vec<_> = outcomes.iter().map(number).collect();
        assert_eq!(numbers, (0..COUNT).map(Some).collect::<Vec<_>>());
    });
}

#[test]
fn a_connection_cut_at_every_byte_leaves_no_wrong_answer() {
    let whole = COUNT as usize * reply(0, &doc! { "pong": 0, "ok": 1.0 }).len();
    for cut in 0..whole {
        let held = Mutex::new(Vec::new());
        let fake = Fake::serve(move |command| {
            if command.name() == "buildInfo" {
                return Answer::Reply(doc! { "ok": 1.0 });
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
            let client = client(&address);
            let outcomes = run(&client, 100, pings()).await;
            let answered = cut / (whole / COUNT as usize);
            for (at, outcome) in outcomes.iter().enumerate() {
                match outcome {
                    Ok(_) => assert_eq!(number(outcome), Some(at as i32), "cut {cut}"),
                    Err(error) => {
                        assert!(
                            error.is_network() && error.may_have_happened(),
                            "cut {cut}: {error}"
                        );
                    }
                }
                assert_eq!(outcome.is_ok(), at < answered, "cut {cut}, command {at}");
            }
            let next = client.database("d").run_command(rawdoc! { "buildInfo": 1 }).await;
            next.expect("another connection is made");
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
                *late = Some((command.stream(), reply(command.id, &pong(command))));
                Answer::Silence
            }
            Ok(7) => {
                if let Some((mut stream, bytes)) = late.take() {
                    let _client_may_have_closed_it = stream.write_all(&bytes);
                }
                Answer::Reply(pong(command))
            }
            _ => Answer::Reply(pong(command)),
        }
    });
    let address = fake.address.clone();
    on_core(async move {
        let options = options(&address).timeout(Duration::from_millis(200));
        let client = Client::new(options);
        let outcomes = run(&client, 3, pings()).await;
        let is_late = |error: &Error| error.is_timeout();
        assert_eq!((number(&outcomes[0]), number(&outcomes[1])), (Some(0), Some(1)));
        let error = outcomes[2].as_ref().expect_err("no answer came");
        assert!(is_late(error) && error.may_have_happened(), "{error}");
        assert_eq!((number(&outcomes[3]), number(&outcomes[4])), (Some(3), Some(4)));
        let next = client.database("d").run_command(rawdoc! { "ping": 7 }).await;
        assert_eq!(number(&next), Some(7), "the late answer is not taken for this one");
    });
}

#[test]
fn what_has_no_place_in_a_pipeline_is_not_sent() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
    let address = fake.address.clone();
    let writes = || {
        [
            rawdoc! { "insert": "c", "documents": [{ "_id": 1 }] },
            rawdoc! { "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {} },
        ]
    };
    on_core(async move {
        let client = client(&address);
        let never = [
            rawdoc! { "hello": 1 },
            rawdoc! { "saslStart": 1 },
            rawdoc! { "getMore": 5_i64, "collection": "c" },
            rawdoc! { "commitTransaction": 1 },
            rawdoc! { "find": "c", "tailable": true, "awaitData": true },
            rawdoc! { "find": "c", "startTransaction": true },
            rawdoc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} },
            RawDocumentBuf::new(),
        ];
        for outcome in run(&client, 4, never.into_iter().chain(writes())).await {
            let error = outcome.expect_err("it is refused");
            assert!(error.is_options() && !error.may_have_happened(), "{error}");
        }
        let mut pipeline = client.database("d").pipeline().allow_writes();
        for write in writes() {
            pipeline.push(write).expect("room");
        }
        for outcome in pipeline.await.expect("a connection") {
            outcome.expect("writes are allowed");
        }
    });
    assert_eq!(fake.commands(), 3, "hello and the two that were allowed");
}

#[test]
fn a_server_answers_in_order() {
    let Some(ferret) = Ferret::start() else { return };
    let address = ferret.address.clone();
    on_core(async move {
        let client = client(&address);
        let books = client.database("d").collection::<Document>("c");
        let documents: Vec<_> = (0..100).map(|id| doc! { "_id": id }).collect();
        books.insert_many(&documents).await.expect("they are written");
        let find = |id: i32| rawdoc! { "find": "c", "filter": { "_id": id }, "limit": 1_i64, "singleBatch": true };
        let outcomes = run(&client, 16, (0..100).map(find)).await;
        for (id, outcome) in outcomes.into_iter().enumerate() {
            let reply = outcome.expect("an answer");
            let reply = Document::try_from(reply).expect("well formed");
            let cursor = reply.get_document("cursor").expect("a cursor");
            let batch = cursor.get_array("firstBatch").expect("a batch");
            assert_eq!(batch, &vec![doc! { "_id": id as i32 }.into()]);
        }
    });
}
