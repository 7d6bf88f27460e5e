//! Operations beyond reading and writing documents one by one, against a real server.

use bson::{Document, doc};
use ringway_mongo::{Collection, IndexModel, ReturnDocument, WriteModel};

use crate::support::with_server;

fn numbers() -> Vec<Document> {
    (1..=4).map(|number| doc! { "_id": number, "x": number * 11 }).collect()
}

#[test]
fn a_document_is_changed_and_returned() {
    with_server(|client| async move {
        let things: Collection<Document> = client.database("d").collection("things");
        let written = things.insert_many(&numbers()).await.expect("written");
        assert_eq!(written.ids, [1.into(), 2.into(), 3.into(), 4.into()]);

        let change = || things.find_one_and_update(doc! { "_id": 1 }, doc! { "$inc": { "x": 1 } });
        assert_eq!(change().await.expect("changed"), Some(doc! { "_id": 1, "x": 11 }));
        let after = change().return_document(ReturnDocument::After);
        assert_eq!(after.await.expect("changed"), Some(doc! { "_id": 1, "x": 13 }));
        let last = things.find_one_and_delete(doc! {}).sort(doc! { "_id": -1 });
        assert_eq!(last.await.expect("gone"), Some(doc! { "_id": 4, "x": 44 }));
        let replaced = things.find_one_and_replace(doc! { "_id": 9 }, &doc! { "x": 99 });
        let replaced = replaced.upsert(true).return_document(ReturnDocument::After);
        assert_eq!(replaced.await.expect("written"), Some(doc! { "_id": 9, "x": 99 }));
        assert_eq!(things.find_one_and_delete(doc! { "_id": 77 }).await.expect("asked"), None);
        assert_eq!(things.estimated_document_count().await.expect("counted"), 4);
    });
}

#[test]
fn updates_and_replacements_are_not_mistaken_for_each_other() {
    with_server(|client| async move {
        let things: Collection<Document> = client.database("d").collection("things");
        let whole = things.update_one(doc! {}, doc! { "x": 1 }).await.expect_err("no operator");
        assert!(whole.is_document() && whole.to_string().contains("replace_one"), "{whole}");
        let operators = things.replace_one(doc! {}, &doc! { "$set": { "x": 1 } }).await;
        let operators = operators.expect_err("an operator");
        assert!(operators.to_string().contains("update_one"), "{operators}");
        let empty = things.update_many(doc! {}, Vec::<Document>::new()).await;
        assert!(empty.expect_err("no stage").is_document());
        assert_eq!(client.pool_counts().made, 0, "nothing was sent");
    });
}

#[test]
fn many_writes_at_once() {
    with_server(|client| async move {
        let things: Collection<Document> = client.database("d").collection("things");
        let writes = [
            WriteModel::insert_one(&doc! { "_id": 1, "x": 1 }),
            WriteModel::insert_one(&doc! { "_id": 2, "x": 2 }),
            WriteModel::update_many(doc! {}, doc! { "$inc": { "x": 10 } }),
            WriteModel::update_one(doc! { "_id": 3 }, doc! { "$set": { "x": 3 } }).upsert(true),
            WriteModel::replace_one(doc! { "_id": 1 }, &doc! { "y": 1 }),
            WriteModel::delete_one(doc! { "_id": 2 }),
            WriteModel::delete_many(doc! { "z": 1 }),
        ];
        let done = things.bulk_write(writes).await.expect("done");
        assert_eq!((done.inserted, done.matched, done.modified, done.deleted), (2, 3, 3, 1));
        // FerretDB tells a wrong position with it.
        assert_eq!(done.upserted_ids.into_values().collect::<Vec<_>>(), [3.into()]);

        let writes = || {
            [
                WriteModel::insert_one(&doc! { "_id": 1 }),
                WriteModel::delete_one(doc! { "_id": 3 }),
                WriteModel::insert_one(&doc! { "_id": 3 }),
                WriteModel::insert_one(&doc! { "_id": 3 }),
            ]
        };
        let failed = things.bulk_write(writes()).await.expect_err("the first key is taken");
        let done = failed.bulk().expect("what was done");
        assert_eq!((done.write_errors.len(), done.result.deleted), (1, 0));
        let failed = things.bulk_write(writes()).ordered(false).await;
        let failed = failed.expect_err("keys are taken");
        assert!(failed.is_duplicate_key() && failed.may_have_happened());
        let done = failed.bulk().expect("what was done");
        let mut positions: Vec<_> = done.write_errors.iter().map(|error| error.index).collect();
        positions.sort_unstable();
        // Without an order the inserts may come before the removal.
        assert_eq!(positions, [0, 2, 3]);
        assert_eq!((done.result.inserted, done.result.deleted), (0, 1));
        let nothing = things.bulk_write([]).await.expect_err("there is nothing to do");
        assert!(nothing.is_options());
    });
}

#[test]
fn indexes_are_made_listed_and_removed() {
    with_server(|client| async move {
        let things: Collection<Document> = client.database("d").collection("things");
        let by_x = IndexModel::new(doc! { "x": 1, "y": -1 }).unique(true);
        assert_eq!(things.create_index(by_x).await.expect("made"), "x_1_y_-1");
        let named = IndexModel::new(doc! { "z": 1 }).name("zed");
        assert_eq!(things.create_indexes([named]).await.expect("made"), ["zed"]);
        let listed = things.list_indexes().await.expect("asked").collect().await.expect("listed");
        let names: Vec<_> = listed.iter().filter_map(|index| index.get_str("name").ok()).collect();
        assert_eq!(names, ["_id_", "x_1_y_-1", "zed"]);

        things.insert_one(&doc! { "x": 1, "y": 1 }).await.expect("written");
        let twice = things.insert_one(&doc! { "x": 1, "y": 1 }).await.expect_err("it is unique");
        assert!(twice.is_duplicate_key());
        things.drop_index("zed").await.expect("removed");
        assert!(things.drop_index("zed").await.expect_err("it is gone").server().is_some());
        assert!(things.drop_index("*").await.expect_err("not a name").is_document());
        things.drop_indexes().await.expect("removed");
        let left = things.list_indexes().await.expect("asked").collect().await.expect("listed");
        assert_eq!(left.len(), 1);
    });
}

#[test]
fn collections_and_databases_are_listed() {
    with_server(|client| async move {
        let shop = client.database("shop");
        shop.create_collection("log").capped(1 << 20).await.expect("made");
        shop.create_collection("books").await.expect("made");
        let mut names = shop.list_collection_names().await.expect("listed");
        names.sort();
        assert_eq!(names, ["books", "log"]);
        let listed = shop.list_collections(doc! { "name": "log" }).await.expect("asked");
        let listed = listed.collect().await.expect("listed");
        let options = listed[0].get_document("options").expect("its options");
        assert_eq!((listed.len(), options.get_bool("capped").ok()), (1, Some(true)));
        assert!(client.list_database_names().await.expect("listed").contains(&"shop".to_owned()));

        let books: Collection<Document> = shop.collection("books");
        books.drop().await.expect("gone");
        books.drop().await.expect("it is no error that it was gone");
        assert_eq!(shop.list_collection_names().await.expect("listed"), ["log"]);
        shop.drop().await.expect("gone");
        assert!(!client.list_database_names().await.expect("listed").contains(&"shop".to_owned()));
    });
}
