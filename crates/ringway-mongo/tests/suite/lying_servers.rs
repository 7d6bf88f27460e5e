//! Servers that say of themselves more than there is to know, and what goes on when asking them fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use ringway_mongo::{Client, WriteModel};

use crate::support::fake::{Answer, Fake, hello, raw_reply};
use crate::support::{on_core, options};

/// What is printed of a deployment of one server at most.
const PRINTED_MAX: usize = 4 << 10;

/// The error of a ping at a server that answers `hello` so, as text, and what is known of the server.
fn asked(answer: impl Fn() -> Answer + Send + Sync + 'static) -> (String, String) {
    let fake = Fake::serve_all(move |_| answer());
    on_core(async move {
        let address = format!("mongodb://{}", fake.place);
        let client = Client::new(options(&address).selection_timeout(Duration::from_secs(1)));
        let error = client.database("d").ping().await.expect_err("it cannot be used").to_string();
        (error, format!("{:?}", client.servers()))
    })
}

#[test]
fn a_refusal_without_end_is_cut() {
    let words = "no ".repeat(1 << 14);
    let (error, servers) =
        asked(move || Answer::Reply(doc! { "ok": 0.0, "code": 1, "errmsg": &words }));
    assert!(error.contains("no no") && error.len() < PRINTED_MAX, "{} bytes", error.len());
    assert!(servers.len() < PRINTED_MAX, "{} bytes", servers.len());
}

#[test]
fn a_description_without_end_is_refused() {
    let (hosts, tags) = (vec!["a.b:1".to_owned(); 1 << 18], "t".repeat(4 << 20));
    for (name, value) in [("hosts", bson::bson!(hosts)), ("tags", bson::bson!({ "t": tags }))] {
        let (error, servers) = asked(move || {
            let mut hello = hello();
            hello.insert("setName", "rs");
            hello.insert(name, value.clone());
            Answer::Reply(hello)
        });
        assert!(error.len() < PRINTED_MAX, "{} bytes", error.len());
        assert!(servers.len() < PRINTED_MAX, "{} bytes", servers.len());
        assert!(error.contains("bytes"), "it says why: {error}");
    }
}

#[test]
fn members_that_are_no_places_in_a_network_are_left_out() {
    let fake = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let own = Arc::clone(&fake);
    let server = Fake::serve_all(move |command| {
        let mut hello = hello();
        let place = own.get().expect("it is known before anybody comes").clone();
        let long = format!("{}:1", "long.".repeat(1 << 10));
        hello.insert("setName", "rs");
        hello.insert(
            "hosts",
            vec![place, "/run/other.sock".into(), "%2Frun%2Fa".into(), long, "a b:1".into()],
        );
        Answer::Reply(if command.name() == "hello" {
            hello
        } else {
            doc! { "ok": 1.0 }
        })
    });
    fake.set(server.place.clone()).expect("once");
    on_core(async move {
        let client = Client::new(options(&format!("mongodb://{}/?replicaSet=rs", server.place)));
        client.database("d").ping().await.expect("it is the primary");
        assert_eq!(client.servers().len(), 1, "{:?}", client.servers());
    });
}

#[test]
fn a_member_that_has_another_name_is_left_alone() {
    let fake = Fake::serve_all(|command| match command.name() {
        "hello" => {
            let mut hello = hello();
            hello.insert("setName", "rs");
            hello.insert("isWritablePrimary", false);
            hello.insert("secondary", true);
            hello.insert("me", "elsewhere.invalid:1");
            hello.insert("hosts", ["elsewhere.invalid:1"].map(str::to_owned).to_vec());
            Answer::Reply(hello)
        }
        _ => Answer::Silence,
    });
    on_core(async move {
        let limit = Duration::from_secs(1);
        let address = format!("mongodb://{}/?replicaSet=rs", fake.place);
        let client = Client::new(options(&address).selection_timeout(limit));
        client.database("d").ping().await.expect_err("the other one cannot be reached");
        while fake.ended() < fake.connections() {
            ringway_runtime::yield_now().await;
        }
        assert_eq!((fake.connections(), client.servers().len()), (1, 1), "it is not asked again");
    });
}

/// Panics once, at an event of this crate.
struct Panics(Arc<AtomicBool>);

impl tracing::Subscriber for Panics {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("ringway_mongo::deployment")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        assert!(self.0.swap(true, Ordering::SeqCst), "as the test wants");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_server_is_asked_again_after_a_panic() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let fake = Fake::serve_all(move |command| match (command.name(), up.load(Ordering::SeqCst)) {
        (_, false) => Answer::End(Vec::new()),
        ("hello", true) => Answer::Reply(hello()),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let has_panicked = Arc::new(AtomicBool::new(false));
        let _there = tracing::subscriber::set_default(Panics(Arc::clone(&has_panicked)));
        let client = Client::new(options(&format!("mongodb://{}", fake.place)));
        let database = client.database("d");
        let ping = ringway_runtime::spawn(async move { database.ping().await });
        while !has_panicked.load(Ordering::SeqCst) {
            ringway_runtime::yield_now().await;
        }
        is_up.store(true, Ordering::SeqCst);
        ping.await.expect("no panic").expect("somebody asks it");
    });
}

#[test]
fn servers_that_greet_and_then_hang_up_end_an_operation_without_a_time() {
    let fake = Fake::serve_all(|command| match command.connection {
        0 => Answer::Reply(hello()),
        _ => Answer::End(Vec::new()),
    });
    on_core(async move {
        let options = options(&format!("mongodb://{}", fake.place)).timeout(Duration::MAX);
        let client = Client::new(options.selection_timeout(Duration::from_secs(1)));
        let error = client.database("d").ping().await.expect_err("nobody can be greeted");
        assert!(error.is_network() && !error.may_have_happened(), "{error}");
        assert!(error.to_string().contains("broke before its reply came"), "it says why: {error}");
    });
}

/// A document of so many levels, without recursion.
fn deep(levels: i32) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    for inner in (0..=levels).rev() {
        bytes.extend_from_slice(&(5 + 8 * inner).to_le_bytes());
        if inner > 0 {
            bytes.extend_from_slice(b"\x03a\0");
        }
    }
    bytes.resize(5 + 8 * levels as usize, 0);
    RawDocumentBuf::from_bytes(bytes).expect("a document")
}

#[test]
fn an_id_without_end_is_refused() {
    let answer = rawdoc! { "ok": 1.0, "n": 1, "upserted": [{ "index": 0, "_id": deep(1 << 20) }] };
    let fake = Fake::serve(move |command| Answer::Bytes(raw_reply(command.id, &answer)));
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let things = client.database("d").collection::<Document>("c");
        let set = || doc! { "$set": { "a": 1 } };
        let one = things.update_one(doc! {}, set()).upsert(true).await.expect_err("too deep");
        assert!(one.is_protocol() && one.may_have_happened(), "{one}");
        let many = things.bulk_write([WriteModel::update_one(doc! {}, set()).upsert(true)]).await;
        assert!(many.expect_err("too deep").is_protocol());
    });
}
