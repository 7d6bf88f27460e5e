//! Operations against a real server.

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use ringway_mongo::{Client, Collection};
use serde::{Deserialize, Serialize};

use crate::support::ferret::Ferret;
use crate::support::{on_core, with_server};

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
struct Book {
    title: String,
    year: i32,
}

fn books() -> Vec<Book> {
    let book = |(title, year): (&str, i32)| Book { title: title.into(), year };
    [("Emma", 1815), ("Persuasion", 1817), ("Middlemarch", 1871)].map(book).to_vec()
}

#[test]
fn documents_are_written_read_changed_and_removed() {
    with_server(|client| async move {
        let shop = client.database("shop");
        shop.ping().await.expect("a server");
        let shelf: Collection<Book> = shop.collection("books");
        assert_eq!(shelf.insert_many(&books()).await.expect("written").inserted, 3);

        let emma = shelf.find_one(doc! { "title": "Emma" }).await.expect("read");
        assert_eq!(emma.as_ref(), books().first());
        let none = shelf.find_one(rawdoc! { "title": "Ulysses" }).await.expect("read");
        assert_eq!(none, None);
        let sorted = shelf.find(doc! { "year": { "$gt": 1815 } }).sort(doc! { "year": -1 });
        let sorted = sorted.await.expect("found").collect().await.expect("read");
        assert_eq!(sorted, [books()[2].clone(), books()[1].clone()]);
        let last = shelf.find_one(doc! {}).sort(doc! { "year": -1 }).await.expect("read");
        assert_eq!(last.as_ref(), books().last());
        let skipped = shelf.find(doc! {}).sort(doc! { "year": 1 }).skip(1).limit(1);
        assert_eq!(skipped.await.expect("found").collect().await.expect("read"), books()[1..2]);

        let changed = shelf.update_one(doc! { "title": "Emma" }, doc! { "$set": { "year": 1816 } });
        let changed = changed.await.expect("changed");
        assert_eq!((changed.matched, changed.modified, changed.upserted_id), (1, 1, None));
        let all =
            shelf.update_many(doc! {}, doc! { "$inc": { "year": 1 } }).await.expect("changed");
        assert_eq!((all.matched, all.modified), (3, 3));
        let upsert =
            shelf.update_one(doc! { "title": "Ulysses" }, doc! { "$set": { "year": 1922 } });
        let upsert = upsert.upsert(true).await.expect("written");
        assert_eq!((upsert.matched, upsert.modified), (0, 0));
        assert!(matches!(upsert.upserted_id, Some(Bson::ObjectId(_))));
        let replaced = shelf.replace_one(doc! { "title": "Ulysses" }, &books()[0]).await;
        assert_eq!(replaced.expect("replaced").modified, 1);

        assert_eq!(shelf.count_documents(doc! { "title": "Emma" }).await.expect("counted"), 2);
        assert_eq!(shelf.count_documents(doc! { "title": "x" }).await.expect("counted"), 0);
        let titles = shelf.distinct("title", doc! {}).await.expect("listed");
        assert_eq!(titles.len(), 3, "{titles:?}");
        assert_eq!(shelf.delete_one(doc! { "title": "Emma" }).await.expect("gone").deleted, 1);
        assert_eq!(shelf.delete_many(doc! {}).await.expect("gone").deleted, 3);
    });
}

#[test]
fn pipelines_group() {
    with_server(|client| async move {
        let shelf: Collection<Book> = client.database("shop").collection("books");
        shelf.insert_many(&books()).await.expect("written");
        let stages = [
            doc! { "$match": { "year": { "$lt": 1850 } } },
            doc! { "$group": { "_id": Bson::Null, "sum": { "$sum": "$year" } } },
        ];
        let sums = shelf.aggregate(stages).with_type::<Document>().await.expect("grouped");
        let sums = sums.collect().await.expect("read");
        assert_eq!(sums[0].get("sum"), Some(&Bson::Int32(1815 + 1817)));
    });
}

#[test]
fn errors_of_writes_are_errors() {
    with_server(|client| async move {
        let things: Collection<Document> = client.database("d").collection("things");
        let id = things.insert_one(&doc! { "_id": 7, "a": 1 }).await.expect("written");
        assert_eq!(id, Bson::Int32(7));
        let twice = things.insert_one(&doc! { "_id": 7 }).await.expect_err("the key is taken");
        assert!(twice.is_duplicate_key(), "{twice}");
        assert!(twice.may_have_happened(), "the command was executed");

        let three = [doc! { "_id": 8 }, doc! { "_id": 7 }, doc! { "_id": 9 }];
        let error = things.insert_many(&three).await.expect_err("the second key is taken");
        assert_eq!(error.server().map(|error| error.index), Some(1));
        assert_eq!(
            things.count_documents(doc! {}).await.expect("counted"),
            2,
            "the third was not tried"
        );
        let unordered = [doc! { "_id": 7 }, doc! { "_id": 9 }];
        let error =
            things.insert_many(&unordered).ordered(false).await.expect_err("a key is taken");
        assert!(error.is_duplicate_key());
        let done = error.bulk().expect("what has become of all");
        assert_eq!((done.write_errors.len(), done.write_errors[0].index), (1, 0));
        assert_eq!(done.result.inserted, 1);
        assert_eq!(things.count_documents(doc! {}).await.expect("counted"), 3);

        let unknown = client.database("d").run_command(doc! { "noSuchCommand": 1 }).await;
        let unknown = unknown.expect_err("no server knows it");
        assert_eq!(unknown.server().map(|error| error.code), Some(59), "{unknown}");
        assert!(!unknown.may_have_happened());
        let no_id = things.insert_one(&doc! { "b": 2 }).await.expect("written");
        let found =
            things.find_one(doc! { "_id": no_id }).await.expect("read").expect("it is there");
        assert_eq!(found.keys().next().map(String::as_str), Some("_id"));
    });
}

#[test]
fn cursors_go_from_batch_to_batch() {
    with_server(|client| async move {
        let many: Collection<RawDocumentBuf> = client.database("d").collection("many");
        let text = "x".repeat(1000);
        let documents: Vec<_> = (0..2500).map(|at| rawdoc! { "_id": at, "text": &*text }).collect();
        assert_eq!(many.insert_many(&documents).await.expect("written").inserted, 2500);
        let mut cursor =
            many.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(100).await.expect("found");
        let mut expected = 0..2500;
        while cursor.advance().await.expect("read") {
            assert_eq!(cursor.current().get_i32("_id").ok(), expected.next());
        }
        assert_eq!(expected.next(), None);
        assert!(!cursor.advance().await.expect("it stays at its end"));

        // One that is dropped early leaves its connection usable.
        let mut early = many.find(doc! {}).batch_size(10).await.expect("found");
        assert!(early.advance().await.expect("read"));
        drop(early);
        assert_eq!(many.count_documents(doc! {}).await.expect("counted"), 2500);
        assert_eq!(client.pool_counts().failed, 0);
    });
}

#[test]
fn large_documents_pass() {
    with_server(|client| async move {
        let large: Collection<Document> = client.database("d").collection("large");
        let text = "ä".repeat(4 << 20);
        large.insert_one(&doc! { "_id": 1, "text": &text }).await.expect("written");
        let back = large.find_one(doc! { "_id": 1 }).await.expect("read").expect("it is there");
        assert!(back.get_str("text").is_ok_and(|back| back == text));
    });
}

#[test]
fn a_wrong_type_names_its_field() {
    with_server(|client| async move {
        let shop = client.database("shop");
        shop.collection("books")
            .insert_one(&doc! { "title": "Emma", "year": "old" })
            .await
            .expect("written");
        let typed: Collection<Book> = shop.collection("books");
        let error = typed.find_one(doc! {}).await.expect_err("a year is a number");
        assert!(error.is_document() && error.to_string().contains("year"), "{error}");
        shop.ping().await.expect("the connection is whole");
        assert_eq!(client.pool_counts().made, 1);
    });
}

#[test]
fn many_operations_share_few_connections() {
    let Some(ferret) = Ferret::start() else { return };
    on_core(async move {
        let client = Client::new(crate::support::options(&ferret.address).pool_size_max(3));
        let numbers: Collection<Document> = client.database("d").collection("numbers");
        let tasks: Vec<_> = (0..60)
            .map(|at| {
                let numbers = numbers.clone();
                ringway_runtime::spawn(async move {
                    numbers.insert_one(&doc! { "_id": at }).await.expect("written");
                    let found = numbers.find_one(doc! { "_id": at }).await.expect("read");
                    assert_eq!(found, Some(doc! { "_id": at }));
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert!(client.pool_counts().made <= 3);
        assert_eq!(client.idle_connections() as u64, client.pool_counts().made);
    });
}
