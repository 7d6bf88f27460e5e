//! Many writes to several collections at once, against servers of the test: FerretDB has no `bulkWrite`.

use std::sync::{Arc, Mutex};

use bson::{Bson, Document, doc};
use ringway_mongo::{
    Acknowledgment, Client, Collection, NamespacedWrite, TransactionOptions, WriteConcern,
    WriteModel, WriteOutcome,
};

use crate::support::fake::{Answer, Command, Fake, hello};
use crate::support::replica_set::ReplicaSet;
use crate::support::{on_core, options};

type Log = Arc<Mutex<Vec<Document>>>;

/// A server with these limits, which keeps what it is told; `answer` gets the number of the command.
fn server(
    limits: Document,
    answer: impl Fn(usize, &Command) -> Answer + Send + Sync + 'static,
) -> (Fake, Log) {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let fake = Fake::serve_all(move |command| {
        if command.name() == "hello" {
            let mut hello = hello();
            hello.extend(limits.clone());
            return Answer::Reply(hello);
        }
        let at = {
            let mut kept = kept.lock().expect("no panic");
            kept.push(command.body.clone());
            kept.len() - 1
        };
        answer(at, command)
    });
    (fake, log)
}

/// The reply to a `bulkWrite` whose cursor has these entries.
fn reply(counts: Document, entries: Vec<Document>) -> Document {
    let mut reply = doc! {
        "cursor": { "id": 0_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": entries },
        "nErrors": 0, "nInserted": 0, "nUpserted": 0, "nMatched": 0, "nModified": 0, "nDeleted": 0, "ok": 1.0,
    };
    reply.extend(counts);
    reply
}

/// Confirms all operations of a command, which are insertions.
fn all_inserted(command: &Command) -> Answer {
    let count = command.body.get_array("ops").expect("operations").len() as i32;
    Answer::Reply(reply(doc! { "nInserted": count }, vec![]))
}

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("things")
}

fn insertions(client: &Client, numbers: std::ops::Range<i32>) -> Vec<NamespacedWrite> {
    let things = things(client);
    numbers.map(|n| things.model(WriteModel::insert_one(&doc! { "_id": n }))).collect()
}

fn lens(log: &Log) -> Vec<usize> {
    let len = |body: &Document| body.get_array("ops").expect("operations").len();
    log.lock().expect("no panic").iter().map(len).collect()
}

/// The two batches of the cursor of a `bulkWrite` with a write of every kind.
fn outcomes_of_every_kind(at: usize) -> Document {
    let ok = |idx: i32, n: i32, more: Document| {
        let mut entry = doc! { "ok": 1.0, "idx": idx, "n": n };
        entry.extend(more);
        entry
    };
    match at {
        0 => {
            let counts = doc! {
                "nInserted": 1, "nMatched": 3, "nModified": 2, "nUpserted": 1, "nDeleted": 2,
            };
            let mut first =
                reply(counts, vec![ok(0, 1, doc! {}), ok(1, 1, doc! { "nModified": 1 })]);
            first.get_document_mut("cursor").expect("it").insert("id", 7_i64);
            first
        }
        _ => {
            let upserted = doc! { "nModified": 0, "upserted": { "_id": "new" } };
            let entries =
                vec![ok(2, 2, doc! { "nModified": 1 }), ok(3, 1, upserted), ok(4, 2, doc! {})];
            doc! {
                "cursor": { "id": 0_i64, "ns": "admin.$cmd.bulkWrite", "nextBatch": entries },
                "ok": 1.0,
            }
        }
    }
}

/// Checks the command of these writes.
fn check_every_kind(command: &Document) {
    let mut command = command.clone();
    for name in ["lsid", "maxTimeMS"] {
        command.remove(name);
    }
    let update = doc! { "filter": { "a": 1 }, "updateMods": { "$set": { "a": 2 } }, "hint": "by_a", "multi": false };
    let expected = [
        doc! { "insert": 0, "document": { "_id": 1 } },
        std::iter::once(("update".to_owned(), Bson::from(1))).chain(update).collect(),
        doc! { "update": 0, "filter": {}, "updateMods": [{ "$set": { "a": 3 } }], "multi": true },
        doc! { "update": 0, "filter": { "a": 4 }, "updateMods": { "b": 1 }, "upsert": true, "multi": false },
        doc! { "delete": 1, "filter": { "a": 5 }, "multi": true },
    ];
    let names = [doc! { "ns": "d.things" }, doc! { "ns": "e.others" }];
    let expected = doc! {
        "bulkWrite": 1, "$db": "admin", "errorsOnly": false, "ordered": true, "comment": "why",
        "ops": expected.to_vec(), "nsInfo": names.to_vec(),
    };
    assert_eq!(command, expected);
}

#[test]
fn writes_of_every_kind_are_one_command() {
    let (fake, log) = server(doc! {}, |at, _| Answer::Reply(outcomes_of_every_kind(at)));
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let (things, others) =
            (things(&client), client.database("e").collection::<Document>("others"));
        let writes = [
            things.model(WriteModel::insert_one(&doc! { "_id": 1 })),
            others.model(
                WriteModel::update_one(doc! { "a": 1 }, doc! { "$set": { "a": 2 } }).hint("by_a"),
            ),
            things.model(WriteModel::update_many(doc! {}, vec![doc! { "$set": { "a": 3 } }])),
            things.model(WriteModel::replace_one(doc! { "a": 4 }, &doc! { "b": 1 }).upsert(true)),
            others.model(WriteModel::delete_many(doc! { "a": 5 })),
        ];
        let write = client.bulk_write(writes).verbose_results(true).comment("why");
        let done = write.await.expect("all is done");
        assert_eq!((done.inserted, done.matched, done.modified, done.deleted), (1, 3, 2, 2));
        assert_eq!(done.upserted, 1);
        assert_eq!(Vec::from_iter(done.upserted_ids), [(3, Bson::from("new"))]);
        let updated = |matched, modified, upserted_id| {
            let mut outcome = done.outcomes[&1].clone();
            if let WriteOutcome::Updated { matched: m, modified: n, upserted_id: id } = &mut outcome
            {
                (*m, *n, *id) = (matched, modified, upserted_id);
            }
            outcome
        };
        assert!(
            matches!(&done.outcomes[&0], WriteOutcome::Inserted { id } if *id == Bson::from(1))
        );
        assert_eq!(done.outcomes[&1], updated(1, 1, None));
        assert_eq!(done.outcomes[&2], updated(2, 1, None));
        assert_eq!(done.outcomes[&3], updated(1, 0, Some("new".into())));
        assert!(matches!(done.outcomes[&4], WriteOutcome::Deleted { deleted: 2, .. }));
        assert_eq!(done.outcomes.len(), 5);
    });
    let log = log.lock().expect("no panic");
    check_every_kind(&log[0]);
    let text = |name| log[1].get_str(name).ok();
    assert_eq!(log[1].get_i64("getMore").ok(), Some(7));
    assert_eq!((text("collection"), text("$db")), (Some("$cmd.bulkWrite"), Some("admin")));
}

#[test]
fn a_command_has_as_many_writes_as_the_server_takes() {
    let (fake, log) = server(doc! { "maxWriteBatchSize": 3 }, |_, command| all_inserted(command));
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let done = client.bulk_write(insertions(&client, 0..8)).await.expect("all is done");
        assert_eq!((done.inserted, done.outcomes.len()), (8, 0));
    });
    assert_eq!(lens(&log), [3, 3, 2]);
}

#[test]
fn a_command_has_as_many_bytes_as_the_server_takes() {
    const LEN_MAX: usize = 10_000;
    let longest = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&longest);
    let limits = doc! { "maxMessageSizeBytes": LEN_MAX as i32 };
    let (fake, log) = server(limits, move |_, command| {
        let mut longest = seen.lock().expect("no panic");
        *longest = command.len.max(*longest);
        all_inserted(command)
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        // Each write has a collection of its own, whose name has a part of the bytes.
        let write = |n: i32| {
            let name = format!("{}{n}", "c".repeat(150));
            let things = client.database("d").collection::<Document>(&name);
            things.model(WriteModel::insert_one(
                &doc! { "_id": n, "text": "x".repeat(n as usize * 7) },
            ))
        };
        let done = client.bulk_write((0..100).map(write)).await.expect("all is done");
        assert_eq!(done.inserted, 100);
        let long = doc! { "_id": 1, "text": "x".repeat(2 * LEN_MAX) };
        let writes = [&doc! { "_id": 2 }, &long, &doc! { "_id": 3 }];
        let writes = writes.map(|it| things(&client).model(WriteModel::insert_one(it)));
        client.bulk_write(writes).await.expect("the server says whether it is too long");
    });
    let lens = lens(&log);
    let (alone, others) = (&lens[lens.len() - 3..], &lens[..lens.len() - 3]);
    assert_eq!(alone, [1, 1, 1]);
    assert!(
        others.len() > 5 && others.len() < 20 && others.iter().sum::<usize>() == 100,
        "{lens:?}"
    );
    assert!(*longest.lock().expect("no panic") > 2 * LEN_MAX);
}

#[test]
fn the_first_error_ends_writes_in_order_only() {
    for is_ordered in [true, false] {
        let (fake, log) = server(doc! { "maxWriteBatchSize": 3 }, |at, command| match at {
            1 => {
                let error =
                    doc! { "ok": 0.0, "idx": 1, "code": 11000, "errmsg": "of the test", "n": 0 };
                Answer::Reply(reply(doc! { "nInserted": 2, "nErrors": 1 }, vec![error]))
            }
            _ => all_inserted(command),
        });
        on_core(async move {
            let client = Client::new(options(&fake.address));
            let write = client.bulk_write(insertions(&client, 0..8)).ordered(is_ordered);
            let error = write.await.expect_err("one has failed");
            assert!(error.is_duplicate_key() && error.may_have_happened(), "{error}");
            let bulk = error.bulk().expect("it says what was done");
            assert_eq!(bulk.write_errors[0].index, 4, "{bulk:?}");
            assert_eq!(bulk.result.inserted, if is_ordered { 5 } else { 7 });
        });
        assert_eq!(lens(&log).len(), if is_ordered { 2 } else { 3 });
    }
}

#[test]
fn what_was_done_before_a_connection_broke_is_known() {
    let (fake, _) = server(doc! { "maxWriteBatchSize": 3 }, |at, command| match at {
        0 => all_inserted(command),
        _ => Answer::End(Vec::new()),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let error = client.bulk_write(insertions(&client, 0..8)).await.expect_err("it broke");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
        assert_eq!(error.bulk().expect("it says what was done").result.inserted, 3);
    });
}

#[test]
fn a_write_concern_that_is_not_met_is_an_error() {
    let (fake, _) = server(doc! {}, |_, _| {
        let mut reply = reply(doc! { "nInserted": 2 }, vec![]);
        reply.insert("writeConcernError", doc! { "code": 64, "errmsg": "of the test" });
        Answer::Reply(reply)
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let error = client.bulk_write(insertions(&client, 0..2)).await.expect_err("not confirmed");
        let bulk = error.bulk().expect("it says what was done");
        assert_eq!((bulk.result.inserted, bulk.write_concern_errors[0].code), (2, 64));
        assert!(bulk.write_errors.is_empty());
    });
}

#[test]
fn writes_to_one_document_are_sent_again_under_their_number() {
    let set = ReplicaSet::start(1, |state, _, command| match state.log.len() {
        1 | 3 => Answer::End(Vec::new()),
        _ => all_inserted(command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        client.bulk_write(insertions(&client, 0..2)).await.expect("the second time");
        let got = set.got("bulkWrite");
        let number = |at: usize| got[at].1.get_i64("txnNumber").ok();
        assert!(number(0).is_some() && number(0) == number(1));
        let many = [things(&client).model(WriteModel::delete_many(doc! {}))];
        let error = client.bulk_write(many).await.expect_err("it may have been done");
        assert!(error.may_have_happened(), "{error}");
        assert_eq!(set.got("bulkWrite").len(), 3);
        assert!(!set.got("bulkWrite")[2].1.contains_key("txnNumber"));
    });
}

#[test]
fn what_cannot_be_is_refused_before_it_is_sent() {
    let (fake, _) = server(doc! {}, |_, command| all_inserted(command));
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let mut unanswered = WriteConcern::default();
        unanswered.w = Some(Acknowledgment::Nodes(0));
        let write = || client.bulk_write(insertions(&client, 0..2)).write_concern(&unanswered);
        let wrong = [
            (client.bulk_write([]), "nothing to write"),
            (write(), "ordered writes"),
            (write().ordered(false).verbose_results(true), "verbose results"),
        ];
        for (write, why) in wrong {
            let error = write.await.expect_err(why);
            assert!(error.is_options() && error.to_string().contains(why), "{error}");
        }
        let bad = [things(&client).model(WriteModel::update_one(doc! {}, doc! { "a": 1 }))];
        client.bulk_write(bad).await.expect_err("an update has operators");
        assert_eq!(fake.commands(), 0);
        let done = write().ordered(false).await.expect("it is sent");
        assert_eq!(done.inserted, 0, "nobody knows");
    });
}

#[test]
fn answers_that_are_none_are_errors() {
    let mut deep = doc! {};
    for _ in 0..ringway_wire::mongo::NESTING_MAX {
        deep = doc! { "a": deep };
    }
    let lies = [
        doc! { "ok": 1.0, "idx": 2, "n": 1 },
        doc! { "idx": 0 },
        doc! { "ok": 1.0, "idx": 1, "n": 1, "upserted": 7 },
        doc! { "ok": 1.0, "idx": 1, "n": 1, "upserted": {} },
        doc! { "ok": 1.0, "idx": 1, "n": 1, "upserted": { "_id": deep } },
    ];
    for lie in lies {
        let told: String = lie.to_string().chars().take(80).collect();
        let (fake, _) = server(doc! {}, move |_, _| {
            Answer::Reply(reply(doc! { "nInserted": 1 }, vec![lie.clone()]))
        });
        on_core(async move {
            let client = Client::new(options(&fake.address));
            let update = WriteModel::update_one(doc! {}, doc! { "$set": { "a": 1 } });
            let insert = WriteModel::insert_one(&doc! {});
            let writes = [things(&client).model(insert), things(&client).model(update)];
            let write = client.bulk_write(writes).verbose_results(true);
            let error = write.await.expect_err(&told);
            assert!(error.is_protocol(), "{told}: {error}");
            assert!(error.may_have_happened() && error.bulk().is_some(), "{told}: {error}");
        });
    }
}

/// The next batch of a cursor that never ends.
fn endless(entries: Vec<Document>) -> Document {
    let name = "admin.$cmd.bulkWrite";
    doc! { "cursor": { "id": 7_i64, "ns": name, "nextBatch": entries }, "ok": 1.0 }
}

#[test]
fn more_outcomes_than_writes_are_refused() {
    let (fake, _) = server(doc! {}, |at, _| {
        let error = doc! { "ok": 0.0, "idx": 0, "code": 11000, "errmsg": "of the test", "n": 0 };
        match at {
            0 => {
                let mut first = reply(doc! { "nInserted": 1, "nErrors": 1 }, vec![error]);
                first.get_document_mut("cursor").expect("it").insert("id", 7_i64);
                Answer::Reply(first)
            }
            1..100 => Answer::Reply(endless(vec![error])),
            _ => Answer::Reply(doc! { "ok": 0.0, "code": 1, "errmsg": "somebody reads on" }),
        }
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let write = client.bulk_write(insertions(&client, 0..2)).ordered(false);
        let error = write.await.expect_err("there are two writes only");
        assert!(error.is_protocol() && error.may_have_happened(), "{error}");
        let bulk = error.bulk().expect("it says what was done");
        assert_eq!((bulk.write_errors.len(), bulk.result.inserted), (2, 1));
    });
}

#[test]
fn outcomes_have_the_time_of_the_whole_operation() {
    let (fake, _) = server(doc! {}, |at, _| {
        let mut first = reply(doc! { "nInserted": 1 }, vec![]);
        first.get_document_mut("cursor").expect("it").insert("id", 7_i64);
        Answer::Reply(if at == 0 { first } else { endless(vec![]) })
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let write = client.bulk_write(insertions(&client, 0..2));
        let write = write.timeout(std::time::Duration::from_millis(200));
        let error = write.await.expect_err("there is no end of batches");
        assert!(error.is_timeout() && error.may_have_happened(), "{error}");
        assert_eq!(error.bulk().expect("it says what was done").result.inserted, 1);
    });
}

#[test]
fn a_transaction_is_answered_whatever_its_client_waits_for() {
    let set = ReplicaSet::start(1, |_, _, command| match command.name() {
        "bulkWrite" => all_inserted(command),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let client = Client::new(options(&format!("{}&w=0", set.address(&[0]))));
        let session = client.start_session();
        let majority = || {
            let mut concern = WriteConcern::default();
            concern.w = Some(Acknowledgment::Majority);
            TransactionOptions::new().write_concern(&concern).expect("a concern")
        };
        session.start_transaction(majority()).expect("the first");
        let write = client.bulk_write(insertions(&client, 0..2)).session(&session);
        assert_eq!(write.await.expect("it is answered").inserted, 2);
        let (_, command) = &set.got("bulkWrite")[0];
        assert!(command.contains_key("lsid") && !command.contains_key("writeConcern"));
    });
}

#[test]
fn a_batch_is_sent_again_if_it_may_be_whatever_comes_behind_it() {
    let limits = doc! {
        "maxWriteBatchSize": 2, "setName": "rs", "hosts": [], "msg": "isdbgrid",
    };
    let (fake, log) = server(limits, |at, command| match at {
        0 | 2 => Answer::End(Vec::new()),
        _ => all_inserted(command),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let mut writes = insertions(&client, 0..2);
        writes.extend(insertions(&client, 2..3));
        writes.push(things(&client).model(WriteModel::delete_many(doc! {})));
        writes.extend(insertions(&client, 3..4));
        let error = client.bulk_write(writes).await.expect_err("the batch with the deletion broke");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
        let log = log.lock().expect("no panic");
        let number = |body: &Document| body.get_i64("txnNumber").ok();
        let numbers: Vec<_> = log.iter().map(number).collect();
        // The first batch has no deletion of many, so it has a number and is sent again; the second is sent once.
        assert_eq!(log.len(), 3, "{numbers:?}");
        assert!(numbers[0].is_some() && numbers[0] == numbers[1], "{numbers:?}");
        assert_eq!(numbers[2], None);
    });
}
