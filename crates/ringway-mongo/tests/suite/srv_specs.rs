//! MongoDB's tests of `mongodb+srv://`, against a name server of the test with the records that the specification
//! "Initial DNS Seedlist Discovery" lists.

use std::collections::BTreeSet;

use ringway_mongo::{Client, ClientOptions, ConnectionString};
use ringway_runtime::block_on;
use serde_json::Value;

use crate::support::name_server::{self, Record, Row};
use crate::support::specs::files;
use Record::{Service, Text};

const LOCALHOST: &str = "localhost.test.build.10gen.cc";

const TABLE: &[Row] = &[
    ("_mongodb._tcp.test1.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("_mongodb._tcp.test1.test.build.10gen.cc", Service(27018, LOCALHOST)),
    ("_mongodb._tcp.test2.test.build.10gen.cc", Service(27018, LOCALHOST)),
    ("_mongodb._tcp.test2.test.build.10gen.cc", Service(27019, LOCALHOST)),
    ("_mongodb._tcp.test3.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("_mongodb._tcp.test5.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test5.test.build.10gen.cc", Text(&["replicaSet=repl0&authSource=thisDB"])),
    ("_mongodb._tcp.test6.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test6.test.build.10gen.cc", Text(&["replicaSet=repl0"])),
    ("test6.test.build.10gen.cc", Text(&["authSource=otherDB"])),
    ("_mongodb._tcp.test7.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test7.test.build.10gen.cc", Text(&["ssl=false"])),
    ("_mongodb._tcp.test8.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test8.test.build.10gen.cc", Text(&["authSource"])),
    ("_mongodb._tcp.test9.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test9.test.build.10gen.cc", Text(&["replicaSet=repl0"])),
    ("_mongodb._tcp.test10.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test10.test.build.10gen.cc", Text(&["socketTimeoutMS=500"])),
    ("_mongodb._tcp.test11.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test11.test.build.10gen.cc", Text(&["replicaS", "et=rep", "l0"])),
    ("_mongodb._tcp.test12.test.build.10gen.cc", Service(27017, "localhost.build.10gen.cc")),
    ("_mongodb._tcp.test13.test.build.10gen.cc", Service(27017, "test.build.10gen.cc")),
    (
        "_mongodb._tcp.test14.test.build.10gen.cc",
        Service(27017, "localhost.not-test.build.10gen.cc"),
    ),
    (
        "_mongodb._tcp.test15.test.build.10gen.cc",
        Service(27017, "localhost.test.not-build.10gen.cc"),
    ),
    (
        "_mongodb._tcp.test16.test.build.10gen.cc",
        Service(27017, "localhost.test.build.not-10gen.cc"),
    ),
    (
        "_mongodb._tcp.test17.test.build.10gen.cc",
        Service(27017, "localhost.test.build.10gen.not-cc"),
    ),
    (
        "_mongodb._tcp.test18.test.build.10gen.cc",
        Service(27017, "localhost.sub.test.build.10gen.cc"),
    ),
    ("_mongodb._tcp.test19.test.build.10gen.cc", Service(27017, "localhost.evil.build.10gen.cc")),
    ("_mongodb._tcp.test19.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("_mongodb._tcp.test20.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test20.test.build.10gen.cc", Text(&["loadBalanced=true"])),
    ("_mongodb._tcp.test21.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("test21.test.build.10gen.cc", Text(&["loadBalanced=false"])),
    ("_customname._tcp.test22.test.build.10gen.cc", Service(27017, LOCALHOST)),
    ("_customname._tcp.test22.test.build.10gen.cc", Service(27018, LOCALHOST)),
    ("_mongodb._tcp.test23.test.build.10gen.cc", Service(8000, LOCALHOST)),
    ("_mongodb._tcp.test.build.10gen.cc", Service(27017, "test.build.10gen.cc")),
    ("_mongodb._tcp.build.10gen.cc", Service(27017, "build.10gen.cc")),
    ("_mongodb._tcp.test24.test.build.10gen.cc", Service(8000, LOCALHOST)),
    ("test24.test.build.10gen.cc", Text(&["loadBalanced=true"])),
];

/// Compares what was looked up with what a test expects.
fn check(name: &str, test: &Value, looked_up: &ringway_mongo::Result<ConnectionString>) {
    if test["error"] == true {
        let error = looked_up.as_ref().expect_err(name);
        assert!(error.is_options() || error.is_network(), "{name}: {error}");
        return;
    }
    let parsed = looked_up.as_ref().unwrap_or_else(|error| panic!("{name}: {error}"));
    let found: BTreeSet<String> = parsed.hosts.iter().map(ToString::to_string).collect();
    if let Some(seeds) = test["seeds"].as_array() {
        let expected = seeds.iter().map(|seed| seed.as_str().expect("a host").to_owned()).collect();
        assert_eq!(found, expected, "{name}");
    }
    if let Some(count) = test["numSeeds"].as_u64() {
        assert_eq!(found.len() as u64, count, "{name}");
    }
    let credential = parsed.credential.as_ref();
    for (option, expected) in test["options"].as_object().into_iter().flatten() {
        let options = &parsed.options;
        let found = match &**option {
            "replicaSet" => serde_json::json!(options.replica_set),
            "ssl" => serde_json::json!(options.tls.enabled),
            "loadBalanced" => serde_json::json!(options.load_balanced),
            "srvMaxHosts" => serde_json::json!(options.srv_max_hosts),
            "srvServiceName" => serde_json::json!(options.srv_service_name),
            "directConnection" => serde_json::json!(options.direct_connection),
            // Without a user, it is not kept.
            "authSource" if credential.is_none() => continue,
            "authSource" => serde_json::json!(credential.map(|it| &it.source)),
            other => panic!("{name}: no {other}"),
        };
        assert_eq!(found, *expected, "{name}: {option}");
    }
    for (option, expected) in test["parsed_options"].as_object().into_iter().flatten() {
        let found = match &**option {
            "user" => credential.and_then(|it| it.user.clone()),
            "password" => credential.and_then(|it| it.password.clone()),
            "auth_database" | "db" | "defaultDatabase" => parsed.database.clone(),
            other => panic!("{name}: no {other}"),
        };
        assert_eq!(found.as_deref(), expected.as_str(), "{name}: {option}");
    }
}

#[test]
fn servers_are_looked_up() {
    let server = name_server::start(TABLE);
    block_on(async move {
        let mut count = 0;
        for folder in ["replica-set", "sharded", "load-balanced"] {
            for (name, test) in files(&format!("srv_seedlist/{folder}")).unwrap_or_default() {
                // The option is newer than this client, which warns that it does not know it.
                if name.starts_with("srvAllowedHostsSuffix") {
                    continue;
                }
                let uri = test["uri"].as_str().expect("a string");
                check(&name, &test, &ConnectionString::look_up(uri, Some(server)).await);
                count += 1;
            }
        }
        assert!(count == 0 || count > 50, "{count} tests");
    })
    .expect("a core");
}

#[test]
fn options_are_those_of_the_records() {
    let server = name_server::start(TABLE);
    block_on(async move {
        let uri = "mongodb+srv://ada:secret@TEST5.test.build.10gen.cc/shop";
        let parsed = ConnectionString::look_up(uri, Some(server)).await.expect("records");
        assert_eq!(parsed.credential.as_ref().expect("a user").source, "thisDB");
        let client = Client::new(ClientOptions::from_connection_string(&parsed).expect("options"));
        let servers = client.servers();
        let addresses: Vec<_> = servers.iter().map(|server| server.address.to_string()).collect();
        assert_eq!(addresses, [format!("{LOCALHOST}:27017")]);
        // What the string says itself counts.
        let uri = "mongodb+srv://test5.test.build.10gen.cc/?replicaSet=other&tls=false";
        let parsed = ConnectionString::look_up(uri, Some(server)).await.expect("records");
        assert_eq!(parsed.options.replica_set.as_deref(), Some("other"));
        assert_eq!((parsed.options.tls.enabled, parsed.warnings.len()), (Some(false), 0));
    })
    .expect("a core");
}

#[test]
fn errors_name_what_was_looked_up() {
    let server = name_server::start(TABLE);
    block_on(async move {
        for (uri, said) in [
            ("mongodb+srv://test4.test.build.10gen.cc", "servers of test4.test.build.10gen.cc"),
            ("mongodb+srv://test19.test.build.10gen.cc", "localhost.evil.build.10gen.cc"),
            ("mongodb+srv://test6.test.build.10gen.cc", "several TXT records"),
            ("mongodb+srv://test10.test.build.10gen.cc", "\"socketTimeoutMS\""),
        ] {
            let error = ConnectionString::look_up(uri, Some(server)).await.expect_err(uri);
            let mut text = error.to_string();
            let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
            while let Some(error) = cause {
                text += &format!(": {error}");
                cause = error.source();
            }
            assert!(text.contains(said), "{uri}: {text}");
        }
        let uri = "mongodb+srv://test1.test.build.10gen.cc";
        let error = ClientOptions::parse(uri).expect_err("it has to be looked up");
        assert!(error.is_options() && error.to_string().contains("look_up"), "{error}");
    })
    .expect("a core");
}
