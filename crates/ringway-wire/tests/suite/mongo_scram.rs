//! SCRAM: the examples of the RFCs, and servers that do not know the password.

use std::num::NonZeroU32;

use bson::rawdoc;
use ringway_wire::mongo::{
    AwaitedChange, ClientDescription, ClientMetadata, CloudFunction, CommandWriter, HelloReply,
    HelloRequest, MongoCompressor, MsgFlags, OpMsg, ScramClient, ScramFault, ScramKeys,
    ScramMechanism, ServerKind, scram_password,
};

struct Example {
    mechanism: ScramMechanism,
    nonce: &'static str,
    server_first: &'static str,
    client_final: &'static str,
    server_final: &'static str,
}

/// RFC 5802 section 5, and RFC 7677 section 3. Both have the user `user` and the password `pencil`.
const EXAMPLES: [Example; 2] = [
    Example {
        mechanism: ScramMechanism::Sha1,
        nonce: "fyko+d2lbbFgONRv9qkxdawL",
        server_first: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        client_final: "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        server_final: "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    },
    Example {
        mechanism: ScramMechanism::Sha256,
        nonce: "rOprNGfwEbeRWgbNEkqO",
        server_first: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        client_final: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        server_final: "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    },
];

fn exchange(example: &Example, password: &[u8], server_final: &str) -> Result<(), ScramFault> {
    let client = ScramClient::new(example.mechanism, "user", example.nonce);
    assert_eq!(client.first(), format!("n,,n=user,r={}", example.nonce));
    let challenge = client.challenge(example.server_first.as_bytes())?;
    let (salt, iterations) = (challenge.salt(), challenge.iterations());
    let keys = ScramKeys::derive(example.mechanism, password, salt, iterations);
    let (last, verifier) = challenge.answer(&keys);
    if password == b"pencil" {
        assert_eq!(last, example.client_final);
    } else {
        assert_ne!(last, example.client_final);
    }
    verifier.verify(server_final.as_bytes())
}

#[test]
fn the_examples_of_the_rfcs_match() {
    for example in &EXAMPLES {
        assert_eq!(exchange(example, b"pencil", example.server_final), Ok(()));
    }
}

#[test]
fn a_server_must_know_the_password() {
    for example in &EXAMPLES {
        let wrong = exchange(example, b"pen", example.server_final);
        assert_eq!(wrong, Err(ScramFault::Signature), "a wrong password has another signature");
        let refused = exchange(example, b"pencil", "e=invalid-proof");
        assert_eq!(refused, Err(ScramFault::Refused("invalid-proof".into())));
        for (server_final, fault) in [
            ("", ScramFault::Malformed),
            ("v=", ScramFault::Signature),
            ("v=AAAA", ScramFault::Signature),
            ("v=*", ScramFault::Malformed),
            (&example.server_final[..example.server_final.len() - 4], ScramFault::Signature),
        ] {
            assert_eq!(exchange(example, b"pencil", server_final), Err(fault), "{server_final}");
        }
        assert!(exchange(example, b"pencil", &format!("v={}", "A".repeat(5000))).is_err());
    }
}

#[test]
fn challenges_are_checked() {
    let challenge = |text: &str| {
        ScramClient::new(ScramMechanism::Sha256, "user", "abc").challenge(text.as_bytes()).map(drop)
    };
    assert_eq!(challenge("r=abcdef,s=AAAA,i=4096"), Ok(()));
    assert_eq!(challenge("r=abcdef,s=AAAA,i=1000000,x=y"), Ok(()));
    for (text, fault) in [
        ("", ScramFault::Malformed),
        ("r=abcdef,s=AAAA", ScramFault::Malformed),
        ("s=AAAA,r=abcdef,i=4096", ScramFault::Malformed),
        ("m=ext,r=abcdef,s=AAAA,i=4096", ScramFault::Malformed),
        ("r=abcdef,s=,i=4096", ScramFault::Malformed),
        ("r=abcdef,s=A,i=4096", ScramFault::Malformed),
        ("r=abcdef,s=AAAA,i=many", ScramFault::Malformed),
        ("r=abcdef,s=AAAA,i=0", ScramFault::Malformed),
        ("r=abcdef,s=AAAA,i=-4096", ScramFault::Malformed),
        ("r=abcdef,s=AAAA,i=99999999999", ScramFault::Malformed),
        ("r=abcdef,s=AAAA,i=4095", ScramFault::Iterations(4095)),
        ("r=abcdef,s=AAAA,i=1000001", ScramFault::Iterations(1_000_001)),
        ("r=abc,s=AAAA,i=4096", ScramFault::Nonce),
        ("r=xabcdef,s=AAAA,i=4096", ScramFault::Nonce),
    ] {
        assert_eq!(challenge(text), Err(fault), "{text}");
    }
    assert_eq!(
        challenge(&format!("r=abcd,s={},i=4096", "A".repeat(5000))),
        Err(ScramFault::Malformed)
    );
    let not_utf8 = ScramClient::new(ScramMechanism::Sha1, "user", "abc").challenge(b"r=abc\xFF");
    assert_eq!(not_utf8.map(drop), Err(ScramFault::Malformed));
}

#[test]
fn users_and_passwords_are_prepared() {
    let client = ScramClient::new(ScramMechanism::Sha256, "a=b,c", "x");
    assert_eq!(client.first(), "n,,n=a=3Db=2Cc,r=x");
    // RFC 4013 section 3: what maps to nothing, what is normalised, what is forbidden.
    let prepared = |password| scram_password(ScramMechanism::Sha256, "u", password);
    assert_eq!(prepared("I\u{AD}X"), Ok(b"IX".to_vec()));
    assert_eq!(prepared("\u{2168}"), Ok(b"IX".to_vec()));
    assert_eq!(prepared("\u{7}"), Err(ScramFault::Password));
    // MongoDB's specification of authentication has this example.
    let digest = scram_password(ScramMechanism::Sha1, "user", "pencil").expect("any password");
    assert_eq!(digest, b"1c33006ec1ffd90f9cadcbcc0e118200");
}

#[test]
fn secrets_are_not_printed() {
    let keys = ScramKeys::derive(ScramMechanism::Sha1, b"pencil", b"salt", NonZeroU32::MIN);
    assert_eq!(format!("{keys:?}"), "ScramKeys { mechanism: Sha1, .. }");
    let challenge = ScramClient::new(ScramMechanism::Sha1, "user", "abc");
    let challenge = challenge.challenge(b"r=abcd,s=AAAA,i=4096").expect("well formed");
    let (_, verifier) = challenge.answer(&keys);
    assert_eq!(format!("{verifier:?}"), "ScramVerifier { .. }");
}

#[test]
fn hello_says_who_asks_and_begins_to_authenticate() {
    let metadata = ClientMetadata::new(&described("0.1.0"));
    let client = ScramClient::new(ScramMechanism::Sha256, "user", "abc");
    let speculation = client.speculate("admin");
    let request = HelloRequest {
        metadata: Some(&metadata),
        compressors: &[MongoCompressor::Zstd, MongoCompressor::Snappy],
        mechanisms_of: Some("admin.user"),
        speculative_authenticate: Some(&speculation),
        ..HelloRequest::default()
    };
    let body_of = |request: HelloRequest<'_>| {
        let mut out = Vec::new();
        request.begin(1, &mut out).finish().expect("short");
        bson::Document::try_from(OpMsg::read(&out).expect("well formed").body()).expect("BSON")
    };
    let body = body_of(HelloRequest { is_legacy: true, ..request });
    assert_eq!(body.keys().next().map(String::as_str), Some("isMaster"));
    let body = body_of(request);
    assert_eq!(body.keys().next().map(String::as_str), Some("hello"));
    assert_eq!(body.get_str("backpressure").ok(), Some("2"));
    assert_eq!(
        body.get_document("client").expect("a description").get("application"),
        Some(&bson::bson!({ "name": "shop" }))
    );
    assert_eq!(body.get("compression"), Some(&bson::bson!(["zstd", "snappy"])));
    let payload = bson::Binary {
        subtype: bson::spec::BinarySubtype::Generic,
        bytes: b"n,,n=user,r=abc".to_vec(),
    };
    assert_eq!(
        body.get("speculativeAuthenticate"),
        Some(&bson::bson!({
            "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload,
            "options": { "skipEmptyExchange": true }, "db": "admin",
        }))
    );
}

#[test]
fn hello_says_which_view_the_client_knows() {
    let process = bson::oid::ObjectId::from_bytes([7; 12]);
    let time_max = std::time::Duration::from_secs(10);
    let awaited = Some(AwaitedChange { process, counter: 3, time_max });
    let mut out = Vec::new();
    HelloRequest { awaited, ..HelloRequest::default() }.begin(1, &mut out).finish().expect("short");
    let read = OpMsg::read(&out).expect("well formed");
    assert!(read.flags().has(MsgFlags::EXHAUST_ALLOWED), "the server may answer again and again");
    let body = bson::Document::try_from(read.body()).expect("BSON");
    let version = bson::doc! { "processId": process, "counter": 3_i64 };
    assert_eq!(body.get_document("topologyVersion").ok(), Some(&version));
    assert_eq!(body.get_i64("maxAwaitTimeMS").ok(), Some(10_000));
}

fn described(version: &str) -> ClientDescription<'_> {
    ClientDescription {
        application: Some("shop"),
        driver: "ringway",
        version,
        platform: "a platform of many words",
        os_name: Some("Linux of the test"),
        os_version: Some("7"),
        function: Some(CloudFunction {
            name: "aws.lambda",
            timeout_sec: Some(9),
            memory_mb: Some(64),
            region: Some("here"),
        }),
        container_runtime: Some("docker"),
        orchestrator: Some("kubernetes"),
    }
}

#[test]
fn a_description_of_the_client_tells_where_it_runs() {
    let whole = ClientMetadata::new(&described("1"));
    let body = bson::Document::try_from(whole.document()).expect("BSON");
    let env = bson::doc! {
        "name": "aws.lambda", "timeout_sec": 9, "memory_mb": 64, "region": "here",
        "container": { "runtime": "docker", "orchestrator": "kubernetes" },
    };
    assert_eq!(body.get_document("env").ok(), Some(&env));
    let os = body.get_document("os").expect("it is always there");
    assert_eq!(
        (os.get_str("name").ok(), os.get_str("version").ok()),
        (Some("Linux of the test"), Some("7"))
    );
    let function = Some(CloudFunction { name: "azure.func", ..CloudFunction::default() });
    let bare = ClientDescription { function, ..ClientDescription::default() };
    let body = bson::Document::try_from(ClientMetadata::new(&bare).document()).expect("BSON");
    assert_eq!(body.get_document("env").ok(), Some(&bson::doc! { "name": "azure.func" }));
    let none = ClientMetadata::new(&ClientDescription::default());
    assert!(none.document().get("env").is_ok_and(|env| env.is_none()));
}

/// Specification: MongoDB Handshake, "Limitations".
#[test]
fn a_description_of_the_client_stays_short() {
    // Where `env`, `os` and `platform` end with versions of these lengths.
    let mut seen = Vec::new();
    for len in 0..1000 {
        let version = "v".repeat(len);
        let metadata = ClientMetadata::new(&described(&version));
        assert!(metadata.document().as_bytes().len() <= 512, "{len}");
        let body = bson::Document::try_from(metadata.document()).expect("BSON");
        assert!(body.get_document("application").is_ok() && body.get_document("driver").is_ok());
        let env = body.get_document("env").map_or(0, bson::Document::len);
        let os = body.get_document("os").map_or(0, bson::Document::len);
        let platform = match body.get_str("platform") {
            Ok("a platform of many words") => "whole",
            Ok(_) => "cut",
            Err(_) => "none",
        };
        if seen.last() != Some(&(env, os, platform)) {
            seen.push((env, os, platform));
        }
    }
    let expected = [
        (5, 4, "whole"),
        (1, 4, "whole"),
        (1, 1, "whole"),
        (0, 1, "whole"),
        (0, 1, "cut"),
        (0, 1, "none"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_server_says_what_it_is() {
    let kind = |body: bson::RawDocumentBuf| HelloReply::of(&body).expect("well formed").kind;
    assert_eq!(kind(rawdoc! { "isWritablePrimary": true }), ServerKind::Standalone);
    assert_eq!(kind(rawdoc! { "msg": "isdbgrid", "ismaster": true }), ServerKind::Mongos);
    assert_eq!(kind(rawdoc! { "isreplicaset": true }), ServerKind::Ghost);
    let set = |role: &str| {
        let mut body = rawdoc! { "setName": "rs" };
        body.append(<&bson::raw::CStr>::try_from(role).expect("a name"), true);
        kind(body)
    };
    assert_eq!(set("isWritablePrimary"), ServerKind::Primary);
    assert_eq!(set("secondary"), ServerKind::Secondary);
    assert_eq!(set("arbiterOnly"), ServerKind::Arbiter);
    assert_eq!(set("hidden"), ServerKind::Other);
    assert_eq!(set("passive"), ServerKind::Other);
}

#[test]
fn limits_of_a_server_are_kept_in_bounds() {
    let body = rawdoc! {
        "maxWireVersion": 21, "minWireVersion": 0, "maxBsonObjectSize": 0, "maxMessageSizeBytes": 2_000_000_000,
        "maxWriteBatchSize": -1, "logicalSessionTimeoutMinutes": 30, "connectionId": 7_i64,
        "compression": ["zstd"], "saslSupportedMechs": ["SCRAM-SHA-1", "SCRAM-SHA-256", "X"],
    };
    let reply = HelloReply::of(&body).expect("well formed");
    assert_eq!((reply.wire_version_max, reply.document_len_max), (21, 1));
    assert_eq!((reply.message_len_max, reply.writes_max), (48_000_000, 1));
    assert_eq!((reply.session_timeout_minutes, reply.connection_id), (Some(30), Some(7)));
    assert!(reply.has_compressor("zstd") && !reply.has_compressor("snappy"));
    assert_eq!(reply.mechanism(), Some(ScramMechanism::Sha256));
    let old = rawdoc! { "saslSupportedMechs": ["SCRAM-SHA-1"] };
    assert_eq!(HelloReply::of(&old).expect("well formed").mechanism(), Some(ScramMechanism::Sha1));
    assert_eq!(HelloReply::of(&rawdoc! {}).expect("well formed").mechanism(), None);
    assert!(HelloReply::of(&rawdoc! { "maxWireVersion": "new" }).is_err());
}

#[test]
fn an_exchange_starts_by_a_command() {
    let client = ScramClient::new(ScramMechanism::Sha1, "user", "abc");
    let start = CommandWriter::document_of(|writer| client.start(writer));
    assert_eq!(start.get_i32("saslStart").ok(), Some(1));
    assert_eq!(start.get_str("mechanism").ok(), Some("SCRAM-SHA-1"));
}
