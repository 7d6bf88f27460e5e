//! What a client tells of its commands, and writes that nobody answers.

use std::sync::{Arc, Mutex};

use bson::{Document, doc};
use ringway_mongo::{Client, CommandPhase};

use crate::support::fake::{Answer, Fake, last_batch};
use crate::support::{drop_when, on_core, options};

/// What was heard: the name of the command, its number, and what happened.
type Heard = Arc<Mutex<Vec<(String, i32, String)>>>;

fn observed(address: &str) -> (Client, Heard) {
    let heard = Heard::default();
    let list = Arc::clone(&heard);
    let client = Client::new(options(address).on_command(move |event| {
        let what = match &event.phase {
            CommandPhase::Started { command } => {
                format!("started {}", Document::try_from(*command).expect("BSON"))
            }
            CommandPhase::Succeeded { reply, .. } => {
                format!("succeeded {}", Document::try_from(*reply).expect("BSON"))
            }
            CommandPhase::Failed { error, .. } => format!("failed {error}"),
            _ => unreachable!("there is no other phase"),
        };
        list.lock().expect("no panic").push((event.name.to_owned(), event.request_id, what));
    }));
    (client, heard)
}

#[test]
fn each_command_is_told_at_its_beginning_and_at_its_end() {
    let fake = Fake::serve(|command| match command.name() {
        "insert" => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
        "find" if command.connection == 0 => Answer::End(Vec::new()),
        "find" => Answer::Reply(last_batch(vec![])),
        _ => Answer::Reply(doc! { "ok": 0.0, "code": 13, "errmsg": "not for you" }),
    });
    on_core(async move {
        let (client, heard) = observed(&fake.address);
        let things = client.database("shop").collection::<Document>("things");
        things.insert_one(&doc! { "_id": 1 }).await.expect("written");
        things.find_one(doc! {}).await.expect("the second try finds nothing");
        let refused = client.database("shop").run_command(doc! { "shutdown": 1 }).await;
        refused.expect_err("refused");
        let heard = heard.lock().expect("no panic");
        let has = |at: usize, name: &str, part: &str| {
            let (of, _, what): &(String, i32, String) = &heard[at];
            assert!(of == name && what.contains(part), "{at}: {of}: {what}");
        };
        has(0, "insert", r#""documents": [{ "_id": 1 }]"#);
        has(0, "insert", r#""$db": "shop""#);
        has(1, "insert", r#"succeeded { "n": 1"#);
        has(2, "find", "started");
        has(3, "find", "failed the connection to the server broke");
        has(4, "find", "started");
        has(5, "find", "succeeded");
        has(7, "shutdown", "failed the server refused the command: not for you");
        assert_eq!(heard.len(), 8);
        let number = |at: usize| heard[at].1;
        assert!(number(0) == number(1) && number(2) == number(3) && number(4) == number(5));
    });
}

#[test]
fn an_operation_that_is_dropped_has_failed() {
    let fake = Fake::serve(|_| Answer::Silence);
    on_core(async move {
        let (client, heard) = observed(&fake.address);
        drop_when(client.database("d").ping(), || fake.commands() == 2).await;
        let heard = heard.lock().expect("no panic");
        let [(_, _, started), (_, _, failed)] = &heard[..] else { panic!("{heard:?}") };
        assert!(started.starts_with("started") && failed.contains("was given up"), "{heard:?}");
    });
}

#[test]
fn secrets_are_not_told() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "secret": "in the reply", "ok": 1 }));
    on_core(async move {
        let (client, heard) = observed(&fake.address);
        let command = doc! { "createUser": "ada", "pwd": "a secret", "roles": [] };
        client.database("d").run_command(command).await.expect("done");
        let heard = heard.lock().expect("no panic");
        assert!(heard.len() == 2 && heard.iter().all(|(name, ..)| name == "createUser"));
        assert!(!format!("{heard:?}").contains("secret"), "{heard:?}");
    });
}

#[test]
fn an_observer_that_panics_harms_nobody() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1 }));
    on_core(async move {
        let client =
            Client::new(options(&fake.address).on_command(|_| panic!("as the test wants")));
        for _ in 0..3 {
            client.database("d").ping().await.expect("a server");
        }
        assert_eq!(fake.connections(), 1);
    });
}

#[test]
fn a_write_without_an_answer_is_over_when_it_is_sent() {
    let fake = Fake::serve(|command| match command.name() {
        "insert" | "update" | "delete" | "findAndModify" => {
            assert_eq!(command.body.get_document("writeConcern").ok(), Some(&doc! { "w": 0 }));
            let is_numbered =
                ["lsid", "txnNumber"].iter().any(|name| command.body.contains_key(name));
            assert!(!is_numbered, "{}", command.body);
            Answer::Silence
        }
        _ => Answer::Reply(last_batch(vec![doc! { "at": 1 }])),
    });
    on_core(async move {
        let client = Client::new(options(&format!("{}&w=0", fake.address)));
        let things = client.database("d").collection::<Document>("things");
        things.insert_one(&doc! {}).await.expect("sent");
        let updated = things.update_many(doc! {}, doc! { "$set": { "a": 1 } }).await;
        assert_eq!(updated.expect("sent").matched, 0, "nobody knows");
        things.delete_one(doc! {}).await.expect("sent");
        assert_eq!(things.find_one_and_delete(doc! {}).await.expect("sent"), None);
        let many: Vec<_> =
            (0..100).map(|at| doc! { "_id": at, "text": "x".repeat(10_000) }).collect();
        things.insert_many(&many).await.expect("sent");
        let found = things.find_one(doc! {}).await.expect("answered");
        assert_eq!(found, Some(doc! { "at": 1 }));
        assert_eq!((fake.commands(), fake.connections()), (1 + 5 + 1, 1));
    });
}
