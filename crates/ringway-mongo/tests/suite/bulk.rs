//! Writes whose errors a server rarely makes, and what options add to commands.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf, doc};
use ringway_mongo::{Acknowledgment, Collection, WriteConcern, WriteModel};

use crate::support::fake::{Answer, Fake, hello, last_batch};
use crate::support::{client, on_core};

/// Runs a test with a collection of a server that notes its commands.
fn with_fake<F: Future<Output = ()>>(
    answer: impl Fn(&Document) -> Document + Send + Sync + 'static,
    test: impl FnOnce(Collection<Document>) -> F + 'static,
) -> Vec<Document> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let fake = Fake::serve(move |command| {
        notes.lock().expect("no panic").push(command.body.clone());
        Answer::Reply(answer(&command.body))
    });
    on_core(async move { test(client(&fake.address).database("d").collection("c")).await });
    let mut commands = seen.lock().expect("no panic");
    std::mem::take(&mut *commands)
}

#[test]
fn a_write_that_is_not_confirmed_is_an_error_with_what_was_done() {
    let unconfirmed = |_: &Document| {
        let error = doc! { "code": 64, "codeName": "WriteConcernFailed", "errmsg": "too slow" };
        doc! { "n": 1, "nModified": 1, "writeConcernError": error, "ok": 1.0 }
    };
    with_fake(unconfirmed, |things| async move {
        let error = things.delete_one(doc! {}).await.expect_err("it is not confirmed");
        assert_eq!(error.server().map(|error| error.code), Some(64));
        assert!(error.may_have_happened());
        let writes = [WriteModel::delete_one(doc! {}), WriteModel::insert_one(&doc! {})];
        let error = things.bulk_write(writes).await.expect_err("they are not confirmed");
        let done = error.bulk().expect("what was done");
        assert_eq!((done.write_errors.len(), done.write_concern_errors.len()), (0, 2));
        assert_eq!((done.result.deleted, done.result.inserted), (1, 1));
    });
}

#[test]
fn many_writes_are_split_by_kind_and_by_size() {
    let accept = |command: &Document| {
        let writes = ["documents", "updates", "deletes"].map(|name| command.get_array(name));
        let n = writes.into_iter().flatten().map(Vec::len).sum::<usize>();
        doc! { "n": i64::try_from(n).expect("few"), "ok": 1.0 }
    };
    let commands = with_fake(accept, |things| async move {
        let text = "x".repeat(12 << 20);
        let large: Vec<_> = (0..6).map(|at| doc! { "_id": at, "text": &text }).collect();
        things.insert_many(&large).await.expect("accepted");
        let mixed = || {
            (0..6).map(|at| match at % 2 {
                0 => WriteModel::insert_one(&doc! { "_id": at }),
                _ => WriteModel::delete_one(doc! { "_id": at }),
            })
        };
        things.bulk_write(mixed()).await.expect("accepted");
        things.bulk_write(mixed()).ordered(false).await.expect("accepted");
    });
    let names: Vec<_> = commands.iter().map(|it| it.keys().next().expect("a name")).collect();
    let (i, d) = ("insert", "delete");
    assert_eq!(names, [i, i, i, d, i, d, i, d, i, d], "6 × 12 MiB are two commands");
    assert_eq!(commands[9].get_bool("ordered").ok(), Some(false));
}

#[test]
fn options_go_to_the_commands_that_know_them() {
    let accept = |_: &Document| doc! { "n": 1, "nModified": 1, "ok": 1.0 };
    let commands = with_fake(accept, |things| async move {
        let writes = [
            WriteModel::insert_one(&doc! {}),
            WriteModel::update_one(doc! {}, doc! { "$set": { "x": 1 } }),
            WriteModel::delete_one(doc! {}),
        ];
        let bulk = things.bulk_write(writes).let_vars(doc! { "a": 1 }).comment("why");
        bulk.bypass_document_validation(true).await.expect("accepted");
    });
    let has = |name: &str| commands.iter().map(|it| it.contains_key(name)).collect::<Vec<_>>();
    assert_eq!(has("let"), [false, true, true]);
    assert_eq!(has("bypassDocumentValidation"), [true, true, false]);
    assert_eq!(has("comment"), [true; 3]);
}

/// Runs writes at a server that announces how much it takes, and returns the lengths of their lists and of their messages.
fn with_limits<F: Future<Output = ()>>(
    limits: Document,
    test: impl FnOnce(Collection<Document>) -> F + 'static,
) -> Vec<(usize, usize)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let fake = Fake::serve_all(move |command| {
        if command.name() == "hello" {
            let mut hello = hello();
            hello.extend(limits.clone());
            return Answer::Reply(hello);
        }
        let lists = ["documents", "updates", "deletes"].map(|name| command.body.get_array(name));
        let count = lists.into_iter().flatten().map(Vec::len).sum::<usize>();
        notes.lock().expect("no panic").push((count, command.len));
        Answer::Reply(doc! { "n": i64::try_from(count).expect("few"), "ok": 1.0 })
    });
    on_core(async move { test(client(&fake.address).database("d").collection("c")).await });
    let mut commands = seen.lock().expect("no panic");
    std::mem::take(&mut *commands)
}

#[test]
fn no_command_has_more_writes_than_the_server_takes() {
    let limits = doc! { "maxWriteBatchSize": 3 };
    let commands = with_limits(limits, |things| async move {
        let documents: Vec<_> = (0..10).map(|at| doc! { "_id": at }).collect();
        let inserted = things.insert_many(&documents).await.expect("accepted").inserted;
        assert_eq!(inserted, 10);
        let writes = (0..7).map(|at| match at {
            0..5 => WriteModel::delete_one(doc! { "_id": at }),
            _ => WriteModel::delete_many(doc! { "_id": at }),
        });
        assert_eq!(things.bulk_write(writes).await.expect("accepted").deleted, 7);
    });
    let counts: Vec<_> = commands.iter().map(|(count, _)| *count).collect();
    assert_eq!(counts, [3, 3, 3, 1, 3, 3, 1]);
}

#[test]
fn no_command_is_longer_than_the_server_takes() {
    const LONGEST: usize = 50_000;
    let limits = doc! { "maxMessageSizeBytes": i32::try_from(LONGEST).expect("short") };
    let commands = with_limits(limits, |things| async move {
        let text = "x".repeat(9_900);
        let documents: Vec<_> = (0..11).map(|at| doc! { "_id": at, "text": &text }).collect();
        let comment = "y".repeat(4_000);
        let insert = things.insert_many(&documents).comment(comment);
        assert_eq!(insert.await.expect("accepted").inserted, 11);
    });
    let counts: Vec<_> = commands.iter().map(|(count, _)| *count).collect();
    assert_eq!(counts, [4, 4, 3]);
    assert!(commands.iter().all(|(_, len)| *len <= LONGEST), "{commands:?}");
}

#[test]
fn what_was_inserted_is_known_though_another_write_failed() {
    let refuse = |command: &Document| match command.get_array("documents") {
        // The second document of each command is there already.
        Ok(_) => doc! {
            "n": 1, "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "taken" }], "ok": 1.0,
        },
        _ => doc! { "n": 1, "ok": 1.0 },
    };
    with_fake(refuse, |things| async move {
        let documents: Vec<_> = (0..3).map(|at| doc! { "_id": 10 + at }).collect();
        for (is_ordered, expected) in [(true, vec![(0, 10)]), (false, vec![(0, 10), (2, 12)])] {
            let inserted = things.insert_many(&documents).ordered(is_ordered).await;
            let error = inserted.expect_err("a key is taken");
            let ids = &error.bulk().expect("what was done").result.inserted_ids;
            let ids: Vec<_> =
                ids.iter().map(|(at, id)| (*at, id.as_i32().expect("its id"))).collect();
            assert_eq!(ids, expected);
        }
        let writes = [
            WriteModel::delete_one(doc! {}),
            WriteModel::insert_one(&doc! { "_id": 7 }),
            WriteModel::insert_one(&doc! { "_id": 8 }),
        ];
        let error = things.bulk_write(writes).await.expect_err("a key is taken");
        let ids = &error.bulk().expect("what was done").result.inserted_ids;
        assert_eq!(ids.iter().collect::<Vec<_>>(), [(&1, &Bson::Int32(7))]);
    });
}

#[test]
fn an_error_has_all_that_the_server_says() {
    let why = || doc! { "failingDocumentId": 7, "details": { "operatorName": "$jsonSchema" } };
    let refuse = move |command: &Document| {
        let failed = doc! {
            "index": 0, "code": 121, "errmsg": "Document failed validation", "errInfo": why(),
        };
        let unconfirmed = doc! {
            "code": 100, "errmsg": "too few", "errInfo": { "writeConcern": { "w": 9 } },
        };
        match &**command.keys().next().expect("a name") {
            "insert" => doc! { "n": 0, "writeErrors": [failed], "ok": 1.0 },
            "findAndModify" => doc! { "ok": 0.0, "code": 121, "errmsg": "no", "errInfo": why() },
            _ => doc! { "n": 1, "writeConcernError": unconfirmed, "ok": 1.0 },
        }
    };
    let raw = |document: &Document| RawDocumentBuf::try_from(document).expect("BSON");
    with_fake(refuse, move |things| async move {
        let details =
            |error: &ringway_mongo::Error| error.server().and_then(|it| it.details.clone());
        let failed = things.insert_one(&doc! {}).await.expect_err("it fails validation");
        assert_eq!(details(&failed), Some(raw(&why())));
        let reply = failed.server_reply().expect("there was one");
        assert!(reply.get_array("writeErrors").is_ok(), "{reply:?}");
        let failed = things.insert_many(&[doc! {}]).await.expect_err("it fails validation");
        assert_eq!(failed.bulk().expect("one").write_errors[0].details, Some(raw(&why())));
        let unconfirmed = things.delete_one(doc! {}).await.expect_err("it is not confirmed");
        assert_eq!(details(&unconfirmed), Some(raw(&doc! { "writeConcern": { "w": 9 } })));
        let refused = things.find_one_and_delete(doc! {}).await.expect_err("refused");
        assert_eq!(details(&refused), Some(raw(&why())));
        assert_eq!(refused.server_reply().and_then(|it| it.get_i32("code").ok()), Some(121));
    });
}

#[test]
fn positions_are_those_of_the_caller() {
    let refuse = |command: &Document| match command.contains_key("update") {
        true => doc! { "n": 1, "nModified": 0, "upserted": [{ "index": 1, "_id": 7 }], "ok": 1.0 },
        false => doc! {
            "n": 0, "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "taken" }], "ok": 1.0,
        },
    };
    with_fake(refuse, |things| async move {
        let set = || doc! { "$set": { "x": 1 } };
        let writes = [
            WriteModel::insert_one(&doc! {}),
            WriteModel::update_one(doc! {}, set()),
            WriteModel::insert_one(&doc! {}),
            WriteModel::update_one(doc! {}, set()).upsert(true),
        ];
        let error = things.bulk_write(writes).ordered(false).await.expect_err("a key is taken");
        assert_eq!(error.server().map(|first| first.index), Some(2), "{error}");
        let done = error.bulk().expect("what was done");
        assert_eq!(done.result.upserted_ids.get(&3), Some(&Bson::Int32(7)));
        assert_eq!((done.result.matched, done.write_errors.len()), (0, 1));
    });
}

#[test]
fn a_lost_connection_leaves_what_was_done_before() {
    let fake = Fake::serve(|command| match command.name() {
        "insert" => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
        _ => Answer::End(Vec::new()),
    });
    on_core(async move {
        let things: Collection<Document> = client(&fake.address).database("d").collection("c");
        let writes = [WriteModel::insert_one(&doc! {}), WriteModel::delete_many(doc! {})];
        let error = things.bulk_write(writes).await.expect_err("the connection ends");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
        assert_eq!(error.bulk().map(|done| done.result.inserted), Some(1));
    });
}

#[test]
fn options_reach_the_server() {
    let accept = |command: &Document| match command.contains_key("find") {
        true => crate::support::fake::last_batch(Vec::new()),
        false => doc! { "n": 1, "nModified": 1, "value": Bson::Null, "ok": 1.0 },
    };
    let commands = with_fake(accept, |things| async move {
        let german = || doc! { "locale": "de" };
        let find = things.find(doc! {}).collation(german()).hint("by_x").comment("why");
        let find = find.let_vars(doc! { "a": 1 }).max_time(Duration::from_millis(70));
        find.limit(-3).comment("really").await.expect("accepted");
        let mut concern = WriteConcern::default();
        concern.w = Some(Acknowledgment::Nodes(2));
        let update = things.update_one(doc! {}, vec![doc! { "$set": { "x": 1 } }]);
        let update = update.array_filters([doc! { "e.x": 1 }]).hint(doc! { "x": 1 });
        update.write_concern(&concern).comment(7).await.expect("accepted");
        let confirmed = things.write_concern(&concern).expect("a concern");
        confirmed.find_one_and_delete(doc! {}).await.expect("accepted");
    });
    let [find, update, remove] = &commands[..] else { panic!("{commands:?}") };
    let expected = doc! {
        "collation": { "locale": "de" }, "hint": "by_x", "let": { "a": 1 }, "maxTimeMS": 70_i64,
        "limit": 3_i64, "singleBatch": true, "comment": "really",
    };
    for (name, value) in &expected {
        assert_eq!(find.get(name), Some(value), "{name} of {find}");
    }
    assert_eq!(update.get_document("writeConcern").ok(), Some(&doc! { "w": 2 }));
    assert_eq!(update.get("comment"), Some(&Bson::Int32(7)));
    let statement = doc! {
        "q": {}, "u": [{ "$set": { "x": 1 } }], "arrayFilters": [{ "e.x": 1 }], "hint": { "x": 1 },
    };
    assert_eq!(update.get_array("updates").ok(), Some(&vec![statement.into()]));
    assert_eq!(remove.get_document("writeConcern").ok(), Some(&doc! { "w": 2 }));
}

#[test]
fn counts_that_cannot_be_do_no_harm_and_a_wrong_reply_hides_no_earlier_one() {
    let fake = Fake::serve(|command| {
        let is_last = command.body.get_array("deletes").is_ok_and(|all| all.len() == 2);
        let errors = if is_last { Bson::Int32(5) } else { Bson::Array(Vec::new()) };
        let reply = doc! { "n": i64::MAX, "nModified": i64::MAX, "writeErrors": errors, "ok": 1.0 };
        Answer::Reply(reply)
    });
    on_core(async move {
        let client = client(&fake.address);
        let things = client.database("d").collection::<Document>("things");
        let mut writes = Vec::new();
        for _ in 0..3 {
            writes.push(WriteModel::insert_one(&doc! {}));
            writes.push(WriteModel::update_one(doc! {}, doc! { "$set": { "a": 1 } }));
            writes.push(WriteModel::delete_one(doc! {}));
        }
        writes.push(WriteModel::update_one(doc! {}, doc! { "$set": { "a": 1 } }));
        writes.extend([WriteModel::delete_one(doc! {}), WriteModel::delete_one(doc! {})]);
        let error = things.bulk_write(writes).await.expect_err("5 is no list");
        let done = error.bulk().expect("the earlier ones have been answered");
        assert_eq!((done.result.inserted, error.may_have_happened()), (u64::MAX, true));
    });
}

#[test]
fn one_time_is_over_all_commands_of_many_writes() {
    let (_held, never) = mpsc::channel::<()>();
    let never = Mutex::new(never);
    let slow = move |_: &Document| {
        let never = never.lock().expect("no panic");
        never.recv_timeout(Duration::from_millis(200)).expect_err("nothing is sent");
        doc! { "n": 1, "ok": 1.0 }
    };
    let commands = with_fake(slow, |things| async move {
        let writes = (0..4).map(|at| match at % 2 {
            0 => WriteModel::insert_one(&doc! { "_id": at }),
            _ => WriteModel::delete_one(doc! { "_id": at }),
        });
        let writes = things.bulk_write(writes).timeout(Duration::from_millis(300));
        let error = writes.await.expect_err("each command takes two thirds of it");
        assert!(error.is_timeout() && error.may_have_happened(), "{error}");
        assert!(error.to_string().contains("300ms"), "{error}");
    });
    assert!(commands.len() < 4, "{}", commands.len());
}

#[test]
fn what_writes_by_other_commands_has_the_concern_of_writes() {
    let answer = |_: &Document| last_batch(Vec::new());
    let commands = with_fake(answer, |things| async move {
        let mut concern = WriteConcern::default();
        concern.w = Some(Acknowledgment::Majority);
        let things = things.write_concern(&concern).expect("a concern");
        for last in ["$out", "$merge", "$match"] {
            things.aggregate([doc! { last: "other" }]).await.expect("done");
        }
        things.drop().await.expect("done");
        concern.w = Some(Acknowledgment::Nodes(2));
        let own = things.aggregate([doc! { "$out": "other" }]).write_concern(&concern);
        own.await.expect("done");
    });
    let concerns: Vec<_> =
        commands.iter().map(|it| it.get_document("writeConcern").ok().cloned()).collect();
    let majority = Some(doc! { "w": "majority" });
    assert_eq!(
        concerns,
        [majority.clone(), majority.clone(), None, majority, Some(doc! { "w": 2 })]
    );
}

/// Writes of `w=0` have no answer, but they were sent.
#[test]
fn writes_that_nobody_answers_may_have_happened_when_the_next_ones_fail() {
    let fake = Fake::serve(|_| Answer::Silence);
    on_core(async move {
        let client = client(&fake.address);
        let things: Collection<Document> = client.database("d").collection("c");
        let mut none = WriteConcern::default();
        none.w = Some(Acknowledgment::Nodes(0));
        let too_long = doc! { "text": "x".repeat(49 << 20) };
        let writes = || [WriteModel::delete_one(doc! {}), WriteModel::insert_one(&too_long)];
        let unanswered = things.write_concern(&none).expect("a concern");
        let error = unanswered.bulk_write(writes()).await.expect_err("the second is too long");
        assert!(error.may_have_happened() && error.bulk().is_none(), "{error}");
        let many = client.bulk_write(writes().map(|write| things.model(write)));
        let many = many.write_concern(&none).ordered(false);
        let error = many.await.expect_err("the second is too long");
        assert!(error.may_have_happened() && error.bulk().is_none(), "{error}");
        let alone = unanswered.bulk_write([WriteModel::insert_one(&too_long)]);
        assert!(!alone.await.expect_err("it is too long").may_have_happened());
    });
}
