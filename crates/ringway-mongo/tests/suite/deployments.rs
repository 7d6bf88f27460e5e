//! Deployments of several servers, and servers that go and come back: no operation fails that need not, and no write is
//! executed twice.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use ringway_mongo::{
    Acknowledgment, Client, Collection, ReadConcern, ReadMode, ReadPreference, WriteConcern,
};

use crate::support::fake::{Answer, Command, Fake, last_batch};
use crate::support::replica_set::{ReplicaSet, SetState, not_primary};
use crate::support::{on_core, options, until};

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("things")
}

/// Executes writes on the primary alone; finds nothing.
fn proper(state: &mut SetState, member: usize, command: &Command) -> Answer {
    match command.name() {
        "find" => Answer::Reply(last_batch(vec![doc! { "member": member as i32 }])),
        _ if state.primary != Some(member) => not_primary(),
        _ => Answer::Reply(doc! { "n": 1, "nModified": 1, "ok": 1.0 }),
    }
}

#[test]
fn writes_go_to_the_primary_whichever_member_is_named() {
    let set = ReplicaSet::start(3, proper);
    on_core(async move {
        let client = Client::new(options(&set.address(&[2])));
        for number in 0..10 {
            things(&client).insert_one(&doc! { "at": number }).await.expect("a primary");
        }
        let inserted = set.got("insert");
        assert!(inserted.iter().all(|(member, _)| *member == 0), "{inserted:?}");
        let numbers = inserted.iter().map(|(_, body)| body.get_i64("txnNumber").ok());
        assert_eq!(numbers.collect::<Vec<_>>(), (1..=10).map(Some).collect::<Vec<_>>());
        assert!(inserted.iter().all(|(_, body)| body.get_document("$readPreference").is_err()));
    });
}

#[test]
fn reads_go_where_the_preference_allows() {
    let set = ReplicaSet::start(3, proper);
    on_core(async move {
        let preference = ReadPreference::new(ReadMode::Secondary);
        // A loaded machine answers some members much later than others.
        let address = format!("{}&localThresholdMS=60000", set.address(&[0]));
        let options = options(&address).read_preference(preference).expect("possible");
        let client = Client::new(options);
        let has_read = |member| set.got("find").iter().any(|(it, _)| *it == member);
        while !has_read(1) || !has_read(2) {
            things(&client).find_one(doc! {}).await.expect("a secondary");
        }
        let found = set.got("find");
        assert!(found.iter().all(|(member, _)| *member != 0), "{found:?}");
        let mode = |body: &Document| body.get_document("$readPreference").ok().cloned();
        assert!(found.iter().all(|(_, body)| mode(body) == Some(doc! { "mode": "secondary" })));
        things(&client).insert_one(&doc! {}).await.expect("writes go to the primary all the same");
    });
}

#[test]
fn lists_are_the_primarys() {
    let set = ReplicaSet::start(2, |state, member, command| match command.name() {
        "listCollections" | "listIndexes" => Answer::Reply(last_batch(vec![])),
        "listDatabases" => Answer::Reply(doc! { "databases": [], "ok": 1.0 }),
        _ => proper(state, member, command),
    });
    on_core(async move {
        let address = format!("{}&readPreference=secondary", set.address(&[0, 1]));
        let client = Client::new(options(&address));
        let database = client.database("d");
        drop(database.list_collections(doc! {}).await.expect("listed"));
        database.list_collection_names().await.expect("listed");
        drop(things(&client).list_indexes().await.expect("listed"));
        client.list_databases(doc! {}).await.expect("listed");
        client.list_database_names().await.expect("listed");
        for name in ["listCollections", "listIndexes", "listDatabases"] {
            let got = set.got(name);
            assert!(!got.is_empty() && got.iter().all(|(member, _)| *member == 0), "{got:?}");
            assert!(got.iter().all(|(_, body)| !body.contains_key("$readPreference")), "{got:?}");
        }
        // Whether a bucket has files is asked before its indexes are made.
        database.gridfs().upload("emma.txt", b"Emma").await.expect("uploaded");
        let asked: Vec<_> = set.got("find").iter().map(|(member, _)| *member).collect();
        assert_eq!(asked, [0]);
    });
}

#[test]
fn a_collection_and_an_action_have_preferences_of_their_own() {
    let set = ReplicaSet::start(2, proper);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let secondary = ReadPreference::new(ReadMode::Secondary);
        let apart = things(&client).read_preference(&secondary).expect("possible");
        apart.find_one(doc! {}).await.expect("the secondary");
        let primary = ReadPreference::default();
        apart.find_one(doc! {}).read_preference(&primary).await.expect("the primary");
        things(&client).find_one(doc! {}).await.expect("the primary");
        things(&client).find(doc! {}).read_preference(&secondary).await.expect("the secondary");
        apart.insert_one(&doc! {}).await.expect("writes go to the primary all the same");
        let said = |body: &Document| body.get_document("$readPreference").ok().cloned();
        let found: Vec<_> =
            set.got("find").iter().map(|(member, body)| (*member, said(body))).collect();
        let secondary = (1, Some(doc! { "mode": "secondary" }));
        assert_eq!(found, [secondary.clone(), (0, None), (0, None), secondary]);
        let mut old = ReadPreference::default();
        old.max_staleness = Some(Duration::from_secs(90));
        assert!(
            things(&client).read_preference(&old).expect_err("a lag of the primary").is_options()
        );
        let refused = things(&client).find_one(doc! {}).read_preference(&old).await;
        assert!(refused.expect_err("a lag of the primary").is_options());
    });
}

#[test]
fn a_database_has_concerns_of_its_own() {
    let set = ReplicaSet::start(2, proper);
    on_core(async move {
        let client = Client::new(options(&format!("{}&w=1", set.address(&[0, 1]))));
        let mut two = WriteConcern::default();
        two.w = Some(Acknowledgment::Nodes(2));
        let majority = ReadConcern { level: "majority".into() };
        let database = client.database("d").read_concern(&majority);
        let database = database.write_concern(&two).expect("a concern");
        let secondary = ReadPreference::new(ReadMode::Secondary);
        let database = database.read_preference(&secondary).expect("a preference");
        let things = database.collection::<Document>("c");
        things.insert_one(&doc! {}).await.expect("inserted");
        things.find_one(doc! {}).await.expect("found");
        database.create_collection("new").await.expect("made");
        database.drop().await.expect("dropped");
        for name in ["insert", "create", "dropDatabase"] {
            let (member, body) = &set.got(name)[0];
            assert_eq!(
                (*member, body.get_document("writeConcern").ok()),
                (0, Some(&doc! { "w": 2 }))
            );
        }
        let (member, find) = &set.got("find")[0];
        let level = doc! { "level": "majority" };
        assert_eq!((*member, find.get_document("readConcern").ok()), (1, Some(&level)));
    });
}

#[test]
fn the_names_of_indexes_are_listed() {
    let set = ReplicaSet::start(1, |_, _, _| {
        Answer::Reply(last_batch(vec![doc! { "name": "_id_" }, doc! { "name": "title_1" }]))
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let names = things(&client).list_index_names().await.expect("listed");
        assert_eq!(names, ["_id_", "title_1"]);
    });
}

#[test]
fn a_write_whose_primary_steps_down_is_executed_by_the_next_one() {
    let set = ReplicaSet::start(3, |state, member, command| {
        if command.name() == "insert" && member == 0 && state.primary == Some(0) {
            state.elect(Some(1));
        }
        proper(state, member, command)
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0, 1, 2])));
        things(&client).insert_one(&doc! {}).await.expect("the next primary takes it");
        let inserted = set.got("insert");
        let [(0, first), (1, second)] = &inserted[..] else { panic!("{inserted:?}") };
        for field in ["lsid", "txnNumber", "documents"] {
            assert_eq!(first.get(field), second.get(field), "{field} is the same");
        }
        things(&client).insert_one(&doc! {}).await.expect("it is known now");
        assert_eq!(set.got("insert").len(), 3);
    });
}

#[test]
fn a_write_whose_connection_breaks_keeps_its_number() {
    let set = ReplicaSet::start(1, |state, member, command| match state.log.len() {
        1 => Answer::End(Vec::new()),
        _ => proper(state, member, command),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        things(&client).update_one(doc! {}, doc! { "$inc": { "a": 1 } }).await.expect("at last");
        let updated = set.got("update");
        let [(_, first), (_, second)] = &updated[..] else { panic!("{updated:?}") };
        assert_eq!(first, second, "the server knows it again");
    });
}

#[test]
fn writes_that_cannot_be_numbered_are_sent_once() {
    let cut_once = |state: &mut SetState, member, command: &Command| match state.log.len() {
        1 => Answer::End(Vec::new()),
        _ => proper(state, member, command),
    };
    for kind in 0..3 {
        let set = ReplicaSet::start(1, cut_once);
        on_core(async move {
            let options = options(&set.address(&[0])).retry_writes(kind != 0);
            let client = Client::new(options);
            let change = doc! { "$inc": { "a": 1 } };
            let things = things(&client);
            let error = match kind {
                0 => things.update_one(doc! {}, change).await.map(drop),
                1 => things.update_many(doc! {}, change).await.map(drop),
                _ => client.database("d").run_command(doc! { "update": "things" }).await.map(drop),
            }
            .expect_err("nobody may send it again");
            assert!(error.may_have_happened(), "{error}");
            let updated = set.got("update");
            assert!(updated.len() == 1 && updated[0].1.get("txnNumber").is_none(), "{updated:?}");
        });
    }
}

#[test]
fn a_server_that_stands_alone_gets_no_numbers() {
    let fake = Fake::serve(|command| {
        assert!(command.body.get("txnNumber").is_none() && command.body.get("lsid").is_some());
        Answer::End(Vec::new())
    });
    on_core(async move {
        let client = Client::new(options(&format!("mongodb://{}", fake.place)));
        let error = things(&client).insert_one(&doc! {}).await.expect_err("it is cut");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
    });
}

#[test]
fn an_unconfirmed_write_is_sent_again_and_its_last_answer_counts() {
    let set = ReplicaSet::start(2, |state, member, command| {
        let mut reply = doc! { "n": 1, "ok": 1.0 };
        if command.name() == "insert" && member == 0 {
            reply
                .insert("writeConcernError", doc! { "code": 91, "errmsg": "shutdown in progress" });
            reply.insert("errorLabels", ["RetryableWriteError"].map(str::to_owned).to_vec());
            state.elect(Some(1));
        }
        Answer::Reply(reply)
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0, 1])));
        things(&client).insert_one(&doc! {}).await.expect("confirmed by the next primary");
        let members: Vec<_> = set.got("insert").into_iter().map(|(member, _)| member).collect();
        assert_eq!(members, [0, 1]);
    });
}

#[test]
fn operations_wait_for_the_election_of_a_primary() {
    let set = ReplicaSet::start(2, proper);
    set.state().elect(None);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0, 1])));
        let things = things(&client);
        let writes: Vec<_> = (0..10)
            .map(|at| {
                let things = things.clone();
                ringway_runtime::spawn(async move { things.insert_one(&doc! { "at": at }).await })
            })
            .collect();
        while set.members.iter().any(|member| member.commands() < 2) {
            ringway_runtime::yield_now().await;
        }
        assert_eq!(set.got("insert").len(), 0, "nobody may take it yet");
        set.state().elect(Some(1));
        for write in writes {
            write.await.expect("no panic").expect("elected");
        }
        assert!(set.got("insert").iter().all(|(member, _)| *member == 1));
    });
}

#[test]
fn who_waits_for_a_connection_to_a_dead_server_is_sent_to_the_next_primary() {
    let set = ReplicaSet::start(2, |state, member, command| match member {
        0 => Answer::Silence,
        _ => proper(state, member, command),
    });
    on_core(async move {
        let address = format!("{}&heartbeatFrequencyMS=500", set.address(&[0, 1]));
        let things = things(&Client::new(options(&address).pool_size_max(1)));
        let insert = |at: i32| {
            let things = things.clone();
            ringway_runtime::spawn(async move { things.insert_one(&doc! { "at": at }).await })
        };
        let first = insert(1);
        while set.got("insert").is_empty() {
            ringway_runtime::yield_now().await;
        }
        let second = insert(2);
        ringway_runtime::yield_now().await;
        set.state().dead.push(0);
        set.state().elect(Some(1));
        second.await.expect("no panic").expect("it waits for no answer of the dead one");
        assert!(!first.is_finished(), "nobody has answered it");
        first.abort();
    });
}

#[test]
fn without_a_primary_the_error_says_what_is_known_of_each_server() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let set = ReplicaSet::start(1, proper);
    set.state().elect(None);
    set.state().hosts.push(nobody.to_string());
    on_core(async move {
        let limit = Duration::from_millis(300);
        let client = Client::new(options(&set.address(&[0])).selection_timeout(limit));
        let error = things(&client).insert_one(&doc! {}).await.expect_err("no primary");
        assert!(error.is_network() && !error.may_have_happened(), "{error}");
        let text = error.to_string();
        let of_member = format!("{}: Secondary", set.members[0].place);
        let of_nobody = format!("{nobody}: no connection");
        assert!(text.contains(&of_member) && text.contains(&of_nobody), "{text}");
        let options = options(&set.address(&[0])).timeout(limit);
        let error = things(&Client::new(options)).insert_one(&doc! {}).await.expect_err("the same");
        assert!(error.is_timeout() && error.to_string().contains(&of_member), "{error}");
    });
}

#[test]
fn a_cursor_goes_on_at_the_member_that_has_it() {
    let set = ReplicaSet::start(3, |_, member, command| {
        let id = i64::from(command.body.get_i64("getMore").is_err()) * (member as i64 + 1);
        let cursor = match command.name() {
            "find" => doc! { "id": id, "ns": "d.c", "firstBatch": [{ "a": member as i32 }] },
            "getMore" => doc! { "id": 0_i64, "ns": "d.c", "nextBatch": [{ "a": member as i32 }] },
            _ => doc! {},
        };
        Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
    });
    on_core(async move {
        let preference = ReadPreference::new(ReadMode::Nearest);
        let options = options(&set.address(&[0])).read_preference(preference).expect("possible");
        let client = Client::new(options);
        for number in 0..12 {
            let mut cursor = things(&client).find(doc! {}).await.expect("found");
            let first = cursor.next().await.expect("a batch").expect("a document");
            if number % 2 == 0 {
                let second = cursor.next().await.expect("its member goes on").expect("a document");
                assert_eq!(first, second);
            }
        }
        while set.got("killCursors").len() < 6 {
            ringway_runtime::yield_now().await;
        }
        for (member, body) in set.got("getMore") {
            assert_eq!(body.get_i64("getMore").ok(), Some(member as i64 + 1));
        }
        for (member, body) in set.got("killCursors") {
            assert_eq!(body.get("cursors"), Some(&bson::bson!([member as i64 + 1])));
        }
    });
}

#[test]
fn a_secondary_that_is_used_as_it_is_answers_reads() {
    let set = ReplicaSet::start(2, proper);
    on_core(async move {
        let client = Client::new(options(&set.members[1].address));
        things(&client).find_one(doc! {}).await.expect("allowed");
        let [(1, find)] = &set.got("find")[..] else { panic!("it goes to that member") };
        let mode = find.get_document("$readPreference").ok();
        assert_eq!(mode.cloned(), Some(doc! { "mode": "primaryPreferred" }));
        let database = client.database("d");
        database.run_command(doc! { "find": "things" }).await.expect("allowed too");
        let own = doc! { "find": "things", "$readPreference": { "mode": "nearest" } };
        database.run_command(own).await.expect("what the user says holds");
        let modes = set.got("find").into_iter().map(|(_, find)| {
            find.get_document("$readPreference")
                .and_then(|it| it.get_str("mode").map(str::to_owned))
                .ok()
        });
        let modes: Vec<_> = modes.flatten().collect();
        assert_eq!(modes, ["primaryPreferred", "primaryPreferred", "nearest"]);
        assert_eq!(set.members[0].connections(), 0, "nobody else is asked");
    });
}

#[test]
fn a_server_of_another_set_is_refused() {
    let set = ReplicaSet::start(1, proper);
    on_core(async move {
        let address = format!("{}&replicaSet=other", set.members[0].address);
        let error = things(&Client::new(options(&address))).find_one(doc! {}).await;
        let error = error.expect_err("it is of another set").to_string();
        assert!(error.contains("is rs, and the connection string requires other"), "{error}");
    });
}

#[test]
fn operations_outlive_a_server_that_is_started_again() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1 }));
    let proxy = Proxy::start(&fake.place);
    on_core(async move {
        let client = Client::new(options(&format!("mongodb://{}", proxy.place)));
        let database = client.database("d");
        database.ping().await.expect("it is there");
        proxy.set_up(false);
        let ping = ringway_runtime::spawn({
            let database = database.clone();
            async move {
                // The first may meet the end of its connection; it was no read that may be repeated.
                let _first = database.ping().await;
                database.ping().await
            }
        });
        while client.idle_connections() > 0 || proxy.refused() == 0 {
            ringway_runtime::yield_now().await;
        }
        proxy.set_up(true);
        ping.await.expect("no panic").expect("it is back");
    });
}

#[test]
fn a_member_that_leaves_the_set_is_not_asked_any_more() {
    let set = ReplicaSet::start(2, proper);
    on_core(async move {
        let client =
            Client::new(options(&format!("{}&heartbeatFrequencyMS=500", set.address(&[0]))));
        things(&client).insert_one(&doc! {}).await.expect("a primary");
        while set.members[1].commands() == 0 {
            ringway_runtime::yield_now().await;
        }
        set.state().hosts.pop();
        while set.members[1].ended() < set.members[1].connections() {
            ringway_runtime::yield_now().await;
        }
        things(&client).insert_one(&doc! {}).await.expect("the primary stays");
    });
}

/// Its own monitor finds that out, and ends with it.
#[test]
fn a_server_of_another_set_is_left_out() {
    let (set, other) = (ReplicaSet::start(1, proper), ReplicaSet::start(1, proper));
    other.state().name = "other";
    on_core(async move {
        let address =
            format!("mongodb://{},{}/?replicaSet=rs", set.members[0].place, other.members[0].place);
        let client = Client::new(options(&address));
        things(&client).insert_one(&doc! {}).await.expect("a primary");
        let other = &other.members[0];
        while client.servers().len() > 1
            || other.ended() < other.connections()
            || other.commands() == 0
        {
            ringway_runtime::yield_now().await;
        }
        assert_eq!(client.servers()[0].address.to_string(), set.members[0].place);
    });
}

#[test]
fn what_servers_say_of_themselves_is_bounded() {
    let long = "x".repeat(100_000);
    for (is_ok, part) in [(1.0, "broke the protocol"), (0.0, "xxx")] {
        let text = if is_ok > 0.0 { long.clone() } else { "x".repeat(10_000) };
        let answer =
            doc! { "ok": is_ok, "errmsg": text, "isWritablePrimary": true, "maxWireVersion": 21 };
        let fake = Fake::serve_all(move |_| Answer::Reply(answer.clone()));
        on_core(async move {
            let options = options(&format!("mongodb://{}", fake.place));
            let client = Client::new(options.selection_timeout(Duration::from_millis(200)));
            let error =
                client.database("d").ping().await.expect_err("it says too much").to_string();
            assert!(error.contains(part) && error.len() < 1_000, "{} bytes: {error}", error.len());
        });
    }
}

#[test]
fn a_client_that_is_dropped_asks_nobody_any_more() {
    let set = ReplicaSet::start(2, proper);
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        things(&client).insert_one(&doc! {}).await.expect("a primary");
        while set.members[1].commands() == 0 {
            ringway_runtime::yield_now().await;
        }
        drop(client);
        while set.members.iter().any(|member| member.ended() < member.connections()) {
            ringway_runtime::yield_now().await;
        }
    });
}

#[test]
fn a_set_without_end_is_bounded() {
    let set = ReplicaSet::start(1, proper);
    let own = set.members[0].place.clone();
    let hosts = (0..2_000).map(|number| format!("127.1.{}.{}:1", number / 250, number % 250 + 1));
    set.state().hosts = std::iter::once(own).chain(hosts).collect();
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])).selection_timeout(Duration::ZERO));
        let begun = Instant::now();
        while things(&client).insert_one(&doc! {}).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the primary is found all the same");
            ringway_runtime::sleep(Duration::from_millis(10)).await;
        }
        let text = format!("{:?}", client.servers());
        assert_eq!(client.servers().len(), 256, "{text}");
    });
}

/// Passes connections on to a server, or ends them.
struct Proxy {
    place: String,
    is_up: std::sync::Arc<std::sync::Mutex<ProxyState>>,
}

#[derive(Default)]
struct ProxyState {
    is_down: bool,
    refused: usize,
    open: Vec<std::net::TcpStream>,
}

impl Proxy {
    fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("bound").to_string();
        let state = std::sync::Arc::new(std::sync::Mutex::new(ProxyState::default()));
        let (shared, to) = (std::sync::Arc::clone(&state), to.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut state = shared.lock().expect("no test panics here");
                if state.is_down {
                    state.refused += 1;
                    continue;
                }
                let server = std::net::TcpStream::connect(&to).expect("the server is there");
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let copy = |it: &std::net::TcpStream| it.try_clone().expect("a descriptor");
                    let (mut from, mut to) = (copy(from), copy(to));
                    std::thread::spawn(move || {
                        let _ended = std::io::copy(&mut from, &mut to);
                        let _both = to.shutdown(std::net::Shutdown::Both);
                    });
                }
                state.open.push(client);
            }
        });
        Self { place, is_up: state }
    }

    fn set_up(&self, is_up: bool) {
        let mut state = self.is_up.lock().expect("no test panics here");
        state.is_down = !is_up;
        for client in state.open.drain(..) {
            let _gone = client.shutdown(std::net::Shutdown::Both);
        }
    }

    fn refused(&self) -> usize {
        self.is_up.lock().expect("no test panics here").refused
    }
}

#[test]
fn a_client_is_gone_at_once_when_it_is_dropped_while_a_server_does_not_answer() {
    let set = ReplicaSet::start(2, proper);
    set.state().dead.push(1);
    on_core(async move {
        // Longer than the test may take.
        let address = format!("{}&heartbeatFrequencyMS=600000", set.address(&[0]));
        let client = Client::new(options(&address));
        things(&client).insert_one(&doc! {}).await.expect("a primary");
        until(|| client.servers().iter().any(|server| server.error.is_some())).await;
        drop(client);
        until(|| set.members[0].ended() == set.members[0].connections()).await;
    });
}
