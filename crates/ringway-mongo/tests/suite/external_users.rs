//! Users of certificates (MONGODB-X509) and of whom the server asks somebody else (PLAIN), over TLS, against servers of the
//! test.

use std::sync::{Arc, Mutex};

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use ringway_mongo::{Client, ClientOptions, Result};

use crate::support::fake::{Answer, Command, Fake, hello};
use crate::support::on_core;
use crate::support::tls_front::TlsFront;

/// A server that keeps what it is told.
struct Server {
    fake: Fake,
    log: Arc<Mutex<Vec<Document>>>,
}

impl Server {
    fn start(answer: impl Fn(&Command) -> Document + Send + Sync + 'static) -> Self {
        let log = Arc::<Mutex<Vec<Document>>>::default();
        let kept = Arc::clone(&log);
        let fake = Fake::serve_all(move |command| {
            kept.lock().expect("no panic").push(command.body.clone());
            Answer::Reply(answer(command))
        });
        Self { fake, log }
    }

    /// The names of the commands that it has got.
    fn names(&self) -> Vec<String> {
        let log = self.log.lock().expect("no panic");
        log.iter().map(|body| body.keys().next().expect("a name").clone()).collect()
    }

    fn command(&self, name: &str) -> Document {
        let log = self.log.lock().expect("no panic");
        log.iter().find(|body| body.contains_key(name)).expect("it was sent").clone()
    }
}

fn ok(_: &Command) -> Document {
    doc! { "ok": 1.0 }
}

/// Greets, and answers all else by `answer`.
fn greeting(command: &Command, answer: impl Fn(&Command) -> Document) -> Document {
    if command.name() == "hello" { hello() } else { answer(command) }
}

fn no(_: &Command) -> Document {
    doc! { "ok": 0.0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "no" }
}

fn ping(options: ClientOptions) -> Result {
    on_core(async move { Client::new(options).database("d").ping().await })
}

fn by_certificate(front: &TlsFront, user: &str) -> ClientOptions {
    let address = front.address.replace("mongodb://", &format!("mongodb://{user}"));
    let options = ClientOptions::parse(&format!("{address}&authMechanism=MONGODB-X509"));
    options.expect("an address").tls(front.trust_with_certificate())
}

const SUBJECT: &str = "CN=ada,OU=authors";

#[test]
fn a_certificate_is_taken_with_hello() {
    let server = Server::start(|command| match command.name() {
        "hello" => {
            let begun = command.body.get_document("speculativeAuthenticate").expect("it is begun");
            let expected =
                doc! { "authenticate": 1, "mechanism": "MONGODB-X509", "db": "$external" };
            assert_eq!(begun, &expected);
            let mut hello = hello();
            let taken = doc! { "dbname": "$external", "user": SUBJECT };
            hello.insert("speculativeAuthenticate", taken);
            hello
        }
        _ => doc! { "ok": 1.0 },
    });
    let front = TlsFront::start(&server.fake.place, true);
    ping(by_certificate(&front, "")).expect("the server knows the certificate");
    assert_eq!(server.names(), ["isMaster", "ping"]);
}

#[test]
fn a_certificate_is_shown_step_by_step() {
    for (user, named) in [("", None), ("CN%3Dada%2COU%3Dauthors@", Some(SUBJECT))] {
        let server = Server::start(|command| greeting(command, ok));
        let front = TlsFront::start(&server.fake.place, true);
        ping(by_certificate(&front, user)).expect("the server knows the certificate");
        assert_eq!(server.names(), ["isMaster", "authenticate", "ping"]);
        let told = server.command("authenticate");
        assert_eq!(told.get_str("mechanism").ok(), Some("MONGODB-X509"));
        assert_eq!(told.get_str("$db").ok(), Some("$external"));
        assert_eq!(told.get_str("user").ok(), named);
    }
}

#[test]
fn a_certificate_that_the_server_does_not_know_is_an_error() {
    let server = Server::start(|command| greeting(command, no));
    let front = TlsFront::start(&server.fake.place, true);
    let error = ping(by_certificate(&front, "")).expect_err("it is unknown");
    assert!(error.is_authentication() && !error.may_have_happened(), "{error}");
    assert!(!server.names().contains(&"ping".to_owned()));
}

#[test]
fn certificates_need_tls() {
    let address = "mongodb://localhost/?authMechanism=MONGODB-X509";
    let error = ClientOptions::parse(address).expect_err("nothing shows a certificate");
    assert!(error.is_options() && error.to_string().contains("tls=true"), "{error}");
}

fn by_password(address: &str) -> ClientOptions {
    let address = address.replace("mongodb://", "mongodb://ada:pencil@");
    ClientOptions::parse(&format!("{address}&authMechanism=PLAIN")).expect("an address")
}

/// Takes the password of the user `ada`.
fn knows_ada(command: &Command) -> Document {
    greeting(command, |command| match command.name() {
        "saslStart" => {
            let payload = command.body.get_binary_generic("payload").expect("a payload");
            if payload != b"\0ada\0pencil" {
                return no(command);
            }
            let nothing = Binary { subtype: BinarySubtype::Generic, bytes: Vec::new() };
            doc! { "conversationId": 1, "done": true, "payload": nothing, "ok": 1.0 }
        }
        _ => ok(command),
    })
}

#[test]
fn a_password_is_sent_over_tls() {
    let server = Server::start(knows_ada);
    let front = TlsFront::start(&server.fake.place, false);
    ping(by_password(&front.address).tls(front.trust())).expect("the right password");
    assert_eq!(server.names(), ["isMaster", "saslStart", "ping"]);
    assert!(!server.command("isMaster").contains_key("speculativeAuthenticate"));
    let told = server.command("saslStart");
    assert_eq!(told.get_str("mechanism").ok(), Some("PLAIN"));
    assert_eq!(told.get_str("$db").ok(), Some("$external"));
}

#[test]
fn a_password_is_not_sent_where_others_can_read_it() {
    let server = Server::start(knows_ada);
    let options = || by_password(&server.fake.address);
    let error = ping(options()).expect_err("there is no TLS");
    assert!(error.is_options() && error.to_string().contains("tls=true"), "{error}");
    assert_eq!(server.fake.connections(), 0);
    ping(options().plain_without_tls(true)).expect("the program says that the line is safe");
}

#[test]
fn a_password_that_is_refused_is_in_no_error() {
    let server = Server::start(|command| greeting(command, no));
    let front = TlsFront::start(&server.fake.place, false);
    let told = Arc::<Mutex<Vec<String>>>::default();
    let hear = Arc::clone(&told);
    let options = by_password(&front.address).tls(front.trust()).on_command(move |event| {
        hear.lock().expect("no panic").push(format!("{event:?}"));
    });
    assert!(!format!("{options:?}").contains("pencil"), "{options:?}");
    let error = ping(options).expect_err("it is refused");
    assert!(error.is_authentication() && !error.may_have_happened(), "{error}");
    assert!(!format!("{error:?} {error}").contains("pencil"), "{error}");
    assert!(!told.lock().expect("no panic").iter().any(|event| event.contains("pencil")));
    assert!(!server.names().contains(&"ping".to_owned()));
}

#[test]
fn a_server_that_wants_more_than_a_password_is_an_error() {
    let server = Server::start(|command| {
        greeting(command, |_| {
            let more = Binary { subtype: BinarySubtype::Generic, bytes: b"more".to_vec() };
            doc! { "conversationId": 1, "done": false, "payload": more, "ok": 1.0 }
        })
    });
    let front = TlsFront::start(&server.fake.place, false);
    let error = ping(by_password(&front.address).tls(front.trust())).expect_err("no end");
    assert!(error.is_authentication() && error.to_string().contains("PLAIN"), "{error}");
}
