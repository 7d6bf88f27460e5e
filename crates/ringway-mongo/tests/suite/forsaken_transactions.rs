//! Transactions that nobody ends any more, and transactions in tasks of tokio.

use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{Client, ClientSession, Result, TransactionOptions, Wait};

use crate::support::fake::{Answer, Command};
use crate::support::replica_set::{ReplicaSet, SetState, not_primary};
use crate::support::{drop_when, on_core, options, until};

/// Confirms everything, on the primary.
fn proper(state: &mut SetState, member: usize, command: &Command) -> Answer {
    match command.name() {
        _ if state.primary != Some(member) => not_primary(),
        _ => Answer::Reply(doc! { "n": 1, "nModified": 1, "ok": 1.0 }),
    }
}

/// The names of the commands that a set has got, with the numbers of their transactions.
fn named(set: &ReplicaSet) -> Vec<(String, Option<i64>)> {
    let name = |body: &Document| body.keys().next().cloned().unwrap_or_default();
    let number = |body: &Document| body.get_i64("txnNumber").ok();
    set.state().log.iter().map(|(_, body)| (name(body), number(body))).collect()
}

fn expected(names: &[&str]) -> Vec<(String, Option<i64>)> {
    names.iter().map(|name| ((*name).to_owned(), Some(1))).collect()
}

/// Waits on a plain thread until a set has got a command; a test that waits in vain is ended from outside.
fn wait_for(set: &ReplicaSet, name: &str) {
    while set.got(name).is_empty() {
        std::thread::yield_now();
    }
}

async fn begin(client: &Client) -> ClientSession {
    let session = client.start_session();
    session.start_transaction(TransactionOptions::new()).expect("none is open");
    let accounts = client.database("bank").collection::<Document>("accounts");
    accounts.insert_one(&doc! {}).session(&session).await.expect("inserted");
    session
}

/// The example of the documents.
async fn transfer(client: Client) -> Result {
    let accounts = client.database("bank").collection::<Document>("accounts");
    let session = client.start_session();
    session
        .with_transaction(TransactionOptions::new(), async |session| {
            let less = doc! { "$inc": { "balance": -10 } };
            accounts.update_one(doc! { "_id": "ada" }, less).session(session).await?;
            let more = doc! { "$inc": { "balance": 10 } };
            accounts.update_one(doc! { "_id": "bob" }, more).session(session).await?;
            Ok(())
        })
        .await
}

/// The same with what its runs own.
async fn insert(client: Client) -> Result<Document> {
    let accounts = client.database("bank").collection::<Document>("accounts");
    let (session, account) = (client.start_session(), doc! { "_id": "eve" });
    session
        .with_transaction(TransactionOptions::new(), async move |session| {
            accounts.insert_one(&account).session(session).await?;
            Ok(account)
        })
        .await
}

fn tokio_threads() -> tokio::runtime::Runtime {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    tokio.expect("threads")
}

#[test]
fn tasks_of_tokio_have_transactions() {
    let set = ReplicaSet::start(1, proper);
    let client = Client::new(options(&set.address(&[0])));
    let tokio = tokio_threads();
    let transferred = tokio.spawn(transfer(client.clone()));
    tokio.block_on(transferred).expect("no panic").expect("committed");
    let inserted = tokio.spawn(insert(client));
    let inserted = tokio.block_on(inserted).expect("no panic").expect("committed");
    assert_eq!(inserted, doc! { "_id": "eve" });
    assert_eq!(set.got("commitTransaction").len(), 2);
}

#[test]
fn a_session_that_is_dropped_aborts_its_transaction() {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        drop(begin(&client).await);
        // This waits for what is ended in the background.
        client.shutdown().await.expect("there is a core");
        assert_eq!(named(&set), expected(&["insert", "abortTransaction"]));
        let aborted = &set.got("abortTransaction")[0].1;
        assert_eq!(aborted.get("lsid"), set.got("insert")[0].1.get("lsid"));
        assert_eq!(aborted.get_bool("autocommit").ok(), Some(false));
        assert_eq!(aborted.get_str("$db").ok(), Some("admin"));
    });
}

#[test]
fn a_transaction_that_has_ended_is_not_aborted() {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = begin(&client).await;
        session.commit().await.expect("committed");
        drop(session);
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        drop(session);
        client.shutdown().await.expect("there is a core");
        assert_eq!(named(&set), expected(&["insert", "commitTransaction"]));
    });
}

/// The insert is answered for the first time, and then nobody is.
fn silent(state: &mut SetState, member: usize, command: &Command) -> Answer {
    match command.name() {
        "insert" if state.log.iter().filter(|(_, it)| it.contains_key("insert")).count() > 1 => {
            Answer::Silence
        }
        _ => proper(state, member, command),
    }
}

#[test]
fn a_transaction_in_the_middle_of_an_operation_is_aborted() {
    let set = ReplicaSet::start(1, silent);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let accounts = client.database("bank").collection::<Document>("accounts");
        let session = client.start_session();
        let transaction = session.with_transaction(TransactionOptions::new(), async |session| {
            for _ in 0..2 {
                accounts.insert_one(&doc! {}).session(session).await?;
            }
            Ok(())
        });
        drop_when(transaction, || set.got("insert").len() == 2).await;
        // The session is still there, and is used again.
        until(|| !session.is_open()).await;
        assert_eq!(named(&set), expected(&["insert", "insert", "abortTransaction"]));
        session.start_transaction(TransactionOptions::new()).expect("none is open");
    });
}

#[test]
fn a_task_of_tokio_that_ends_early_aborts_its_transaction() {
    let set = ReplicaSet::start(1, silent);
    let client = Client::new(options(&set.address(&[0])));
    let tokio = tokio_threads();
    let task = tokio.spawn(async move {
        let accounts = client.database("bank").collection::<Document>("accounts");
        let session = client.start_session();
        let insert_two = async |session: &ClientSession| {
            for _ in 0..2 {
                accounts.insert_one(&doc! {}).session(session).await?;
            }
            Ok(())
        };
        session.with_transaction(TransactionOptions::new(), insert_two).await
    });
    while set.got("insert").len() < 2 {
        std::thread::yield_now();
    }
    task.abort();
    wait_for(&set, "abortTransaction");
    assert_eq!(named(&set), expected(&["insert", "insert", "abortTransaction"]));
}

#[test]
fn a_plain_thread_that_drops_its_session_aborts_its_transaction() {
    let set = ReplicaSet::start(1, proper);
    let client = Client::new(options(&set.address(&[0])));
    drop(async { Ok(begin(&client).await) }.wait().expect("begun"));
    wait_for(&set, "abortTransaction");
    assert_eq!(named(&set), expected(&["insert", "abortTransaction"]));
}

#[test]
fn a_commit_that_was_given_up_is_not_aborted() {
    let set = ReplicaSet::start(1, |state, member, command| match command.name() {
        "commitTransaction" => Answer::Silence,
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let session = begin(&client).await;
        drop_when(session.commit(), || !set.got("commitTransaction").is_empty()).await;
        drop(session);
        client.shutdown().await.expect("there is a core");
        assert_eq!(named(&set), expected(&["insert", "commitTransaction"]));
    });
}

#[test]
fn a_server_that_does_not_abort_holds_nobody() {
    let set = ReplicaSet::start(1, |state, member, command| match command.name() {
        "abortTransaction" => Answer::Silence,
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        drop(begin(&client).await);
        let shut_down = ringway_runtime::timeout(Duration::from_secs(30), client.shutdown());
        shut_down.await.expect("it waits a second").expect("there is a core");
        assert_eq!(named(&set), expected(&["insert", "abortTransaction"]));
    });
}
