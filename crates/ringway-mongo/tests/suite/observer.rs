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
fn secrets_in_a_refusal_are_not_told() {
    let refusal = || {
        doc! {
            "ok": 0.0, "code": 2, "codeName": "BadValue", "errmsg": "bad pwd: hunter2",
            "errInfo": { "pwd": "hunter2" }, "errorLabels": ["hunted"],
        }
    };
    let fake = Fake::serve(move |_| Answer::Reply(refusal()));
    on_core(async move {
        let heard = Heard::default();
        let list = Arc::clone(&heard);
        let client = Client::new(options(&fake.address).on_command(move |event| {
            if let CommandPhase::Failed { error, .. } = &event.phase {
                let server = error.server().expect("it has refused");
                let what = format!("{error:?} {server:?} {:?}", error.server_reply());
                assert_eq!((server.code, &*server.code_name), (2, "BadValue"));
                assert!(error.has_label("hunted"));
                list.lock().expect("no panic").push((event.name.to_owned(), 0, what));
            }
        }));
        let command = doc! { "createUser": "ada", "pwd": "hunter2", "roles": [] };
        let refused = client.database("d").run_command(command).await.expect_err("refused");
        assert!(refused.to_string().contains("hunter2"), "its caller knows it");
        let heard = heard.lock().expect("no panic");
        assert!(heard.len() == 1 && !format!("{heard:?}").contains("hunter2"), "{heard:?}");
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

fn told_of(heard: &Heard) -> Vec<(String, i32, String)> {
    let mut told = heard.lock().expect("no panic").clone();
    // Which comes first is the server's choice; each command has its own number.
    told.sort_by_key(|(_, number, _)| *number);
    told
}

#[test]
fn commands_of_pipelines_are_told() {
    let fake = Fake::serve(|command| match command.body.get_i32("ping") {
        Ok(2) => Answer::Reply(doc! { "ok": 0.0, "code": 13, "errmsg": "not for you" }),
        Ok(4) => Answer::End(Vec::new()),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let (client, heard) = observed(&fake.address);
        let mut pipeline = client.database("d").pipeline().depth(4);
        for number in 1..=5 {
            pipeline.push(doc! { "ping": number }).expect("a command");
        }
        pipeline.push(doc! { "insert": "c" }).expect("refused when it is sent");
        let outcomes = pipeline.await.expect("a connection");
        assert_eq!(
            outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(),
            [true, false, true, false, false, false]
        );
        let told = told_of(&heard);
        let of = |number: i32| -> Vec<&str> {
            let started = format!(r#"started {{ "ping": {number},"#);
            let at = told.iter().position(|(_, _, what)| what.starts_with(&started));
            let Some(at) = at else { return Vec::new() };
            let id = told[at].1;
            told.iter().filter(|(_, it, _)| *it == id).map(|(_, _, what)| &**what).collect()
        };
        let ends = |number: i32, with: &str| {
            let told = of(number);
            assert!(told.len() == 2 && told[1].contains(with), "{number}: {told:?}");
            assert!(told[0].contains(r#""$db": "d""#) && told[0].contains("lsid"), "{told:?}");
        };
        ends(1, "succeeded");
        ends(2, "failed the server refused the command: not for you");
        ends(3, "succeeded");
        ends(4, "failed a pipeline ended before the answer");
        assert!(
            told.iter().all(|(name, ..)| name == "ping"),
            "what is not sent is not told: {told:?}"
        );
    });
}

#[test]
fn commands_on_a_shared_connection_are_told() {
    let fake = Fake::serve(|command| match command.body.get_i32("ping") {
        Ok(2) => Answer::Reply(doc! { "ok": 0.0, "code": 13, "errmsg": "not for you" }),
        Ok(3) => Answer::End(Vec::new()),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let (client, heard) = observed(&fake.address);
        let handle = client.database("d").multiplexed();
        for (number, end) in [(1, "succeeded"), (2, "failed the server refused"), (3, "failed")] {
            let outcome = handle.run_command(doc! { "ping": number }).await;
            assert_eq!(outcome.is_ok(), end == "succeeded", "{outcome:?}");
            let told = std::mem::take(&mut *heard.lock().expect("no panic"));
            let [(one, id, started), (two, of, ended)] = &told[..] else { panic!("{told:?}") };
            assert!(one == "ping" && two == "ping" && id == of, "{told:?}");
            assert!(started.contains(&format!(r#""ping": {number}"#)), "{started}");
            assert!(ended.starts_with(end), "{ended}");
        }
    });
}

#[test]
fn an_observer_may_use_the_client_that_it_observes() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
    on_core(async move {
        let handle = Arc::new(std::sync::OnceLock::<ringway_mongo::Multiplexed>::new());
        let (own, sent) = (Arc::clone(&handle), std::sync::atomic::AtomicBool::new(false));
        let client = Client::new(options(&fake.address).on_command(move |_| {
            if let Some(handle) = own.get()
                && !sent.swap(true, std::sync::atomic::Ordering::SeqCst)
            {
                let ping = handle.run_command(doc! { "ping": 2 }).into_future();
                drop(ringway_runtime::spawn(ping));
            }
        }));
        let shared = client.database("d").multiplexed();
        handle.set(shared.clone()).expect("once");
        shared.run_command(doc! { "ping": 1 }).await.expect("answered");
        let mut pipeline = client.database("d").pipeline();
        pipeline.push(doc! { "ping": 3 }).expect("a command");
        assert!(pipeline.await.expect("a connection")[0].is_ok());
    });
}
