//! How a server executes commands, asked of a server of the test and of FerretDB.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{
    Client, Collection, CursorType, Explain, ReadMode, ReadPreference, Verbosity, WriteConcern,
};

use crate::support::fake::{Answer, Fake, hello};
use crate::support::{on_core, options, with_server};

/// The command that a question is sent as, without what belongs to no command in particular.
fn sent(ask: impl FnOnce(&Collection<Document>) -> Explain + 'static) -> Document {
    let log = Arc::<Mutex<Vec<Document>>>::default();
    let kept = Arc::clone(&log);
    let fake = Fake::serve_all(move |command| {
        let mut hello = hello();
        hello.extend(doc! { "setName": "rs", "secondary": false });
        if command.name() == "explain" {
            kept.lock().expect("no panic").push(command.body.clone());
        }
        Answer::Reply(if command.name() == "hello" {
            hello
        } else {
            doc! { "plan": 7, "ok": 1.0 }
        })
    });
    on_core(async move {
        let client =
            Client::new(options(&format!("{}&w=2&readConcernLevel=majority", fake.address)));
        let answer = ask(&client.database("d").collection("books")).await.expect("answered");
        assert_eq!(answer, doc! { "plan": 7, "ok": 1.0 });
    });
    let [mut command] =
        <[Document; 1]>::try_from(std::mem::take(&mut *log.lock().expect("no panic")))
            .expect("one command");
    for name in ["lsid", "$db", "$readPreference"] {
        command.remove(name);
    }
    command
}

#[test]
fn reads_are_explained_with_their_options() {
    let find = sent(|books| {
        let find =
            books.find(doc! { "a": 1 }).sort(doc! { "b": -1 }).limit(5).batch_size(5).hint("a_1");
        let find = find.max_time(Duration::from_secs(2)).comment("of the query");
        find.explain(Verbosity::ExecutionStats).max_time(Duration::from_secs(3)).comment("why")
    });
    let explained = doc! {
        "find": "books", "filter": { "a": 1 }, "batchSize": 6_i64, "sort": { "b": -1 }, "limit": 5_i64,
        "hint": "a_1", "maxTimeMS": 2000_i64, "comment": "of the query",
    };
    let expected = doc! {
        "explain": explained, "verbosity": "executionStats", "maxTimeMS": 3000_i64, "comment": "why",
    };
    assert_eq!(find, expected);
    let tail = sent(|books| {
        books.find(doc! {}).cursor_type(CursorType::TailableAwait).explain(Verbosity::QueryPlanner)
    });
    let explained = doc! { "find": "books", "filter": {}, "tailable": true, "awaitData": true };
    assert_eq!(tail, doc! { "explain": explained, "verbosity": "queryPlanner" });
    let aggregate = sent(|books| {
        let stages = [doc! { "$match": { "a": 1 } }, doc! { "$out": "copies" }];
        let aggregate = books.aggregate(stages).allow_disk_use(true);
        let aggregate = aggregate.write_concern(&WriteConcern::default());
        aggregate.explain(Verbosity::AllPlansExecution)
    });
    let explained = doc! {
        "aggregate": "books", "pipeline": [{ "$match": { "a": 1 } }, { "$out": "copies" }], "cursor": {},
        "allowDiskUse": true,
    };
    assert_eq!(aggregate, doc! { "explain": explained, "verbosity": "allPlansExecution" });
}

#[test]
fn writes_are_explained_with_their_options() {
    let update = sent(|books| {
        let set = doc! { "$set": { "b": 2 } };
        books.update_many(doc! { "a": 1 }, set).upsert(true).explain(Verbosity::QueryPlanner)
    });
    let statement =
        doc! { "q": { "a": 1 }, "u": { "$set": { "b": 2 } }, "multi": true, "upsert": true };
    let explained = doc! { "update": "books", "updates": [statement] };
    assert_eq!(update, doc! { "explain": explained, "verbosity": "queryPlanner" });
    let delete = sent(|books| {
        books.delete_one(doc! { "a": 1 }).comment("c").explain(Verbosity::ExecutionStats)
    });
    let explained =
        doc! { "delete": "books", "deletes": [{ "q": { "a": 1 }, "limit": 1 }], "comment": "c" };
    assert_eq!(delete, doc! { "explain": explained, "verbosity": "executionStats" });
}

#[test]
fn reads_are_explained_where_they_would_be_read() {
    let command = Arc::<Mutex<Vec<Document>>>::default();
    let kept = Arc::clone(&command);
    let fake = Fake::serve_all(move |command| {
        kept.lock().expect("no panic").push(command.body.clone());
        let mut hello = hello();
        hello.extend(doc! { "msg": "isdbgrid" });
        Answer::Reply(hello)
    });
    let preferences = on_core(async move {
        let client = Client::new(options(&fake.address));
        let books: Collection<Document> = client.database("d").collection("books");
        let nearest = ReadPreference::new(ReadMode::Nearest);
        let find = books.find(doc! {}).read_preference(&nearest);
        find.explain(Verbosity::QueryPlanner).await.expect("answered");
        let delete = books.delete_one(doc! {});
        delete.explain(Verbosity::QueryPlanner).await.expect("answered");
        let asked = command.lock().expect("no panic").clone();
        let modes = asked.iter().filter(|it| it.contains_key("explain")).map(|it| {
            it.get_document("$readPreference")
                .ok()
                .and_then(|it| it.get_str("mode").ok())
                .map(str::to_owned)
        });
        modes.collect::<Vec<_>>()
    });
    assert_eq!(preferences, [Some("nearest".to_owned()), None]);
}

#[test]
fn what_cannot_be_encoded_is_an_error() {
    let fake = Fake::serve(|_| Answer::Silence);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let books: Collection<Document> = client.database("d").collection("books");
        let update = books.update_one(doc! {}, doc! { "no": "operator" });
        let error = update.explain(Verbosity::QueryPlanner).await.expect_err("no operator");
        assert!(error.is_document() && !error.may_have_happened(), "{error}");
        assert_eq!(fake.connections(), 0);
    });
}

#[test]
fn ferretdb_tells_its_plans() {
    with_server(|client| async move {
        let books: Collection<Document> = client.database("d").collection("books");
        books.insert_one(&doc! { "_id": 1, "a": 1 }).await.expect("written");
        let explains = [
            books.find(doc! { "_id": 1 }).explain(Verbosity::QueryPlanner),
            books.aggregate([doc! { "$match": { "_id": 1 } }]).explain(Verbosity::QueryPlanner),
            books
                .update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 2 } })
                .explain(Verbosity::QueryPlanner),
            books.delete_one(doc! { "_id": 1 }).explain(Verbosity::QueryPlanner),
        ];
        for explain in explains {
            let plan = explain.await.expect("answered");
            assert!(plan.get_document("queryPlanner").is_ok(), "{plan}");
        }
        let unchanged = books.find_one(doc! {}).await.expect("read");
        assert_eq!(unchanged, Some(doc! { "_id": 1, "a": 1 }));
    });
}
