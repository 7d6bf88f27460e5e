//! Causal consistency, snapshots, and the time of the cluster: the tests in prose of the specifications "Causal
//! Consistency" and "Driver Sessions", against servers of the test.

use std::sync::{Arc, Mutex};

use bson::{Document, RawDocumentBuf, Timestamp, doc};
use ringway_mongo::{
    Client, ClientSession, Collection, CommandPhase, ReadConcern, TransactionOptions, WriteModel,
};

use crate::support::fake::{Answer, Command, Fake, last_batch};
use crate::support::replica_set::{ReplicaSet, SetState};
use crate::support::{on_core, options};

fn at(increment: u32) -> Timestamp {
    Timestamp { time: 1_700_000_000, increment }
}

fn cluster_time(increment: u32) -> Document {
    doc! { "clusterTime": at(increment), "signature": { "hash": "of the test", "keyId": 1_i64 } }
}

/// Answers properly, at a time that each command advances.
fn proper(state: &mut SetState, _: usize, command: &Command) -> Answer {
    let now = u32::try_from(state.log.len()).expect("few");
    let mut reply = match command.name() {
        "find" | "aggregate" => doc! {
            "cursor": { "id": 0_i64, "ns": "d.c", "firstBatch": [{ "n": 1 }], "atClusterTime": at(now) },
            "ok": 1.0,
        },
        "distinct" => doc! { "values": [1], "atClusterTime": at(now), "ok": 1.0 },
        "count" => doc! { "n": 1, "ok": 1.0 },
        "delete" => doc! { "ok": 0.0, "code": 72, "errmsg": "as the test wants" },
        _ => doc! { "n": 1, "nModified": 1, "ok": 1.0 },
    };
    reply.insert("operationTime", at(now));
    reply.insert("$clusterTime", cluster_time(now));
    Answer::Reply(reply)
}

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("c")
}

/// The commands of this name that a set has got, and forgets all.
fn take(set: &ReplicaSet, name: &str) -> Vec<Document> {
    let got = set.got(name).into_iter().map(|(_, body)| body).collect();
    set.state().log.clear();
    got
}

fn concern(command: &Document) -> Option<Document> {
    command.get_document("readConcern").ok().cloned()
}

async fn read(client: &Client, session: &ClientSession) {
    things(client).find_one(doc! {}).session(session).await.expect("found");
}

fn with_set(test: impl AsyncFn(ReplicaSet, Client) + 'static) {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        test(set, client).await;
    });
}

#[test]
fn a_session_reads_what_it_has_seen() {
    with_set(async |set, client| {
        let session = client.start_session();
        assert_eq!(session.operation_time(), None);
        read(&client, &session).await;
        assert_eq!(session.operation_time(), Some(at(1)));
        things(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
        assert_eq!(session.operation_time(), Some(at(2)));
        things(&client)
            .delete_one(doc! {})
            .session(&session)
            .await
            .expect_err("the server says so, and when");
        assert_eq!(session.operation_time(), Some(at(3)));
        let things = things(&client);
        read(&client, &session).await;
        things.aggregate([doc! { "$match": {} }]).session(&session).await.expect("aggregated");
        things.distinct("n", doc! {}).session(&session).await.expect("found");
        things.count_documents(doc! {}).session(&session).await.expect("counted");
        let log: Vec<_> = set.state().log.iter().map(|(_, body)| body.clone()).collect();
        let concerns: Vec<_> = log.iter().map(concern).collect();
        let after = |time| Some(doc! { "afterClusterTime": at(time) });
        // The writes are behind what was seen, too.
        let expected = [None, after(1), after(2), after(3), after(4), after(5), after(6)];
        assert_eq!(concerns, expected);
    });
}

#[test]
fn a_session_writes_behind_what_it_has_seen() {
    with_set(async |set, client| {
        let majority = ReadConcern { level: "majority".into() };
        let things = things(&client).read_concern(&majority);
        let session = client.start_session();
        read(&client, &session).await;
        set.state().log.clear();
        let update = || doc! { "$set": { "n": 1 } };
        things.insert_one(&doc! {}).session(&session).await.expect("inserted");
        things.update_many(doc! {}, update()).session(&session).await.expect("updated");
        things.find_one_and_update(doc! {}, update()).session(&session).await.expect("updated");
        let models = [WriteModel::update_one(doc! {}, update())];
        things.bulk_write(models).session(&session).await.expect("updated");
        client.database("d").create_collection("new").session(&session).await.expect("made");
        let log: Vec<_> = set.state().log.iter().map(|(_, body)| body.clone()).collect();
        for (at, body) in log.iter().enumerate() {
            // A level is one of reads.
            let time = if at == 0 { 1 } else { u32::try_from(at).expect("few") };
            assert_eq!(concern(body), Some(doc! { "afterClusterTime": self::at(time) }), "{body}");
        }
        // A command of the user's own is sent as it is.
        let ping = client.database("d").run_command(doc! { "ping": 1 });
        ping.session(&session).await.expect("answered");
        assert_eq!(concern(&take(&set, "ping")[0]), None);
        // So are writes of who does not want it.
        let session = client.start_session().causal_consistency(false);
        for _ in 0..2 {
            things.insert_one(&doc! {}).session(&session).await.expect("inserted");
        }
        assert!(take(&set, "insert").iter().all(|body| concern(body).is_none()));
    });
}

#[test]
fn a_concern_of_the_collection_stays() {
    with_set(async |set, client| {
        let majority = ReadConcern { level: "majority".into() };
        let things = things(&client).read_concern(&majority);
        let session = client.start_session();
        for _ in 0..2 {
            things.find_one(doc! {}).session(&session).await.expect("found");
        }
        things.find_one(doc! {}).await.expect("found");
        let found: Vec<_> = take(&set, "find").iter().map(concern).collect();
        let both = doc! { "level": "majority", "afterClusterTime": at(1) };
        let level = doc! { "level": "majority" };
        assert_eq!(found, [Some(level.clone()), Some(both), Some(level)]);
    });
}

#[test]
fn who_does_not_want_it_sends_nothing() {
    with_set(async |set, client| {
        let session = client.start_session().causal_consistency(false);
        read(&client, &session).await;
        read(&client, &session).await;
        things(&client).find_one(doc! {}).await.expect("a session of its own");
        things(&client).find_one(doc! {}).await.expect("a session of its own");
        assert_eq!(session.operation_time(), Some(at(2)));
        assert!(take(&set, "find").iter().all(|command| concern(command).is_none()));
    });
}

#[test]
fn a_session_may_be_told_what_another_has_seen() {
    with_set(async |set, client| {
        let (one, other) = (client.start_session(), client.start_session());
        other.advance_operation_time(at(9));
        other.advance_operation_time(at(8));
        let later = RawDocumentBuf::try_from(&cluster_time(9)).expect("BSON");
        other.advance_cluster_time(&later).expect("a time");
        assert_eq!(other.cluster_time(), Some(later));
        let wrong = RawDocumentBuf::try_from(&doc! { "clusterTime": 1 }).expect("BSON");
        assert!(other.advance_cluster_time(&wrong).expect_err("no timestamp").is_options());
        read(&client, &one).await;
        read(&client, &other).await;
        let found = take(&set, "find");
        assert_eq!(concern(&found[1]), Some(doc! { "afterClusterTime": at(9) }));
        assert_eq!(found[1].get_document("$clusterTime").ok(), Some(&cluster_time(9)));
        assert_eq!(other.operation_time(), Some(at(9)), "an earlier time changes nothing");
    });
}

#[test]
fn the_first_command_of_a_transaction_begins_behind_it() {
    with_set(async |set, client| {
        let session = client.start_session();
        read(&client, &session).await;
        let snapshot = ReadConcern { level: "snapshot".into() };
        let settings = TransactionOptions::new().read_concern(&snapshot);
        session.start_transaction(settings).expect("none is open");
        read(&client, &session).await;
        read(&client, &session).await;
        session.commit().await.expect("committed");
        let found: Vec<_> = set.got("find").iter().map(|(_, body)| concern(body)).collect();
        let first = doc! { "level": "snapshot", "afterClusterTime": at(1) };
        assert_eq!(found, [None, Some(first), None]);
        assert_eq!(concern(&set.got("commitTransaction")[0].1), None);
    });
}

#[test]
fn a_transaction_reads_by_the_concern_of_the_client() {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let address = format!("{}&readConcernLevel=majority", set.address(&[0]));
        let client = Client::new(options(&address));
        let session = client.start_session();
        for own in [None, Some("snapshot")] {
            let settings = TransactionOptions::new();
            let settings = match own {
                Some(level) => settings.read_concern(&ReadConcern { level: level.into() }),
                None => settings,
            };
            session.start_transaction(settings).expect("none is open");
            read(&client, &session).await;
            session.abort().await.expect("aborted");
            let first = concern(&take(&set, "find")[0]).expect("a concern");
            assert_eq!(first.get_str("level").ok(), Some(own.unwrap_or("majority")));
        }
    });
}

#[test]
fn the_latest_time_of_the_cluster_is_told_on() {
    with_set(async |set, client| {
        for _ in 0..3 {
            things(&client).find_one(doc! {}).await.expect("found");
        }
        things(&client).insert_one(&doc! {}).await.expect("inserted");
        client.database("d").ping().await.expect("answered");
        let log: Vec<_> = set.state().log.iter().map(|(_, body)| body.clone()).collect();
        let told: Vec<_> = log.iter().map(|it| it.get_document("$clusterTime").ok()).collect();
        let times = [1, 2, 3, 4].map(cluster_time);
        let expected: Vec<_> = std::iter::once(None).chain(times.iter().map(Some)).collect();
        assert_eq!(told, expected);
    });
}

#[test]
fn a_server_that_stands_alone_is_told_no_time() {
    let fake = Fake::serve(|command| {
        assert!(!command.body.contains_key("$clusterTime"), "{}", command.body);
        assert!(!command.body.contains_key("readConcern"), "{}", command.body);
        let mut reply = match command.name() {
            "find" => doc! { "cursor": { "id": 0_i64, "ns": "d.c", "firstBatch": [] } },
            _ => doc! {},
        };
        reply.insert("ok", 1.0);
        reply.insert("operationTime", at(1));
        reply.insert("$clusterTime", cluster_time(1));
        Answer::Reply(reply)
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let session = client.start_session();
        session.advance_operation_time(at(9));
        for _ in 0..2 {
            things(&client).find_one(doc! {}).session(&session).await.expect("answered");
        }
        assert_eq!(session.operation_time(), Some(at(9)));
    });
}

#[test]
fn times_that_are_none_are_passed_over() {
    let long = "x".repeat(2000);
    let odd = [
        doc! { "$clusterTime": 1, "operationTime": "late" },
        doc! { "$clusterTime": {}, "operationTime": {} },
        doc! { "$clusterTime": { "clusterTime": at(9), "signature": long } },
    ];
    for times in odd {
        let set = ReplicaSet::start(1, move |_, _, _| {
            let mut reply = last_batch(vec![]);
            reply.extend(times.clone());
            Answer::Reply(reply)
        });
        on_core(async move {
            let client = Client::new(options(&set.address(&[0])));
            let session = client.start_session();
            for _ in 0..2 {
                things(&client).find_one(doc! {}).session(&session).await.expect("answered");
            }
            assert_eq!((session.operation_time(), session.cluster_time()), (None, None));
            let told = |command: &Document| command.contains_key("$clusterTime");
            assert!(!take(&set, "find").iter().any(told));
        });
    }
}

#[test]
fn a_snapshot_is_that_of_the_first_read() {
    with_set(async |set, client| {
        let session = client.start_session().snapshot(true);
        read(&client, &session).await;
        things(&client).distinct("n", doc! {}).session(&session).await.expect("found");
        things(&client)
            .aggregate([doc! { "$match": {} }])
            .session(&session)
            .await
            .expect("aggregated");
        things(&client).insert_one(&doc! {}).session(&session).await.expect("as servers like");
        let log: Vec<_> = set.state().log.iter().map(|(_, body)| concern(body)).collect();
        let later = Some(doc! { "level": "snapshot", "atClusterTime": at(1) });
        let first = Some(doc! { "level": "snapshot" });
        assert_eq!(log, [first, later.clone(), later.clone(), later]);
        let error =
            session.start_transaction(TransactionOptions::new()).expect_err("of a snapshot");
        assert!(error.is_options(), "{error}");
    });
}

#[test]
fn a_snapshot_may_be_that_of_another_session() {
    with_set(async |set, client| {
        let one = client.start_session().snapshot(true);
        assert_eq!(one.snapshot_time(), None);
        read(&client, &one).await;
        assert_eq!(one.snapshot_time(), Some(at(1)));
        let other = client.start_session().snapshot_at(at(1));
        read(&client, &other).await;
        let found = take(&set, "find");
        let same = doc! { "level": "snapshot", "atClusterTime": at(1) };
        assert_eq!(concern(&found[1]), Some(same));
        assert_eq!(other.snapshot_time(), Some(at(1)));
        assert_eq!(client.start_session().snapshot_at(at(1)).snapshot(false).snapshot_time(), None);
    });
}

#[test]
fn a_snapshot_may_begin_with_distinct() {
    with_set(async |set, client| {
        let session = client.start_session().snapshot(true);
        for _ in 0..2 {
            things(&client).distinct("n", doc! {}).session(&session).await.expect("found");
        }
        let found: Vec<_> = take(&set, "distinct").iter().map(concern).collect();
        let later = doc! { "level": "snapshot", "atClusterTime": at(1) };
        assert_eq!(found, [Some(doc! { "level": "snapshot" }), Some(later)]);
    });
}

#[test]
fn snapshots_are_refused_where_they_cannot_be() {
    with_set(async |set, client| {
        for session in [
            client.start_session().snapshot(true).causal_consistency(true),
            client.start_session().causal_consistency(true).snapshot(true),
        ] {
            let error = things(&client).find_one(doc! {}).session(&session).await;
            let error = error.expect_err("not both");
            assert!(error.is_options() && error.to_string().contains("not both"), "{error}");
        }
        assert!(set.state().log.is_empty());
        set.state().wire_version = Some(9);
        let old = Client::new(options(&set.address(&[0])));
        let session = old.start_session().snapshot(true);
        let error = things(&old).find_one(doc! {}).session(&session).await.expect_err("too old");
        let what = "Snapshot reads require MongoDB 5.0 or later";
        assert!(error.to_string().contains(what) && error.server().is_none(), "{error}");
        assert!(!error.may_have_happened() && set.state().log.is_empty());
    });
}

/// How often each field comes in the commands of a client.
fn counting(address: &str) -> (Client, Arc<Mutex<Vec<Vec<String>>>>) {
    let told = Arc::<Mutex<Vec<Vec<String>>>>::default();
    let list = Arc::clone(&told);
    let client = Client::new(options(address).on_command(move |event| {
        if let CommandPhase::Started { command } = event.phase {
            let names = command.iter().map(|field| field.expect("BSON").0.as_str().to_owned());
            list.lock().expect("no panic").push(names.collect());
        }
    }));
    (client, told)
}

#[test]
fn a_concern_that_the_user_writes_comes_once() {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let (client, told) = counting(&format!("{}&w=majority", set.address(&[0])));
        let database = client.database("d");
        let own = doc! { "find": "c", "readConcern": { "level": "local" } };
        let session = client.start_session().snapshot(true);
        database.run_command(own.clone()).session(&session).await.expect("answered");
        let session = client.start_session();
        let options =
            TransactionOptions::new().read_concern(&ReadConcern { level: "local".into() });
        session.start_transaction(options).expect("none is open");
        database.run_command(own).session(&session).await.expect("answered");
        session.abort().await.expect("over");
        let concern = doc! { "w": 1 };
        database.create_collection("c").option("writeConcern", concern).await.expect("made");
        for names in &*told.lock().expect("no panic") {
            for name in names {
                let count = names.iter().filter(|it| *it == name).count();
                assert_eq!(count, 1, "{name} in {names:?}");
            }
        }
        let has =
            |at: usize, name: &str| told.lock().expect("no panic")[at].iter().any(|it| it == name);
        assert!(has(0, "readConcern") && has(1, "readConcern") && has(3, "writeConcern"));
    });
}

/// Specification: Driver Sessions, "Unacknowledged writes".
#[test]
fn a_write_that_nobody_answers_is_none_of_a_session() {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let client = Client::new(options(&format!("{}&w=0", set.address(&[0]))));
        let (things, session) = (things(&client), client.start_session());
        let refused = [
            things.insert_one(&doc! {}).session(&session).await.map(drop),
            things.insert_many(&[doc! {}]).session(&session).await.map(drop),
            things
                .update_one(doc! {}, doc! { "$set": { "a": 1 } })
                .session(&session)
                .await
                .map(drop),
            things.delete_many(doc! {}).session(&session).await.map(drop),
            things.find_one_and_delete(doc! {}).session(&session).await.map(drop),
            things.bulk_write([WriteModel::delete_one(doc! {})]).session(&session).await.map(drop),
            client
                .bulk_write([things.model(WriteModel::delete_one(doc! {}))])
                .ordered(false)
                .session(&session)
                .await
                .map(drop),
            session.start_transaction(TransactionOptions::new()),
        ];
        for (at, refused) in refused.into_iter().enumerate() {
            let error = refused.expect_err("nobody would answer");
            assert!(error.is_options() && !error.may_have_happened(), "{at}: {error}");
        }
        assert!(set.state().log.is_empty(), "nothing was sent");
        things.find_one(doc! {}).session(&session).await.expect("a read is answered");
        things.insert_one(&doc! {}).await.expect("without a session it is sent");
        while set.got("insert").is_empty() {
            ringway_runtime::yield_now().await;
        }
        assert!(!set.got("insert")[0].1.contains_key("lsid"));
    });
}
