//! GridFS, by the specification's tests and beyond them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::{Binary, Bson, Document, doc};
use ringway_mongo::{Client, Collection, GridFs, Result, WriteModel};

use crate::support::fake::{Answer, Fake, last_batch};
use crate::support::unified::{self, documents, from_hex, json};
use crate::support::{client, on_core, specs, with_server};

/// The specification's tests of GridFS that cannot be run, with reasons.
const LEFT_OUT: [(&str, &str); 0] = [];

/// What the tests of one file share.
struct Bucket {
    files: Collection<Document>,
    chunks: Collection<Document>,
    entities: unified::Entities,
    client: Client,
}

#[test]
fn specification_passes() {
    let Some(files) = specs::files("gridfs") else { return };
    with_server(|client| async move {
        let mut passed = 0;
        for (name, file) in files {
            let file = json(&file);
            for test in documents(&file, "tests") {
                let title = format!("{name}: {}", test.get_str("description").expect("a name"));
                if LEFT_OUT.iter().any(|(left_out, _)| *left_out == title) {
                    continue;
                }
                let mut bucket = Bucket::prepare(&client, &file).await;
                for operation in documents(test, "operations") {
                    bucket.check(&title, operation).await;
                }
                for outcome in documents(test, "outcome") {
                    let collection =
                        bucket.collection(outcome.get_str("collectionName").expect("it"));
                    let found = collection.find(doc! {}).sort(doc! { "_id": 1 }).await;
                    let found = found.expect("found").collect().await.expect("read");
                    let found: Bson = found.into_iter().map(Bson::from).collect::<Vec<_>>().into();
                    bucket.matches(&title, &outcome["documents"], &found);
                }
                passed += 1;
            }
        }
        println!("gridfs: {passed} passed");
        assert_eq!(passed, 39 - LEFT_OUT.len());
    });
}

impl Bucket {
    async fn prepare(client: &Client, file: &Document) -> Self {
        let database = client.database("gridfs-tests");
        let (files, chunks) = (database.collection("fs.files"), database.collection("fs.chunks"));
        let bucket =
            Self { files, chunks, entities: unified::Entities::new(), client: client.clone() };
        for data in documents(file, "initialData") {
            let collection = bucket.collection(data.get_str("collectionName").expect("it"));
            collection.drop().await.expect("gone");
            let initial: Vec<_> = documents(data, "documents").cloned().collect();
            if !initial.is_empty() {
                collection.insert_many(&initial).await.expect("written");
            }
        }
        bucket
    }

    fn collection(&self, name: &str) -> &Collection<Document> {
        if name.contains("chunks") { &self.chunks } else { &self.files }
    }

    async fn check(&mut self, title: &str, operation: &Document) {
        let nothing = Document::new();
        let arguments = operation.get_document("arguments").unwrap_or(&nothing);
        let object = operation.get_str("object").expect("an object");
        let name = operation.get_str("name").expect("a name");
        let result = match object {
            "bucket0" => self.run(name, arguments).await,
            _ => prepare_data(self.collection(object), name, arguments).await,
        };
        if operation.contains_key("expectError") {
            let error = result.expect_err(title);
            assert!(error.server().is_none(), "{title}: it is no error of the client: {error}");
            return;
        }
        let result = result.unwrap_or_else(|error| panic!("{title}: {name}: {error}"));
        if let Some(expected) = operation.get("expectResult") {
            self.matches(title, expected, &result);
        }
        if let Ok(entity) = operation.get_str("saveResultAsEntity") {
            self.entities.insert(entity.to_owned(), result);
        }
    }

    async fn run(&self, name: &str, arguments: &Document) -> Result<Bson> {
        let mut bucket = self.client.database("gridfs-tests").gridfs();
        if let Ok(size) = arguments.get_i32("chunkSizeBytes") {
            bucket = bucket.chunk_size(size.try_into().expect("a size"));
        }
        let id = || arguments.get("id").expect("an id").clone();
        let text = |name| arguments.get_str(name).expect("a text");
        match name {
            "upload" => upload(&bucket, arguments).await,
            "download" => Ok(bytes(bucket.download(id()).await?)),
            "downloadByName" => {
                let revision = arguments.get_i32("revision").unwrap_or(-1);
                let file = bucket.open_by_name(text("filename"), revision).await?;
                Ok(bytes(file.read_to_end().await?))
            }
            "delete" => bucket.delete(id()).await.map(|()| Bson::Null),
            "deleteByName" => bucket.delete_by_name(text("filename")).await.map(|()| Bson::Null),
            "rename" => bucket.rename(id(), text("newFilename")).await.map(|()| Bson::Null),
            "renameByName" => {
                let renamed = bucket.rename_by_name(text("filename"), text("newFilename"));
                renamed.await.map(|()| Bson::Null)
            }
            other => panic!("unknown operation {other}"),
        }
    }

    fn matches(&self, title: &str, expected: &Bson, actual: &Bson) {
        if let Err(why) = unified::matches(&self.entities, expected, actual) {
            panic!("{title}: {why}");
        }
    }
}

async fn upload(bucket: &GridFs, arguments: &Document) -> Result<Bson> {
    let mut upload = bucket.begin(arguments.get_str("filename").expect("a name"));
    if let Ok(metadata) = arguments.get_document("metadata") {
        upload = upload.metadata(metadata.clone());
    }
    let source = arguments.get_document("source").expect("a source");
    upload.write(&from_hex(source.get_str("$$hexBytes").expect("bytes"))).await?;
    upload.finish().await
}

/// What the tests do to the collections behind the bucket.
async fn prepare_data(
    collection: &Collection<Document>,
    name: &str,
    arguments: &Document,
) -> Result<Bson> {
    let filter = || arguments.get_document("filter").expect("a filter").clone();
    let update = |of: &Document| of.get_document("update").expect("an update").clone();
    Ok(match name {
        "find" => {
            let sort = arguments.get_document("sort").cloned().unwrap_or_default();
            let found = collection.find(filter()).sort(sort).await?.collect().await?;
            found.into_iter().map(Bson::from).collect::<Vec<_>>().into()
        }
        "deleteOne" => {
            let gone = collection.delete_one(filter()).await?.deleted;
            doc! { "deletedCount": i64::try_from(gone).expect("few") }.into()
        }
        "updateOne" => {
            let done = collection.update_one(filter(), update(arguments)).await?;
            counts(done.matched, done.modified)
        }
        "bulkWrite" => {
            let writes = documents(arguments, "requests").map(|request| {
                let one = request.get_document("updateOne").expect("an update");
                let filter = one.get_document("filter").expect("a filter").clone();
                WriteModel::update_one(filter, update(one))
            });
            let done = collection.bulk_write(writes).await?;
            counts(done.matched, done.modified)
        }
        other => panic!("unknown operation {other}"),
    })
}

fn counts(matched: u64, modified: u64) -> Bson {
    let [matched, modified] = [matched, modified].map(|n| i64::try_from(n).expect("few"));
    doc! { "matchedCount": matched, "modifiedCount": modified }.into()
}

fn bytes(bytes: Vec<u8>) -> Bson {
    Binary { subtype: bson::spec::BinarySubtype::Generic, bytes }.into()
}

#[test]
fn files_are_written_and_read_in_parts() {
    with_server(|client| async move {
        let bucket = client.database("d").gridfs_bucket("covers").chunk_size(1000);
        let content: Vec<u8> = (0..10_500_u32).map(|at| (at % 251) as u8).collect();
        let mut upload = bucket.begin("emma").metadata(doc! { "year": 1815 });
        for part in content.chunks(333) {
            upload.write(part).await.expect("written");
        }
        let id = upload.finish().await.expect("written");
        assert_eq!(bucket.download(id.clone()).await.expect("read"), content);

        let file = bucket.open(id.clone()).await.expect("it is there");
        assert_eq!((file.file().length, file.file().name.as_deref()), (10_500, Some("emma")));
        for (from, to) in [(0, 1), (999, 1001), (1000, 2000), (10_499, 99_999), (7, 7), (20_000, 9)]
        {
            let file = bucket.open(id.clone()).await.expect("it is there").range(from..to);
            let part = file.read_to_end().await.expect("read");
            let to = to.min(10_500) as usize;
            assert_eq!(part, content[(from as usize).min(to)..to], "{from}..{to}");
        }
        let chunks: Collection<Document> = client.database("d").collection("covers.chunks");
        assert_eq!(
            chunks.list_indexes().await.expect("asked").collect().await.expect("2").len(),
            2
        );
        chunks.delete_one(doc! { "n": 5 }).await.expect("gone");
        let lost = bucket.download(id.clone()).await.expect_err("a chunk is missing");
        assert!(lost.is_document() && lost.to_string().contains("chunk 5"), "{lost}");

        let mut given_up = bucket.begin("persuasion");
        given_up.write(&content).await.expect("written");
        given_up.abort().await.expect("removed");
        assert_eq!(chunks.count_documents(doc! {}).await.expect("counted"), 10);
        bucket.delete(id.clone()).await.expect("gone");
        assert!(bucket.open(id).await.expect_err("it is gone").is_not_found());
        assert_eq!(chunks.count_documents(doc! {}).await.expect("counted"), 0);
    });
}

#[test]
fn a_file_that_cannot_be_written_leaves_those_of_others() {
    with_server(|client| async move {
        let bucket = client.database("d").gridfs().chunk_size(4);
        let mut first = bucket.begin("first").id("taken");
        first.write(b"nine byte").await.expect("room");
        first.finish().await.expect("a new file");
        let empty = bucket.begin("empty").id("no bytes");
        empty.finish().await.expect("a new file");

        let mut second = bucket.begin("second").id("taken");
        second.write(b"other bytes").await.expect_err("the first chunk is there already");
        let late = second.write(b"more").await.expect_err("nothing can be behind a gap");
        assert!(!late.may_have_happened(), "{late}");
        second.abort().await.expect("nothing is to be removed");
        let third = bucket.begin("third").id("taken");
        third.finish().await.expect_err("there is such a file");
        assert_eq!(bucket.download("taken").await.expect("untouched"), b"nine byte");
    });
}

#[test]
fn nothing_is_written_behind_a_chunk_that_could_not_be_begun() {
    let asked = AtomicUsize::new(0);
    let fake = Fake::serve(move |command| match command.name() {
        "find" if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            Answer::Reply(doc! { "ok": 0.0, "code": 13, "errmsg": "not yet" })
        }
        "find" => Answer::Reply(last_batch(Vec::new())),
        _ => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
    });
    on_core(async move {
        let bucket = client(&fake.address).database("d").gridfs().chunk_size(4);
        let mut upload = bucket.begin("f");
        upload.write(b"a part of it").await.expect_err("the server refuses to look for files");
        let late = upload.write(b"the rest").await.expect_err("nothing can be behind a gap");
        assert!(late.is_options() && !late.may_have_happened(), "{late}");
        assert!(upload.finish().await.expect_err("nor a file").is_options());
    });
}

#[test]
fn the_chunks_of_a_file_that_may_be_there_stay() {
    for (is_answered, removals) in [(true, 1), (false, 0)] {
        let removed = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&removed);
        let fake = Fake::serve(move |command| match command.name() {
            "find" => Answer::Reply(last_batch(Vec::new())),
            "delete" => {
                seen.fetch_add(1, Ordering::SeqCst);
                Answer::Reply(doc! { "n": 1, "ok": 1.0 })
            }
            "insert" if command.body.get_str("insert").ok() == Some("fs.files") => {
                match is_answered {
                    true => Answer::Reply(doc! {
                        "n": 0, "ok": 1.0, "writeErrors": [{ "index": 0, "code": 11000, "errmsg": "is there" }],
                    }),
                    false => Answer::End(Vec::new()),
                }
            }
            _ => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
        });
        on_core(async move {
            let bucket = client(&fake.address).database("d").gridfs();
            let error = bucket.upload("f", b"content").await.expect_err("no confirmation");
            assert_eq!(error.is_network(), !is_answered, "{error}");
        });
        assert_eq!(removed.load(Ordering::SeqCst), removals);
    }
}
