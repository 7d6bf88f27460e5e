//! Servers that die under load, fall silent in each phase of an operation, and claim to send more than they do. Nobody gets
//! another's reply, no place of the pool is lost, and each failure says whether the write may have happened.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{Client, Collection};
use ringway_runtime::spawn;
use ringway_wire::mongo::ScramMechanism;

use crate::support::allocations::ALLOCATOR;
use crate::support::alone::alone;
use crate::support::fake::{Answer, Command, Fake, hello, last_batch, reply};
use crate::support::scram::ScramServer;
use crate::support::{on_core, options};

const TASKS: i32 = 16;

/// Operations of each task: enough that the server dies some twenty times meanwhile.
const ROUNDS: i32 = 60;

/// Connections of the pool, fewer than there are tasks, so that each is wanted at once when it is free.
const PLACES: u32 = 4;

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("things")
}

/// A server that dies again and again: with all of its connections, before or after it has executed what came, or in the
/// middle of a reply.
#[derive(Default)]
struct Mortal {
    commands: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
    /// How often each write was executed.
    executed: Mutex<HashMap<i32, usize>>,
}

impl Mortal {
    fn answer(&self, command: &Command) -> Answer {
        let number = self.commands.fetch_add(1, Ordering::SeqCst);
        self.connections.lock().expect("no panic").push(command.stream());
        let dies = number % 31 == 30;
        if dies && number.is_multiple_of(2) {
            self.die();
            return Answer::End(Vec::new());
        }
        let proper = match command.name() {
            "insert" => {
                let written = command.body.get_array("documents").expect("documents");
                let written = written[0].as_document().expect("one");
                let id = written.get_i32("_id").expect("a number");
                *self.executed.lock().expect("no panic").entry(id).or_default() += 1;
                doc! { "n": 1, "ok": 1.0 }
            }
            _ => last_batch(vec![command.body.get_document("filter").expect("one").clone()]),
        };
        let bytes = reply(command.id, &proper);
        if dies {
            self.die();
            return Answer::End(bytes[..number % bytes.len()].to_vec());
        }
        Answer::Bytes(bytes)
    }

    fn die(&self) {
        for stream in self.connections.lock().expect("no panic").drain(..) {
            let _already_ended = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_server_that_dies_under_load_costs_nobody_a_right_answer() {
    let mortal = Arc::new(Mortal::default());
    let (server, is_calm) = (Arc::clone(&mortal), Arc::new(Barrier::new(PLACES as usize)));
    let fake = Fake::serve(move |command| {
        if command.name() == "ping" {
            // It is answered when there are as many of them as the pool has places.
            is_calm.wait();
            return Answer::Reply(doc! { "ok": 1.0 });
        }
        server.answer(command)
    });
    on_core(async move {
        let client = Client::new(options(&fake.address).retry_reads(false).pool_size_max(PLACES));
        let work = |task: i32| {
            let client = client.clone();
            spawn(async move {
                let mut written = Vec::new();
                for round in 0..ROUNDS {
                    let id = task * ROUNDS + round;
                    written.push((id, things(&client).insert_one(&doc! { "_id": id }).await));
                    match things(&client).find_one(doc! { "at": id }).await {
                        Ok(found) => assert_eq!(found, Some(doc! { "at": id })),
                        Err(error) => assert!(error.is_network(), "{error}"),
                    }
                }
                written
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(work).collect();
        let (mut confirmed, mut open, mut undone) = (0, 0, 0);
        for task in tasks {
            for (id, outcome) in task.await.expect("no panic") {
                let times = mortal.executed.lock().expect("no panic").get(&id).copied();
                let times = times.unwrap_or_default();
                match outcome {
                    Ok(_) => {
                        assert_eq!(times, 1, "write {id} is confirmed");
                        confirmed += 1;
                    }
                    Err(error) if error.may_have_happened() => {
                        assert!(error.is_network() && times <= 1, "write {id}: {error}");
                        open += 1;
                    }
                    Err(error) => {
                        assert!(error.is_network(), "{error}");
                        assert_eq!(times, 0, "write {id} is said not to have happened: {error}");
                        undone += 1;
                    }
                }
            }
        }
        assert_eq!(confirmed + open + undone, TASKS * ROUNDS);
        assert!(confirmed > 0 && open > 0, "{confirmed} confirmed, {open} open, {undone} not done");
        // Every place of the pool is there still: only so many pings at a time are answered.
        let pings = (0..PLACES).map(|_| {
            let client = client.clone();
            spawn(async move { client.database("d").ping().await })
        });
        for ping in pings.collect::<Vec<_>>() {
            ping.await.expect("no panic").expect("answered");
        }
    });
}

/// What a silent server does with the first connection; the others are proper.
fn answer_others(command: &Command) -> Answer {
    match command.name() {
        "hello" => Answer::Reply(hello()),
        _ => Answer::Reply(last_batch(vec![doc! { "at": 1 }])),
    }
}

/// A time that no proper answer takes: the server that has to be waited for is silent.
const SHORT: Duration = Duration::from_millis(300);

/// Runs an operation at a server that falls silent, and then one at the same server, which is proper by then.
fn check_silence(phase: &str, fake: Fake, login: &str, may_have_happened: bool) {
    let phase = phase.to_owned();
    let uri = fake.address.replace("mongodb://", &format!("mongodb://{login}"));
    on_core(async move {
        let settings = options(&format!("{uri}&connectTimeoutMS=2000")).pool_size_max(1);
        let client = Client::new(settings);
        let error = things(&client).find_one(doc! {}).timeout(SHORT).await.expect_err(&phase);
        assert!(error.is_timeout(), "{phase}: {error}");
        assert_eq!(error.may_have_happened(), may_have_happened, "{phase}: {error}");
        let found = things(&client).find_one(doc! {}).await;
        assert!(found.is_ok(), "{phase}: the only place of the pool is free again: {found:?}");
    });
}

#[test]
fn a_time_that_ends_in_any_phase_says_so() {
    let silent_on_first = |silent: &'static str| {
        Fake::serve_all(move |command| match command.connection {
            0 if command.name() == silent => Answer::Silence,
            _ => answer_others(command),
        })
    };
    let mut phases = vec![
        ("while it is greeted".to_owned(), silent_on_first("hello"), "", false),
        ("before the reply".to_owned(), silent_on_first("find"), "", true),
    ];
    for cut in [1, 15, 16, 20, 30] {
        let fake = Fake::serve(move |command| match command.connection {
            0 => {
                let whole = reply(command.id, &last_batch(vec![]));
                Answer::Bytes(whole[..cut].to_vec())
            }
            _ => answer_others(command),
        });
        phases.push((format!("behind {cut} bytes of the reply"), fake, "", true));
    }
    for silent in ["saslStart", "saslContinue"] {
        let scram = ScramServer::new(ScramMechanism::Sha256);
        let scram = ScramServer { speculates: false, ..scram };
        let fake = Fake::serve_all(move |command| match command.connection {
            0 if command.name() == silent => Answer::Silence,
            _ => scram.answer(command).unwrap_or_else(|| answer_others(command)),
        });
        phases.push((silent.to_owned(), fake, "ada:pencil@", false));
    }
    // Each waits for its time, so all wait together.
    std::thread::scope(|scope| {
        for (phase, fake, user, may_have_happened) in phases {
            scope.spawn(move || check_silence(&phase, fake, user, may_have_happened));
        }
    });
}

#[test]
fn a_time_that_ends_while_a_server_is_chosen_says_so() {
    let fake = Fake::serve_all(|_| {
        Answer::Reply(doc! { "isreplicaset": true, "maxWireVersion": 21, "ok": 1.0 })
    });
    on_core(async move {
        let client = Client::new(options(&format!("mongodb://{}/?replicaSet=rs", fake.place)));
        let error = things(&client).insert_one(&doc! {}).timeout(SHORT).await.expect_err("no set");
        assert!(error.is_timeout() && !error.may_have_happened(), "{error}");
    });
}

#[test]
fn a_time_that_ends_before_a_further_batch_says_so() {
    let fake = Fake::serve(|command| match command.name() {
        "find" => {
            let cursor = doc! { "id": 7_i64, "ns": "d.things", "firstBatch": [{ "at": 1 }] };
            Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
        }
        "getMore" => Answer::Silence,
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address).pool_size_max(1));
        let mut cursor = things(&client).find(doc! {}).timeout(SHORT).await.expect("a batch");
        assert!(cursor.advance().await.expect("a document"));
        let error = cursor.advance().await.expect_err("the next batch does not come");
        assert!(error.is_timeout() && error.may_have_happened(), "{error}");
        client.database("d").ping().await.expect("the only place of the pool is free again");
    });
}

/// A server that greets and then reads no more on its first connection.
fn deaf() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address =
        format!("mongodb://{}/?directConnection=true", listener.local_addr().expect("one"));
    thread::spawn(move || {
        let mut deaf = None;
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            while let Some(id) = read(&mut stream) {
                let answer = if deaf.is_none() { hello() } else { answer_to_any() };
                stream.write_all(&reply(id, &answer)).expect("the client is there");
                if deaf.is_none() {
                    break;
                }
            }
            deaf.get_or_insert(stream);
        }
    });
    address
}

fn answer_to_any() -> Document {
    let mut answer = hello();
    answer.extend(last_batch(vec![]));
    answer
}

/// Reads a command, and returns its number.
fn read(stream: &mut TcpStream) -> Option<i32> {
    let mut header = [0; 16];
    stream.read_exact(&mut header).ok()?;
    let len = u32::from_le_bytes(header[..4].try_into().expect("four")) as usize;
    let mut rest = vec![0; len - header.len()];
    stream.read_exact(&mut rest).ok()?;
    Some(i32::from_le_bytes(header[4..8].try_into().expect("four")))
}

#[test]
fn a_time_that_ends_while_a_command_is_sent_says_so() {
    let address = deaf();
    on_core(async move {
        let client = Client::new(options(&address).retry_reads(false).pool_size_max(1));
        // More than any socket takes by itself.
        let text = "x".repeat(15 << 20);
        let many = vec![doc! { "text": text }; 3];
        let error = things(&client).insert_many(&many).timeout(SHORT).await.expect_err("deaf");
        assert!(error.is_timeout() && error.may_have_happened(), "{error}");
        let found = things(&client).find_one(doc! {}).await;
        assert!(found.is_ok(), "the only place of the pool is free again: {found:?}");
    });
}

#[test]
fn a_reply_that_claims_much_takes_no_more_than_it_brings() {
    /// The longest reply there is, of which so many bytes come.
    const CLAIMED: i32 = 48_000_000;
    const BROUGHT: usize = 64 << 10;
    /// With what the client needs for anything else.
    const TAKEN_MAX: usize = 4 << 20;
    alone(|| {
        let fake = Fake::serve(|command| {
            let mut bytes = reply(command.id, &last_batch(vec![]));
            bytes[..4].copy_from_slice(&CLAIMED.to_le_bytes());
            // The body and its batch claim as much.
            bytes[21..25].copy_from_slice(&(CLAIMED - 21).to_le_bytes());
            bytes.resize(BROUGHT, 0);
            Answer::Bytes(bytes)
        });
        on_core(async move {
            let client = Client::new(options(&fake.address).retry_reads(false));
            let before = ALLOCATOR.stats().bytes_allocated;
            let found = things(&client).find_one(doc! {}).timeout(SHORT).await;
            let taken = ALLOCATOR.stats().bytes_allocated - before;
            let error = found.expect_err("the rest never comes");
            assert!(error.is_timeout() && error.may_have_happened(), "{error}");
            assert!(taken < TAKEN_MAX, "{taken} bytes for {BROUGHT} of {CLAIMED}");
        });
    });
}
