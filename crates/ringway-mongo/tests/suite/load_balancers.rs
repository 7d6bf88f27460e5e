//! Load balancers: what belongs together stays on one connection, and services fail one by one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Document, doc};
use ringway_mongo::{
    Client, ClientOptions, Collection, PoolChange, ServerType, TransactionOptions,
};
use ringway_runtime::yield_now;

use crate::support::fake::{Answer, Command, Fake, hello, last_batch};
use crate::support::{on_core, options, until};

/// A load balancer: each connection leads to the next of two services.
fn balancer(answer: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> Fake {
    Fake::serve_all(move |command| match command.name() {
        "hello" => {
            assert_eq!(command.body.get_bool("loadBalanced").ok(), Some(true));
            let mut hello = hello();
            hello.insert("msg", "isdbgrid");
            hello.insert("serviceId", service(command.connection));
            Answer::Reply(hello)
        }
        _ => answer(command),
    })
}

fn service(connection: usize) -> ObjectId {
    ObjectId::from_bytes([if connection.is_multiple_of(2) { 1 } else { 2 }; 12])
}

fn address(balancer: &Fake) -> String {
    format!("mongodb://{}/?loadBalanced=true", balancer.place)
}

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("things")
}

/// A batch of one document that another one follows.
fn batch(command: &Command, id: i64) -> Answer {
    let name = if command.name() == "getMore" { "nextBatch" } else { "firstBatch" };
    let documents = vec![doc! { "connection": command.connection as i32 }];
    Answer::Reply(doc! { "cursor": { "id": id, "ns": "d.things", name: documents }, "ok": 1.0 })
}

/// Connections on which a command of a name came.
type Places = Arc<Mutex<Vec<(String, usize)>>>;

fn noting(
    places: &Places,
    answer: impl Fn(&Command) -> Answer + Send + Sync + 'static,
) -> impl Fn(&Command) -> Answer + Send + Sync + 'static {
    let places = Arc::clone(places);
    move |command| {
        let name = command.name().to_owned();
        places.lock().expect("no panic").push((name, command.connection));
        answer(command)
    }
}

#[test]
fn a_load_balancer_is_greeted_and_never_asked() {
    let balancer = balancer(|_| Answer::Reply(doc! { "n": 1, "ok": 1.0 }));
    on_core(async move {
        let client = Client::new(options(&address(&balancer)));
        things(&client).insert_one(&doc! {}).await.expect("it answers");
        assert_eq!(client.servers()[0].kind, ServerType::LoadBalancer);
        assert_eq!(balancer.connections(), 1, "nobody asks how it is");
    });
}

#[test]
fn a_server_that_knows_no_load_balancer_is_refused() {
    let server = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
    on_core(async move {
        let client = Client::new(options(&address(&server)));
        let error = client.database("d").ping().await.expect_err("it has no service");
        assert!(error.to_string().contains("does not support this mode"), "{error}");
        assert!(!error.may_have_happened(), "{error}");
    });
    for wrong in ["a,b/?loadBalanced=true", "a/?loadBalanced=true&replicaSet=rs"] {
        let error = ClientOptions::parse(&format!("mongodb://{wrong}")).expect_err(wrong);
        assert!(error.is_options(), "{error}");
    }
}

#[test]
fn cursors_stay_with_their_connections_and_give_them_back() {
    let places = Places::default();
    let balancer = balancer(noting(&places, |command| match command.name() {
        "find" => batch(command, 7),
        "getMore" if command.connection == 0 => batch(command, 0),
        "getMore" => batch(command, 7),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    }));
    on_core(async move {
        let client = Client::new(options(&address(&balancer)));
        let mut one = things(&client).find(doc! {}).await.expect("a batch");
        let mut other = things(&client).find(doc! {}).await.expect("a batch");
        // Neither connection is there for others.
        client.database("d").ping().await.expect("a third connection");
        for _ in 0..2 {
            assert!(one.advance().await.expect("a batch"));
            assert_eq!(one.current().get_i32("connection").ok(), Some(0));
            assert!(other.advance().await.expect("a batch"));
            assert_eq!(other.current().get_i32("connection").ok(), Some(1));
        }
        assert_eq!(client.idle_connections(), 2, "one has ended");
        assert!(!one.advance().await.expect("the end"));
        drop(other);
        until(|| client.idle_connections() == 3).await;
        let places = places.lock().expect("no panic");
        let killed: Vec<_> = places.iter().filter(|(name, _)| name == "killCursors").collect();
        assert_eq!(killed, [&("killCursors".to_owned(), 1)]);
    });
}

#[test]
fn a_batch_that_nobody_waits_for_loses_the_cursor_and_no_place() {
    let balancer = balancer(|command| match command.name() {
        "find" => batch(command, 7),
        "getMore" => Answer::Silence,
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let client = Client::new(options(&address(&balancer)).pool_size_max(1));
        for _ in 0..3 {
            let mut cursor = things(&client).find(doc! {}).await.expect("a batch");
            assert!(cursor.advance().await.expect("it is here"));
            let sent = balancer.commands();
            crate::support::drop_when(cursor.advance(), || balancer.commands() > sent).await;
            drop(cursor);
            client.database("d").ping().await.expect("the one place is free again");
        }
    });
}

#[test]
fn a_cursor_that_nobody_keeps_holds_no_connection() {
    let balancer = balancer(|command| batch(command, 7));
    on_core(async move {
        let client = Client::new(options(&address(&balancer)).pool_size_max(1));
        for _ in 0..3 {
            // The reply names a cursor, which an action of one document does not take.
            things(&client).find_one(doc! {}).await.expect("a document");
            client.database("d").run_command(doc! { "find": "things" }).await.expect("a reply");
        }
    });
}

#[test]
fn transactions_stay_with_their_connections() {
    let places = Places::default();
    let balancer = balancer(noting(&places, |_| Answer::Reply(doc! { "n": 1, "ok": 1.0 })));
    on_core(async move {
        let client = Client::new(options(&address(&balancer)));
        let (one, other) = (client.start_session(), client.start_session());
        for session in [&one, &other] {
            session.start_transaction(TransactionOptions::new()).expect("the first");
            things(&client).insert_one(&doc! {}).session(session).await.expect("it answers");
        }
        for _ in 0..3 {
            for session in [&other, &one] {
                things(&client).insert_one(&doc! {}).session(session).await.expect("it answers");
            }
        }
        one.commit().await.expect("committed");
        other.abort().await.expect("aborted");
        until(|| client.idle_connections() == 1).await;
        // A transaction that was committed may be committed again, on the same connection.
        one.commit().await.expect("committed");
        assert_eq!(client.idle_connections(), 1);
        drop(one);
        until(|| client.idle_connections() == 2).await;
        let places = places.lock().expect("no panic");
        let count = |name: &str, at: usize| {
            places.iter().filter(|(it, connection)| it == name && *connection == at).count()
        };
        assert_eq!((count("insert", 0), count("insert", 1)), (4, 4));
        assert_eq!((count("commitTransaction", 0), count("abortTransaction", 1)), (2, 1));
        assert_eq!(balancer.connections(), 2);
    });
}

/// Drops a cursor of a transaction and writes in the transaction, so that both want its connection. The server answers the
/// command `slow`, which comes first, only when the other one waits.
fn end_a_cursor_and_write(slow: &'static str) {
    let (go_on, may_go_on) = mpsc::channel();
    let may_go_on = Mutex::new(may_go_on);
    let balancer = balancer(move |command| match command.name() {
        "find" => batch(command, 7),
        name => {
            if name == slow {
                let _the_test_may_have_ended = may_go_on.lock().expect("no panic").recv();
            }
            Answer::Reply(doc! { "n": 1, "ok": 1.0 })
        }
    });
    on_core(async move {
        let client = Client::new(options(&address(&balancer)));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("the first");
        let cursor = things(&client).find(doc! {}).session(&session).await.expect("a batch");
        let mut cursor = Some(cursor);
        if slow == "killCursors" {
            drop(cursor.take());
            until(|| balancer.commands() == 3).await;
        }
        let things = things(&client);
        let mut write = pin!(things.insert_one(&doc! {}).session(&session).into_future());
        let is_waiting = poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx).is_pending())).await;
        assert!(is_waiting, "the connection is in use, or the server does not answer yet");
        if cursor.is_some() {
            until(|| balancer.commands() == 3).await;
            drop(cursor);
            // The task that ends cursors has its turn.
            for _ in 0..10 {
                yield_now().await;
            }
        }
        // It does not wait for a second word.
        go_on.send(()).expect("the server listens");
        drop(go_on);
        write.await.expect("the connection is still that of the transaction");
        things.insert_one(&doc! {}).session(&session).await.expect("and stays it");
        session.commit().await.expect("committed");
        assert_eq!(balancer.connections(), 1);
    });
}

#[test]
fn a_write_of_a_transaction_waits_for_the_end_of_a_cursor_of_it() {
    end_a_cursor_and_write("killCursors");
}

#[test]
fn the_end_of_a_cursor_waits_for_a_write_of_its_transaction() {
    end_a_cursor_and_write("insert");
}

#[test]
fn a_session_that_is_dropped_in_a_transaction_gives_its_connection_back() {
    let balancer = balancer(|_| Answer::Reply(doc! { "n": 1, "ok": 1.0 }));
    on_core(async move {
        let client = Client::new(options(&address(&balancer)).pool_size_max(1));
        for _ in 0..3 {
            let session = client.start_session();
            session.start_transaction(TransactionOptions::new()).expect("the first");
            things(&client).insert_one(&doc! {}).session(&session).await.expect("it answers");
            let error = {
                let apart = things(&client).insert_one(&doc! {});
                apart.timeout(Duration::from_millis(50)).await.expect_err("nothing is free")
            };
            let said = "connections in use by cursors: 0, connections in use by transactions: 1, \
                        connections in use by other operations: 0";
            assert!(error.is_timeout() && error.to_string().contains(said), "{error}");
            drop(session);
            things(&client).insert_one(&doc! {}).await.expect("the one place is free again");
        }
    });
}

#[test]
fn a_service_fails_alone() {
    let fails = Arc::new(AtomicBool::new(false));
    let is_failing = Arc::clone(&fails);
    let balancer = balancer(move |command| match command.name() {
        "find" => batch(command, 7),
        "insert" if command.connection == 1 && is_failing.load(Ordering::SeqCst) => {
            Answer::Reply(doc! { "ok": 0.0, "code": 11600, "errmsg": "interrupted at shutdown" })
        }
        _ => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
    });
    let (cleared, closed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (told, ended) = (Arc::clone(&cleared), Arc::clone(&closed));
    let options = options(&format!("{}&retryWrites=false", address(&balancer)));
    let options = options.on_pool(move |event| match event.change {
        PoolChange::Cleared { service } => told.lock().expect("no panic").push(service),
        PoolChange::ConnectionClosed { .. } => drop(ended.fetch_add(1, Ordering::SeqCst)),
        _ => {}
    });
    on_core(async move {
        let client = Client::new(options);
        let mut cursors = Vec::new();
        // Two connections to each service, of which the second of all is used last, and so next.
        for _ in 0..4 {
            cursors.push(things(&client).find(doc! {}).await.expect("a batch"));
        }
        for last in [3, 2, 0, 0] {
            drop(cursors.remove(last));
            let rest = cursors.len();
            until(|| client.idle_connections() == 4 - rest).await;
        }
        fails.store(true, Ordering::SeqCst);
        things(&client).insert_one(&doc! {}).await.expect_err("it stops");
        until(|| client.idle_connections() == 2).await;
        assert_eq!(*cleared.lock().expect("no panic"), [Some(service(1))]);
        things(&client).insert_one(&doc! {}).await.expect("the other service answers");
        assert_eq!((closed.load(Ordering::SeqCst), balancer.connections()), (2, 4));
        assert_eq!(client.servers()[0].kind, ServerType::LoadBalancer);
    });
}

#[test]
fn reads_say_who_may_answer_and_commands_are_told_with_their_service() {
    let balancer = balancer(|_| Answer::Reply(last_batch(vec![])));
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let options = options(&format!("{}&readPreference=secondaryPreferred", address(&balancer)));
    let options = options.on_command(move |event| {
        if let ringway_mongo::CommandPhase::Started { command } = event.phase {
            let said = command.get_document("$readPreference").ok().map(ToOwned::to_owned);
            heard.lock().expect("no panic").push((event.service, said));
        }
    });
    on_core(async move {
        let client = Client::new(options);
        things(&client).find_one(doc! {}).await.expect("it answers");
        let preference = bson::rawdoc! { "mode": "secondaryPreferred" };
        assert_eq!(*told.lock().expect("no panic"), [(Some(service(0)), Some(preference))]);
    });
}
