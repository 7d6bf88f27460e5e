//! GridFS, by the specification's tests and beyond them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use ringway_mongo::Collection;

use crate::support::fake::{Answer, Fake, last_batch};
use crate::support::ferret::Ferret;
use crate::support::runner::Runner;
use crate::support::{client, on_core, specs, suite_on_core, with_server};

#[test]
fn specification_passes() {
    let Some(files) = specs::files("gridfs") else { return };
    let Some(ferret) = Ferret::start() else { return };
    suite_on_core(async move {
        let tally = Runner::plain(&ferret.address, &ferret.place).run_all(files).await;
        let parts = ("nobody expects Some(\"n\")", "chunks are asked for by their numbers as well");
        tally.check("gridfs", &[parts]);
        assert_eq!(tally.passed, 44);
    });
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
    let counted = |n: i32| doc! { "n": n, "ok": 1.0 };
    let is_there = doc! { "index": 0, "code": 11000, "errmsg": "is there" };
    let mut taken = counted(0);
    taken.insert("writeErrors", vec![is_there]);
    let mut unconfirmed = counted(1);
    unconfirmed
        .insert("writeConcernError", doc! { "code": 64, "errmsg": "not replicated in time" });
    for (answer, removals) in [(Some(taken), 1), (Some(unconfirmed), 0), (None, 0)] {
        let is_answered = answer.is_some();
        let removed = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&removed);
        let fake = Fake::serve(move |command| match command.name() {
            "find" => Answer::Reply(last_batch(Vec::new())),
            "delete" => {
                seen.fetch_add(1, Ordering::SeqCst);
                Answer::Reply(doc! { "n": 1, "ok": 1.0 })
            }
            "insert" if command.body.get_str("insert").ok() == Some("fs.files") => {
                answer.clone().map_or(Answer::End(Vec::new()), Answer::Reply)
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

#[test]
fn reading_goes_on_where_a_connection_broke() {
    let looked = Arc::<Mutex<Vec<Document>>>::default();
    let seen = Arc::clone(&looked);
    let chunk = |n: i32| {
        let bytes = Binary { subtype: BinarySubtype::Generic, bytes: vec![b'0' + n as u8] };
        doc! { "_id": n, "files_id": 1, "n": n, "data": bytes }
    };
    let fake = Fake::serve(move |command| match command.name() {
        "find" if command.body.get_str("find").ok() == Some("fs.files") => {
            let file = doc! { "_id": 1, "length": 2, "chunkSize": 1 };
            Answer::Reply(last_batch(vec![file]))
        }
        "find" => {
            let numbers = command.body.get_document("filter").expect("one").get_document("n");
            let numbers = numbers.expect("those that are wanted").clone();
            let from = numbers.get_i64("$gte").expect("the first");
            seen.lock().expect("no panic").push(numbers);
            match from {
                0 => {
                    let cursor =
                        doc! { "id": 7_i64, "ns": "d.fs.chunks", "firstBatch": [chunk(0)] };
                    Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
                }
                _ => Answer::Reply(last_batch(vec![chunk(1)])),
            }
        }
        "getMore" => Answer::End(Vec::new()),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let mut file = client(&fake.address).database("d").gridfs().open(1).await.expect("one");
        assert_eq!(file.read().await.expect("the first chunk"), Some(b"0".to_vec()));
        let broken = file.read().await.expect_err("the connection has ended");
        assert!(broken.is_network(), "{broken}");
        assert_eq!(file.read().await.expect("the second chunk"), Some(b"1".to_vec()));
        assert_eq!(file.read().await.expect("the end"), None);
        let of = |from: i64| doc! { "$gte": from, "$lte": 1_i64 };
        assert_eq!(*looked.lock().expect("no panic"), [of(0), of(1)]);
    });
}

/// A file whose document is gone is no file any more, whatever becomes of its chunks.
#[test]
fn a_removal_whose_chunks_cannot_be_removed_has_happened() {
    let fake = Fake::serve(|command| match command.body.get_str("delete") {
        Ok("fs.files") => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
        _ => Answer::Reply(doc! { "ok": 0.0, "code": 13, "errmsg": "as the test wants" }),
    });
    on_core(async move {
        let bucket = client(&fake.address).database("d").gridfs();
        let error = bucket.delete(7).await.expect_err("nobody may remove chunks");
        assert_eq!(error.server().map(|error| error.code), Some(13));
        assert!(error.may_have_happened(), "{error}");
    });
}

/// Whatever the error itself says of its own command.
#[test]
fn a_removal_of_several_that_ends_in_the_middle_has_happened() {
    let fake = Fake::serve(|command| {
        let refused = || Answer::Reply(doc! { "ok": 0.0, "code": 13, "errmsg": "of the test" });
        match (command.name(), command.body.get_str("drop")) {
            ("find", _) => {
                let first = doc! { "_id": 1 };
                let cursor = doc! { "id": 7_i64, "ns": "d.fs.files", "firstBatch": [first] };
                Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
            }
            ("delete", _) => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
            ("drop", Ok("fs.files")) => Answer::Reply(doc! { "ok": 1.0 }),
            _ => refused(),
        }
    });
    on_core(async move {
        let bucket = client(&fake.address).database("d").gridfs();
        let error = bucket.delete_by_name("f").await.expect_err("there is no second batch");
        assert_eq!(error.server().map(|error| error.code), Some(13));
        assert!(error.may_have_happened(), "the first file is gone: {error}");
        let error = bucket.drop().await.expect_err("the chunks stay");
        assert_eq!(error.server().map(|error| error.code), Some(13));
        assert!(error.may_have_happened(), "the files are gone: {error}");
    });
}
