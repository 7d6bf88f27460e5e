//! The declared version of the server's interface, and who the client is by the program's own word.

use std::sync::{Arc, Mutex};

use bson::{Document, doc};
use ringway_mongo::{
    AuthMechanism, Client, ClientOptions, Collection, Credential, ServerApi, ServerApiVersion,
    TransactionOptions,
};
use ringway_wire::mongo::ScramMechanism;

use crate::support::fake::{Answer, Command, Fake, hello, last_batch, streamed_batches};
use crate::support::scram::ScramServer;
use crate::support::{on_core, options, until};

type Log = Arc<Mutex<Vec<Document>>>;

/// A server that keeps all that it is told, with the names of messages as they are.
fn logging(answer: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> (Fake, Log) {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let fake = Fake::serve_to_the_end(move |command| {
        kept.lock().expect("no panic").push(command.body.clone());
        answer(command)
    });
    (fake, log)
}

/// Uses a client in every way that sends commands.
async fn use_it(client: Client) {
    let database = client.database("d");
    let things: Collection<Document> = database.collection("c");
    database.ping().await.expect("answered");
    things.insert_one(&doc! { "n": 1 }).await.expect("written");
    for is_exhaust in [false, true] {
        let cursor = things.find(doc! { "n": 1 }).exhaust(is_exhaust).await.expect("found");
        assert_eq!(cursor.collect().await.expect("read").len(), 2);
    }
    let mut pipeline = database.pipeline();
    pipeline.push(doc! { "ping": 1 }).expect("it may be sent");
    pipeline.await.expect("answered");
    database.multiplexed().run_command(doc! { "ping": 1 }).await.expect("answered");
    let session = client.start_session();
    session.start_transaction(TransactionOptions::new()).expect("none is under way");
    things.insert_one(&doc! { "n": 2 }).session(&session).await.expect("written");
    session.commit().await.expect("committed");
    drop(session);
    client.shutdown().await.expect("told");
}

/// Specification: Stable API, "Sending Declared API Version to the Server".
#[test]
fn every_command_declares_the_version() {
    let scram = ScramServer { speculates: false, ..ScramServer::new(ScramMechanism::Sha256) };
    let (fake, log) = logging(move |command| match command.name() {
        "find" => {
            let cursor = doc! { "id": 7_i64, "ns": "d.c", "firstBatch": [{ "n": 1 }] };
            Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
        }
        "getMore" => {
            Answer::Bytes(streamed_batches(command.id, vec![vec![doc! { "n": 2 }]], true).concat())
        }
        "hello" if !command.body.contains_key("saslSupportedMechs") => Answer::Reply(hello()),
        _ => scram.answer(command).unwrap_or_else(|| Answer::Reply(doc! { "n": 1, "ok": 1.0 })),
    });
    let api = ServerApi::new(ServerApiVersion::V1).strict(false);
    // The monitors of the server as well.
    let options = options(&format!("mongodb://{}", fake.place)).server_api(api);
    let options = options.credential(Credential::new("ada", "pencil")).expect("a user");
    on_core(async move {
        use_it(Client::new(options)).await;
        until(|| fake.ended() > 0).await;
    });
    let log = log.lock().expect("no panic");
    let names: Vec<_> = log.iter().map(|it| it.keys().next().expect("a name").as_str()).collect();
    for name in [
        "hello",
        "saslStart",
        "saslContinue",
        "ping",
        "insert",
        "find",
        "getMore",
        "commitTransaction",
        "endSessions",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for command in &*log {
        assert_eq!(command.get_str("apiVersion").ok(), Some("1"), "{command}");
        assert_eq!(
            command.get_bool("apiStrict").ok(),
            Some(false),
            "what is set is told: {command}"
        );
        assert!(!command.contains_key("apiDeprecationErrors"), "what is not set is not: {command}");
        assert!(!command.contains_key("isMaster"), "it has another name: {command}");
    }
}

/// What stands in a connection string has to be encoded, and this has not.
#[test]
fn a_credential_of_the_program_may_have_any_characters() {
    const PASSWORD: &str = "p@ss:/%w0rd?#[]";
    let server = ScramServer { password: PASSWORD, ..ScramServer::new(ScramMechanism::Sha256) };
    let fake = Fake::serve_all(move |command| {
        server.answer(command).unwrap_or_else(|| Answer::Reply(last_batch(Vec::new())))
    });
    let ada = Credential::new("ada", PASSWORD);
    let options = options(&fake.address).credential(ada).expect("a user");
    assert!(!format!("{options:?}").contains(PASSWORD));
    on_core(async move {
        Client::new(options).database("d").ping().await.expect("the right password");
    });
    let plain = ClientOptions::parse("mongodb://a").expect("an address");
    let wrong = |credential| plain.clone().credential(credential).expect_err("it is wrong");
    assert!(wrong(Credential::x509().source("admin")).is_options());
    let with_password = Credential::new("ada", PASSWORD).mechanism(AuthMechanism::X509);
    let error = wrong(with_password);
    assert!(error.is_options() && !error.to_string().contains(PASSWORD), "{error}");
}

/// Without TLS there is no certificate to show.
#[test]
fn a_user_of_a_certificate_is_none_without_tls() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
    let options = options(&fake.address).credential(Credential::x509()).expect("a user");
    on_core(async move {
        let error = Client::new(options).database("d").ping().await.expect_err("no TLS");
        assert!(error.is_options() && error.to_string().contains("TLS"), "{error}");
        assert_eq!(fake.commands(), 0, "nothing was said to the server");
    });
}
