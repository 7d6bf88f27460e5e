//! Users and TLS at a real server: FerretDB with a user of its own, with a certificate, and with both.

use std::path::PathBuf;

use bson::{Document, doc};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use ringway_mongo::{Client, ClientOptions, Error, Result};
use tempfile::TempDir;

use crate::support::certificates::{Authority, Identity, NAME};
use crate::support::ferret::{Ferret, Guards};
use crate::support::on_core;

const USER: (&str, &str) = ("ada", "pencil");

/// Where the servers of these tests are.
const HOST: &str = "127.0.0.1";

/// The options of a connection string, for a server that is told at once if it cannot be used.
fn options(ferret: &Ferret, user: &str, query: &str) -> ClientOptions {
    let uri = format!("mongodb://{user}{}/shop?directConnection=true&{query}", ferret.place);
    ClientOptions::parse(&uri).expect("an address")
}

/// Writes a document and reads it, as a user (`name:password@`) with some options.
fn use_shop(ferret: &Ferret, user: &str, query: &str) -> Result {
    let client = Client::new(options(ferret, user, query));
    on_core(async move {
        let shop = client.default_database().expect("it is named");
        let books = shop.collection::<Document>("books");
        let id = books.insert_one(&doc! { "title": "Emma" }).await?;
        let found = books.find_one(doc! { "_id": &id }).await?;
        assert_eq!(found, Some(doc! { "_id": id, "title": "Emma" }));
        assert_eq!(books.delete_many(doc! {}).await?.deleted, 1);
        Ok(())
    })
}

/// An error with all its causes.
fn whole(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(why) = cause {
        text = format!("{text}: {why}");
        cause = why.source();
    }
    text
}

#[test]
fn a_user_logs_in_by_every_mechanism_of_the_server() {
    let Some(ferret) = Ferret::start_guarded(Guards { user: Some(USER), ..Guards::default() })
    else {
        return;
    };
    for query in ["", "authMechanism=SCRAM-SHA-256", "authMechanism=SCRAM-SHA-1"] {
        use_shop(&ferret, "ada:pencil@", &format!("authSource=admin&{query}")).expect(query);
    }
    for (user, password) in [("ada", "hunter2"), ("eve", "pencil")] {
        for query in ["", "authMechanism=SCRAM-SHA-256", "authMechanism=SCRAM-SHA-1"] {
            let login = format!("{user}:{password}@");
            let error = use_shop(&ferret, &login, &format!("authSource=admin&{query}"));
            let error = error.expect_err("it is refused");
            let text = whole(&error);
            assert!(error.is_authentication() && !error.may_have_happened(), "{text}");
            assert!(text.contains("Authentication failed") && !text.contains(password), "{text}");
        }
    }
    let error = use_shop(&ferret, "", "").expect_err("nobody has logged in");
    let server = error.server().expect("the server says so");
    assert_eq!((server.code, error.is_authentication()), (13, false), "{}", whole(&error));
    let error = use_shop(&ferret, "ada:pencil@", "authSource=shop").expect_err("not there");
    assert!(error.is_authentication(), "{}", whole(&error));
}

/// A server with a certificate, and files that its clients read.
struct Secured {
    ferret: Ferret,
    authority: Authority,
    folder: TempDir,
}

impl Secured {
    /// Starts one whose certificate is of the host `name`.
    fn start(name: &str, guards: Guards<'_>) -> Option<Self> {
        let authority = Authority::new();
        let Identity { chain, key } = authority.sign(name);
        let ferret = Ferret::start_guarded(Guards { identity: Some((&chain, &key)), ..guards })?;
        let folder = tempfile::tempdir().expect("a folder");
        Some(Self { ferret, authority, folder })
    }

    /// A file for its clients.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// The options of a client that trusts an authority.
    fn trust(&self, authority: &Authority) -> String {
        let file = self.file("authority.pem", &authority.pem());
        format!("tls=true&tlsCAFile={}", file.display())
    }
}

#[test]
fn a_server_with_a_certificate_is_used_by_those_who_trust_it() {
    let Some(server) = Secured::start(HOST, Guards::default()) else { return };
    use_shop(&server.ferret, "", &server.trust(&server.authority)).expect("it is trusted");

    let unknown = use_shop(&server.ferret, "", &server.trust(&Authority::new()));
    let text = whole(&unknown.expect_err("nobody trusted has issued it"));
    assert!(text.contains("UnknownIssuer"), "{text}");
}

#[test]
fn the_certificate_of_another_host_is_refused() {
    let Some(server) = Secured::start(NAME, Guards::default()) else { return };
    let trust = server.trust(&server.authority);
    let text = whole(&use_shop(&server.ferret, "", &trust).expect_err("it is of another host"));
    assert!(text.contains("not valid for name"), "{text}");
    let any_name = |trust: &str| {
        use_shop(&server.ferret, "", &format!("{trust}&tlsAllowInvalidHostnames=true"))
    };
    any_name(&trust).expect("its name is not looked at");
    let text = whole(&any_name(&server.trust(&Authority::new())).expect_err("its issuer is"));
    assert!(text.contains("UnknownIssuer"), "{text}");
    for option in ["tlsAllowInvalidCertificates", "tlsInsecure"] {
        use_shop(&server.ferret, "", &format!("tls=true&{option}=true")).expect(option);
    }
}

#[test]
fn a_client_with_tls_and_a_server_without_do_not_understand_each_other() {
    let Some(server) = Secured::start(HOST, Guards::default()) else { return };
    let error = use_shop(&server.ferret, "", "").expect_err("the server wants TLS");
    assert!(error.is_network() && !error.may_have_happened(), "{}", whole(&error));
    assert!(whole(&error).contains("tls=true"), "{}", whole(&error));

    let Some(plain) = Ferret::start() else { return };
    // It waits for the rest of what it takes for a long message.
    let error = use_shop(&plain, "", "tls=true&connectTimeoutMS=1000").expect_err("it has none");
    assert!(!error.may_have_happened() && whole(&error).contains("TLS"), "{}", whole(&error));
}

#[test]
fn a_server_takes_plain_passwords_over_tls() {
    let Some(server) = Secured::start(HOST, Guards::default()) else { return };
    let query = format!("authMechanism=PLAIN&{}", server.trust(&server.authority));
    use_shop(&server.ferret, "ada:pencil@", &query).expect("this server takes all passwords");
}

#[test]
fn servers_are_watched_over_tls_as_well() {
    let Some(server) = Secured::start(HOST, Guards::default()) else { return };
    let query = server.trust(&server.authority);
    let options = |query: &str| {
        let uri =
            format!("mongodb://{}/?serverSelectionTimeoutMS=1000&{query}", server.ferret.place);
        ClientOptions::parse(&uri).expect("an address")
    };
    let (known, plain) = (Client::new(options(&query)), Client::new(options("")));
    on_core(async move {
        known.database("d").ping().await.expect("it is watched");
        let error = plain.database("d").ping().await.expect_err("nobody answers");
        assert!(error.to_string().contains("tls=true"), "{}", whole(&error));
    });
}

#[test]
fn users_log_in_over_tls() {
    let guards = Guards { user: Some(USER), ..Guards::default() };
    let Some(server) = Secured::start(HOST, guards) else { return };
    let query = format!("authSource=admin&{}", server.trust(&server.authority));
    use_shop(&server.ferret, "ada:pencil@", &query).expect("the right password");
    let error = use_shop(&server.ferret, "ada:hunter2@", &query).expect_err("the wrong password");
    assert!(error.is_authentication() && !error.may_have_happened(), "{}", whole(&error));
}

#[test]
fn a_server_may_want_to_see_a_certificate() {
    let clients = Authority::new();
    let (known, stranger) = (clients.sign("ada.test"), Authority::new().sign("ada.test"));
    let guards = Guards { clients: Some(&clients.pem()), ..Guards::default() };
    let Some(server) = Secured::start(HOST, guards) else { return };
    let trust = server.trust(&server.authority);
    let shown = |identity: &Identity| {
        let file = server.file("client.pem", &format!("{}{}", identity.chain, identity.key));
        use_shop(&server.ferret, "", &format!("{trust}&tlsCertificateKeyFile={}", file.display()))
    };
    shown(&known).expect("the server knows it");
    for error in [shown(&stranger), use_shop(&server.ferret, "", &trust)] {
        let error = error.expect_err("the server does not know it");
        assert!(error.is_network() && !error.may_have_happened(), "{}", whole(&error));
    }
}

/// A key in its forms, by `tests/keys/README.md`.
const AES: &str = include_str!("../keys/aes.pem");
const SCRYPT: &str = include_str!("../keys/scrypt.pem");
const PLAIN: &str = include_str!("../keys/plain.pem");
const OLD: &str = include_str!("../keys/old.pem");

/// A certificate of that key, which is also its own authority.
fn certificate() -> String {
    let mut params = CertificateParams::new(["ada.test".to_owned()]).expect("a valid name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::from_pem(PLAIN).expect("a key")).expect("signed by itself").pem()
}

#[test]
fn the_key_of_the_client_may_be_protected_by_a_password() {
    let certificate = certificate();
    let guards = Guards { clients: Some(&certificate), ..Guards::default() };
    let Some(server) = Secured::start(HOST, guards) else { return };
    let trust = server.trust(&server.authority);
    let query = |key: &str, password: &str| {
        let file = server.file("client.pem", &format!("{certificate}{key}"));
        format!("{trust}&tlsCertificateKeyFile={}{password}", file.display())
    };
    const RIGHT: &str = "&tlsCertificateKeyFilePassword=pencil";
    for key in [AES, SCRYPT, PLAIN] {
        use_shop(&server.ferret, "", &query(key, RIGHT)).expect("the server knows the certificate");
    }
    let refused = [
        (AES, "", "name its password by tlsCertificateKeyFilePassword"),
        (AES, "&tlsCertificateKeyFilePassword=pen", "cannot be decrypted by the password"),
        (OLD, RIGHT, "openssl pkcs8 -topk8"),
    ];
    for (key, password, why) in refused {
        let uri = format!("mongodb://localhost/?{}", query(key, password));
        let error = ClientOptions::parse(&uri).expect_err(why);
        let text = whole(&error);
        assert!(error.is_options() && text.contains(why), "{text}");
        assert!(text.contains("client.pem") && !text.contains("pencil"), "{text}");
    }
}
