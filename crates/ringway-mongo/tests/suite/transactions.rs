//! Transactions, against servers of the test: none that has them can be had.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{
    Acknowledgment, Client, ClientSession, Collection, Error, ReadConcern, TransactionOptions,
    Wait, WriteConcern,
};

use crate::support::fake::{Answer, Command, Fake, hello, last_batch};
use crate::support::replica_set::{ReplicaSet, SetState, not_primary};
use crate::support::{drop_when, on_core, options, until};

fn accounts(client: &Client) -> Collection<Document> {
    client.database("bank").collection("accounts")
}

/// Confirms everything, on the primary.
fn proper(state: &mut SetState, member: usize, command: &Command) -> Answer {
    match command.name() {
        _ if state.primary != Some(member) => not_primary(),
        "find" => Answer::Reply(last_batch(vec![doc! { "a": 1 }])),
        _ => Answer::Reply(doc! { "n": 1, "nModified": 1, "ok": 1.0 }),
    }
}

fn refused(code: i32, label: &str) -> Answer {
    Answer::Reply(
        doc! { "ok": 0.0, "code": code, "errmsg": "as the test wants", "errorLabels": [label] },
    )
}

/// The fields of a command that belong to its transaction.
fn fields(body: &Document) -> Document {
    let names = ["txnNumber", "startTransaction", "autocommit", "readConcern", "writeConcern"];
    names.iter().filter_map(|name| Some(((*name).to_owned(), body.get(name)?.clone()))).collect()
}

fn majority() -> WriteConcern {
    let mut concern = WriteConcern::default();
    concern.w = Some(Acknowledgment::Majority);
    concern
}

/// Whether the error is one of the caller's.
fn is_refused(result: ringway_mongo::Result, why: &str) {
    let error = result.expect_err(why);
    assert!(error.is_options() && error.to_string().contains(why), "{error}");
}

#[test]
fn commands_of_a_transaction_have_its_number() {
    let set = ReplicaSet::start(2, proper);
    on_core(async move {
        let address = format!("{}&w=2&readPreference=secondary", set.address(&[0, 1]));
        let client = Client::new(options(&address));
        let session = client.start_session();
        let snapshot = ReadConcern { level: "snapshot".into() };
        let settings = TransactionOptions::new().read_concern(&snapshot);
        let settings = settings.write_concern(&majority()).expect("a concern");
        for number in 1..=2_i64 {
            session.start_transaction(settings.clone()).expect("none is open");
            is_refused(session.start_transaction(settings.clone()), "already in progress");
            accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
            accounts(&client).find_one(doc! {}).session(&session).await.expect("found");
            accounts(&client).delete_one(doc! {}).session(&session).await.expect("deleted");
            session.commit().await.expect("committed");
            let log = std::mem::take(&mut set.state().log);
            let names: Vec<_> = log
                .iter()
                .map(|(at, body)| (*at, &**body.keys().next().expect("a name")))
                .collect();
            assert_eq!(
                names,
                [(0, "insert"), (0, "find"), (0, "delete"), (0, "commitTransaction")]
            );
            let further = doc! { "txnNumber": number, "autocommit": false };
            let mut first =
                doc! { "txnNumber": number, "startTransaction": true, "autocommit": false };
            first.insert("readConcern", doc! { "level": "snapshot" });
            let mut commit = further.clone();
            commit.insert("writeConcern", doc! { "w": "majority" });
            let found: Vec<_> = log.iter().map(|(_, body)| fields(body)).collect();
            assert_eq!(found, [first, further.clone(), further, commit]);
            assert!(log.iter().all(|(_, body)| body.get("lsid") == log[0].1.get("lsid")));
            assert_eq!(log[3].1.get_str("$db").ok(), Some("admin"));
        }
        // Outside of a transaction, the session's commands are like others.
        accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
        let inserted = set.got("insert");
        let expected = doc! { "txnNumber": 3_i64, "writeConcern": { "w": 2 } };
        assert_eq!(fields(&inserted.last().expect("one").1), expected);
    });
}

#[test]
fn a_transaction_is_not_committed_again_behind_a_change_stream_of_its_session() {
    let set = ReplicaSet::start(1, |state, member, command| match command.name() {
        "aggregate" => Answer::Reply(last_batch(vec![])),
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
        session.commit().await.expect("committed");
        drop(accounts(&client).watch().session(&session).await.expect("opened"));
        is_refused(session.commit().await, "no transaction");
        assert_eq!(set.got("commitTransaction").len(), 1);
    });
}

#[test]
fn an_empty_transaction_is_not_told() {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = client.start_session();
        is_refused(session.commit().await, "no transaction");
        is_refused(session.abort().await, "no transaction");
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        session.commit().await.expect("nothing to do");
        session.commit().await.expect("again");
        is_refused(session.abort().await, "after calling commitTransaction");
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        session.abort().await.expect("nothing to do");
        is_refused(session.abort().await, "twice");
        is_refused(session.commit().await, "after calling abortTransaction");
        assert_eq!(set.state().log.len(), 0);
    });
}

#[test]
fn a_commit_that_is_lost_is_sent_again_with_a_majority() {
    let commits = AtomicUsize::new(0);
    let set = ReplicaSet::start(1, move |state, member, command| match command.name() {
        "commitTransaction" => match commits.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::End(Vec::new()),
            _ => Answer::Reply(doc! { "ok": 1.0 }),
        },
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
        session.commit().await.expect("committed at last");
        let commits: Vec<_> = set.got("commitTransaction").into_iter().map(|(_, it)| it).collect();
        let [first, second] = &commits[..] else { panic!("{commits:?}") };
        assert_eq!(first.get("writeConcern"), None);
        let concern = doc! { "w": "majority", "wtimeout": 10_000_i64 };
        assert_eq!(second.get_document("writeConcern").ok(), Some(&concern));
        assert_eq!(second.get_i64("txnNumber").ok(), Some(1));
    });
}

/// Specification: Client Side Operations Timeout, "Retryability".
#[test]
fn within_a_time_that_was_set_the_end_is_sent_until_it_is_confirmed() {
    const REFUSED: usize = 5;
    for name in ["commitTransaction", "abortTransaction"] {
        for (is_set, sent) in [(true, REFUSED + 1), (false, 2)] {
            let ends = AtomicUsize::new(0);
            let set = ReplicaSet::start(1, move |state, member, command| match command.name() {
                it if it == name && ends.fetch_add(1, Ordering::SeqCst) < REFUSED => {
                    refused(89, "RetryableWriteError")
                }
                _ => proper(state, member, command),
            });
            on_core(async move {
                let client = Client::new(options(&set.address(&[0])));
                let session = client.start_session();
                session.start_transaction(TransactionOptions::new()).expect("none is open");
                accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
                let ending = match name {
                    "commitTransaction" => session.commit(),
                    _ => session.abort(),
                };
                let ended = match is_set {
                    true => ending.timeout(Duration::from_secs(20)).await,
                    false => ending.await,
                };
                let is_told = is_set || name == "abortTransaction";
                assert_eq!(ended.is_ok(), is_told, "{name}: {ended:?}");
                assert_eq!(set.got(name).len(), sent, "{name}");
            });
        }
    }
}

#[test]
fn a_lost_connection_fails_the_transaction_and_nothing_is_repeated() {
    let set = ReplicaSet::start(1, |state, member, command| match command.name() {
        "insert" | "abortTransaction" => Answer::End(Vec::new()),
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        let error = accounts(&client).insert_one(&doc! {}).session(&session).await;
        let error: Error = error.expect_err("the server hangs up");
        assert!(error.is_network() && error.is_transient_transaction(), "{error}");
        assert!(!error.is_unknown_commit() && error.may_have_happened());
        assert_eq!(set.got("insert").len(), 1);
        session.abort().await.expect("its errors do not count");
        assert_eq!(set.got("abortTransaction").len(), 2);
    });
}

#[test]
fn a_transaction_is_run_again_and_committed_until_it_is_known() {
    let (inserts, commits) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let set = ReplicaSet::start(1, move |state, member, command| match command.name() {
        "insert" if inserts.fetch_add(1, Ordering::SeqCst) < 2 => {
            refused(112, "TransientTransactionError")
        }
        "commitTransaction" => match commits.fetch_add(1, Ordering::SeqCst) {
            0 => refused(8000, "UnknownTransactionCommitResult"),
            1 => refused(251, "TransientTransactionError"),
            _ => Answer::Reply(doc! { "ok": 1.0 }),
        },
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let (session, accounts) = (client.start_session(), accounts(&client));
        let runs = Cell::new(0);
        let result = session.with_transaction(TransactionOptions::new(), async |session| {
            runs.set(runs.get() + 1);
            accounts.insert_one(&doc! { "run": runs.get() }).session(session).await?;
            Ok(runs.get())
        });
        assert_eq!(result.await.expect("at last"), 4);
        let names: Vec<_> =
            set.state().log.iter().map(|(_, it)| it.keys().next().cloned()).collect();
        let expected = [
            "insert",
            "abortTransaction",
            "insert",
            "abortTransaction",
            "insert",
            "commitTransaction",
            "commitTransaction",
            "insert",
            "commitTransaction",
        ];
        assert_eq!(names.into_iter().flatten().collect::<Vec<_>>(), expected);
        let numbers = set.got("insert").into_iter().map(|(_, it)| it.get_i64("txnNumber").ok());
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3, 4].map(Some));
        // An error of the body's own ends it.
        let failed = session.with_transaction(TransactionOptions::new(), async |session| {
            accounts.insert_one(&doc! {}).session(session).await?;
            accounts.with_type::<f64>().insert_one(&f64::NAN).session(session).await.map(drop)
        });
        assert!(failed.await.expect_err("no document").is_document());
        assert!(!session.is_open());
        assert_eq!(set.got("abortTransaction").len(), 3);
    });
}

#[test]
fn a_transaction_without_time_for_another_run_says_why_it_failed() {
    let set = ReplicaSet::start(1, |state, member, command| match command.name() {
        "insert" => refused(112, "TransientTransactionError"),
        _ => proper(state, member, command),
    });
    on_core(async move {
        // No time is long enough for a pause.
        let client = Client::new(options(&set.address(&[0])).timeout(Duration::from_millis(200)));
        let (session, accounts) = (client.start_session(), accounts(&client));
        let failed = session.with_transaction(TransactionOptions::new(), async |session| {
            let insert = accounts.insert_one(&doc! {}).timeout(Duration::from_secs(20));
            insert.session(session).await.map(drop)
        });
        let error = failed.await.expect_err("it is refused each time");
        assert!(error.is_timeout() && error.is_transient_transaction(), "{error}");
        assert_eq!(error.server().map(|server| server.code), Some(112));
        let cause = std::error::Error::source(&error).expect("the last failure").to_string();
        assert!(cause.contains("as the test wants"), "{cause}");
        assert!(!session.is_open());
    });
}

#[test]
fn a_transaction_stays_with_its_router() {
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let router = |number: usize| {
        let log = Arc::clone(&log);
        Fake::serve_all(move |command| match command.name() {
            "hello" => {
                let mut hello = hello();
                hello.insert("msg", "isdbgrid");
                Answer::Reply(hello)
            }
            _ => {
                log.lock().expect("no panic").push((number, command.body.clone()));
                Answer::Reply(doc! { "n": 1, "ok": 1.0, "recoveryToken": { "at": number as i32 } })
            }
        })
    };
    let routers = [router(0), router(1)];
    on_core(async move {
        let [one, other] = &routers;
        let address = format!("mongodb://{},{}/?localThresholdMS=60000", one.place, other.place);
        let client = Client::new(options(&address));
        while client.servers().iter().any(|server| !server.kind.holds_data()) {
            client.database("bank").ping().await.expect("a router");
        }
        let session = client.start_session();
        for _ in 0..4 {
            log.lock().expect("no panic").clear();
            session.start_transaction(TransactionOptions::new()).expect("none is open");
            for _ in 0..5 {
                accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
            }
            session.commit().await.expect("committed");
            let log = log.lock().expect("no panic");
            assert!(log.iter().all(|(router, _)| *router == log[0].0), "{log:?}");
            let token = doc! { "at": log[0].0 as i32 };
            assert_eq!(log[5].1.get_document("recoveryToken").ok(), Some(&token));
        }
    });
}

#[test]
fn a_router_that_greets_nobody_any_more_loses_its_transaction() {
    let greets = Arc::new(AtomicBool::new(true));
    let router = Fake::serve_all(move |command| match command.name() {
        "hello" if greets.load(Ordering::SeqCst) => {
            let mut hello = hello();
            hello.insert("msg", "isdbgrid");
            Answer::Reply(hello)
        }
        "hello" => Answer::Silence,
        _ => {
            greets.store(false, Ordering::SeqCst);
            Answer::Reply(doc! { "n": 1, "ok": 1.0 })
        }
    });
    on_core(async move {
        // The time to connect is the test's own; nobody asks the router meanwhile.
        let address = format!("mongodb://{}/?connectTimeoutMS=200&maxIdleTimeMS=10", router.place);
        let client = Client::new(options(&address));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
        assert!(session.is_pinned());
        // Its connection is closed, so that another one has to be made.
        until(|| client.idle_connections() == 0).await;
        let lost = accounts(&client).insert_one(&doc! {}).session(&session).await;
        let lost = lost.expect_err("nobody greets");
        assert!(lost.is_transient_transaction() && !lost.may_have_happened(), "{lost}");
        assert!(!session.is_pinned());
    });
}

#[test]
fn further_batches_belong_to_the_transaction() {
    let set = ReplicaSet::start(1, |state, member, command| match command.name() {
        "find" => Answer::Reply(
            doc! { "cursor": { "id": 7_i64, "ns": "bank.accounts", "firstBatch": [{ "a": 1 }] }, "ok": 1 },
        ),
        "getMore" => Answer::Reply(
            doc! { "cursor": { "id": 0_i64, "ns": "bank.accounts", "nextBatch": [{ "a": 2 }] }, "ok": 1 },
        ),
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        let mut cursor = accounts(&client).find(doc! {}).session(&session).await.expect("found");
        // Between two batches, others use the session.
        accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
        while cursor.next().await.expect("a batch").is_some() {}
        session.commit().await.expect("committed");
        let (_, more) = &set.got("getMore")[0];
        assert_eq!(fields(more), doc! { "txnNumber": 1_i64, "autocommit": false });
        assert_eq!(more.get("lsid"), set.got("find")[0].1.get("lsid"));
    });
}

#[test]
fn a_session_has_one_operation_at_a_time_and_one_client() {
    let set = ReplicaSet::start(1, |state, member, command| match command.name() {
        "delete" => Answer::Silence,
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        let (books, waiting) = (accounts(&client), accounts(&client).delete_one(doc! {}));
        let deleting = ringway_runtime::spawn(waiting.session(&session).into_future());
        while set.got("delete").is_empty() {
            ringway_runtime::yield_now().await;
        }
        let inserted = books.insert_one(&doc! {}).session(&session).await.map(drop);
        is_refused(inserted, "another operation");
        is_refused(session.start_transaction(TransactionOptions::new()), "an operation");
        let other = Client::new(options(&set.address(&[0])));
        let inserted = accounts(&other).insert_one(&doc! {}).session(&session).await.map(drop);
        is_refused(inserted, "another client");
        // An operation that is given up gives the session back.
        deleting.abort();
        while books.find_one(doc! {}).session(&session).await.is_err() {
            ringway_runtime::yield_now().await;
        }
    });
}

#[test]
fn nobody_gets_a_session_in_which_a_transaction_is_under_way() {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        for is_ended in [true, false] {
            let session = client.start_session();
            session.start_transaction(TransactionOptions::new()).expect("none is open");
            accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
            if is_ended {
                session.commit().await.expect("committed");
            }
            drop(session);
            accounts(&client).insert_one(&doc! {}).await.expect("inserted");
            let inserted = set.got("insert");
            let [.., (_, within), (_, next)] = &inserted[..] else { panic!("{inserted:?}") };
            assert_eq!(within.get("lsid") == next.get("lsid"), is_ended);
        }
    });
}

#[test]
fn plain_threads_have_transactions() {
    let set = ReplicaSet::start(1, proper);
    let client = Client::new(options(&set.address(&[0])));
    let session = client.start_session();
    session.start_transaction(TransactionOptions::new()).expect("none is open");
    accounts(&client).insert_one(&doc! {}).session(&session).wait().expect("inserted");
    session.commit().wait().expect("committed");
    let accounts = accounts(&client);
    let body = async |session: &ClientSession| {
        accounts.insert_one(&doc! {}).session(session).await.map(drop)
    };
    session.with_transaction(TransactionOptions::new(), body).wait().expect("committed");
    assert_eq!(set.got("commitTransaction").len(), 2);
}

#[test]
fn a_transaction_whose_first_command_was_given_up_is_told_its_end() {
    for name in ["commitTransaction", "abortTransaction"] {
        let set = ReplicaSet::start(1, |state, member, command| match command.name() {
            "insert" => Answer::Silence,
            _ => proper(state, member, command),
        });
        on_core(async move {
            let client = Client::new(options(&set.address(&[0])));
            let session = client.start_session();
            session.start_transaction(TransactionOptions::new()).expect("none is open");
            let inserting = accounts(&client).insert_one(&doc! {}).session(&session).into_future();
            drop_when(inserting, || !set.got("insert").is_empty()).await;
            match name {
                "commitTransaction" => session.commit().await.expect("the server knows"),
                _ => session.abort().await.expect("none is there"),
            }
            assert_eq!(set.got(name).len(), 1, "{name}");
        });
    }
}

#[test]
fn a_commit_that_is_given_up_can_only_be_sent_again() {
    let commits = AtomicUsize::new(0);
    let set = ReplicaSet::start(1, move |state, member, command| match command.name() {
        "commitTransaction" if commits.fetch_add(1, Ordering::SeqCst) == 0 => Answer::Silence,
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        accounts(&client).insert_one(&doc! {}).session(&session).await.expect("inserted");
        drop_when(session.commit(), || !set.got("commitTransaction").is_empty()).await;
        is_refused(session.abort().await, "may have been committed");
        session.commit().await.expect("known at last");
        let (_, second) = &set.got("commitTransaction")[1];
        let concern = second.get_document("writeConcern").expect("a majority");
        assert_eq!(concern.get_str("w").ok(), Some("majority"));
        assert_eq!(set.got("abortTransaction").len(), 0);
    });
}

/// The body has left an operation under way, so the transaction cannot be aborted now.
#[test]
fn the_error_of_a_body_is_returned_though_its_transaction_cannot_be_aborted() {
    let set = ReplicaSet::start(1, |state, member, command| match command.name() {
        "find" => Answer::Silence,
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let (session, accounts) = (client.start_session(), accounts(&client));
        let left = Cell::new(None);
        let failed = session.with_transaction(TransactionOptions::new(), async |session| {
            let mut find = accounts.find_one(doc! {}).session(session).into_future();
            let begun = poll_fn(|cx| Poll::Ready(Pin::new(&mut find).poll(cx).is_pending())).await;
            assert!(begun, "nobody answers");
            left.set(Some(find));
            accounts.with_type::<f64>().insert_one(&f64::NAN).await.map(drop)
        });
        let error = failed.await.expect_err("no document");
        assert!(error.is_document(), "{error}");
        drop(left);
    });
}
