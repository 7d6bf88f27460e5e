//! SCRAM from the first message to the first command, with servers of every kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::doc;
use ringway_mongo::Result;
use ringway_wire::mongo::ScramMechanism;

use crate::support::fake::{Answer, Fake, hello};
use crate::support::scram::ScramServer;
use crate::support::{client, on_core};

/// Pings such a server as the user `ada` with the password `pencil`. Returns the result, and how many commands
/// of authentication and pings the server has got.
fn ping(server: ScramServer) -> (Result, usize, usize) {
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = Arc::clone(&counts);
    let fake = Fake::serve_all(move |command| {
        if command.name() != "hello" {
            counted[usize::from(command.name() == "ping")].fetch_add(1, Ordering::SeqCst);
        }
        server.answer(command).unwrap_or_else(|| Answer::Reply(doc! { "ok": 1 }))
    });
    let uri = fake.address.replace("mongodb://", "mongodb://ada:pencil@");
    let result = on_core(async move { client(&uri).database("d").ping().await });
    (result, counts[0].load(Ordering::SeqCst), counts[1].load(Ordering::SeqCst))
}

#[test]
fn hello_saves_a_round_trip() {
    let (result, steps, pings) = ping(ScramServer::new(ScramMechanism::Sha256));
    result.expect("the right password");
    assert_eq!((steps, pings), (1, 1), "only the last message is sent by itself");
}

#[test]
fn servers_without_that_are_asked_step_by_step() {
    let server = ScramServer::new(ScramMechanism::Sha256);
    let (result, steps, pings) = ping(ScramServer { speculates: false, ..server });
    result.expect("the right password");
    assert_eq!((steps, pings), (2, 1));
}

#[test]
fn the_mechanism_is_one_that_the_server_has() {
    let server = ScramServer::new(ScramMechanism::Sha1);
    let (result, steps, pings) = ping(ScramServer { skips_empty: false, ..server });
    result.expect("the right password");
    assert_eq!((steps, pings), (3, 1), "with the empty step that old servers want");
}

#[test]
fn a_login_that_is_refused_is_not_tried_as_fast_as_operations_come() {
    let server = ScramServer { password: "pen", ..ScramServer::new(ScramMechanism::Sha256) };
    let tries = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&tries);
    let fake = Fake::serve_all(move |command| {
        if command.name() == "hello" && !command.body.contains_key("saslSupportedMechs") {
            return Answer::Reply(hello());
        }
        counted.fetch_add(usize::from(command.name() == "saslContinue"), Ordering::SeqCst);
        server.answer(command).expect("nothing else is sent")
    });
    let uri = format!("mongodb://ada:pencil@{}", fake.place);
    on_core(async move {
        let client = client(&uri);
        let ping = || {
            let database = client.database("d");
            ringway_runtime::spawn(async move { database.ping().await })
        };
        let pings: Vec<_> = (0..20).map(|_| ping()).collect();
        for ping in pings {
            let error = ping.await.expect("no panic").expect_err("the wrong password");
            let text = error.to_string();
            assert!(error.is_authentication() && text.contains("AuthenticationFailed"), "{text}");
            assert!(text.len() < 300, "{text}");
        }
        let [known] = &client.servers()[..] else { panic!("one server") };
        let why = known.error.as_deref().expect("it is not used");
        assert!(why.contains("login"), "{why}");
        let error = ping().await.expect("no panic").expect_err("the wrong password");
        assert!(error.is_authentication(), "{error}");
        // Two connections are made at a time: the second one's login may be refused as late as here.
        let tries = tries.load(Ordering::SeqCst);
        assert!((2..=3).contains(&tries), "{tries} logins for 20 pings, and one when asked again");
    });
}

#[test]
fn neither_end_trusts_the_other_without_proof() {
    let server = || ScramServer::new(ScramMechanism::Sha256);
    let refused = [
        (ScramServer { password: "pen", ..server() }, "AuthenticationFailed"),
        (ScramServer { is_false: true, ..server() }, "its signature is wrong"),
        (ScramServer { iterations: 1000, ..server() }, "1000 iterations"),
        (ScramServer { iterations: 2_000_000, ..server() }, "2000000 iterations"),
    ];
    for (server, why) in refused {
        let (result, _, pings) = ping(server);
        let error = result.expect_err(why);
        assert!(error.is_authentication() && error.to_string().contains(why), "{error}");
        assert!(!error.may_have_happened() && !error.to_string().contains("pencil"), "{error}");
        assert_eq!(pings, 0, "nothing is sent to a server that has not proved itself");
    }
}
