//! The specifications "Connection String", "URI Options", and of "Authentication" what concerns connection strings.

use std::time::Duration;

use ringway_mongo::{Acknowledgment, ConnectionString, HostAddress, UriOptions};
use serde_json::{Map, Value, json};

use crate::support::specs::{Case, cases};

/// Mechanisms that are left out. A connection string that names one is refused, with the supported ones in the error.
const UNSUPPORTED: &[&str] = &["GSSAPI", "MONGODB-OIDC", "MONGODB-AWS"];

/// Tests whose outcome is another one here, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "concern-options: Too low wTimeoutMS causes a warning",
        "\"Read and Write Concern\" has it refused",
    ),
    (
        "srv-options: Non-SRV URI with srvAllowedHostsSuffix",
        "the option is not known yet, and warned about",
    ),
    (
        "single-threaded-options: Valid options specific to single-threaded drivers are parsed correctly",
        "the option is checked and means nothing to a client with several threads",
    ),
];

/// Whether the test is of a mechanism that is left out, after checking that the error says so.
fn is_left_out(case: &Case) -> bool {
    let uri = case.text("uri");
    let Some(name) = UNSUPPORTED.iter().find(|name| uri.contains(&format!("authMechanism={name}")))
    else {
        return false;
    };
    if case.flag("valid") {
        let error = ConnectionString::parse(uri).expect_err(&case.name).to_string();
        let says_so =
            error.contains("is not supported; these are: SCRAM-SHA-1") && error.contains(name);
        assert!(says_so, "{}: {error}", case.name);
    }
    true
}

/// Parses the string of a test and checks whether it may be parsed and warned about.
fn parse(case: &Case) -> Option<ConnectionString> {
    if is_left_out(case) || EXCEPTIONS.iter().any(|(name, _)| *name == case.name) {
        return None;
    }
    let parsed = ConnectionString::parse(case.text("uri"));
    assert_eq!(parsed.is_ok(), case.flag("valid"), "{}: {parsed:?}", case.name);
    let parsed = parsed.ok()?;
    assert_eq!(
        !parsed.warnings.is_empty(),
        case.flag("warning"),
        "{}: {:?}",
        case.name,
        parsed.warnings
    );
    Some(parsed)
}

fn check(case: &Case) {
    let Some(parsed) = parse(case) else { return };
    if let Value::Array(hosts) = &case.test["hosts"] {
        let expected: Vec<_> = hosts.iter().map(host).collect();
        assert_eq!(parsed.hosts, expected, "{}", case.name);
    }
    if let Value::Object(auth) = &case.test["auth"] {
        let found = parsed.credential.as_ref();
        let user = found.and_then(|credential| credential.user.as_deref());
        let password = found.and_then(|credential| credential.password.as_deref());
        assert_eq!(json!(user), auth["username"], "{}", case.name);
        assert_eq!(json!(password), auth["password"], "{}", case.name);
        assert_eq!(json!(parsed.database), auth["db"], "{}", case.name);
    }
    if let Value::Object(options) = &case.test["options"] {
        let found = as_json(&parsed);
        for (name, value) in options {
            let found = &found[&name.to_lowercase()];
            assert_eq!(found, value, "{}: {name}", case.name);
        }
    }
}

fn host(value: &Value) -> HostAddress {
    let name = value["host"].as_str().expect("a host").to_owned();
    match value["type"].as_str() {
        Some("unix") => HostAddress::Unix(name.into()),
        _ => {
            let port =
                value["port"].as_u64().map_or(27017, |port| port.try_into().expect("a port"));
            HostAddress::Tcp { host: name, port }
        }
    }
}

/// The options by their names in lower case, as the tests write their values.
fn as_json(parsed: &ConnectionString) -> Map<String, Value> {
    let UriOptions { tls, write_concern, read_preference, read_concern, .. } = &parsed.options;
    let options = &parsed.options;
    let ms = |time: &Option<Duration>| json!(time.map(|time| time.as_millis() as u64));
    let credential = parsed.credential.as_ref();
    let w = write_concern.w.as_ref().map(|w| match w {
        Acknowledgment::Nodes(count) => json!(count),
        Acknowledgment::Majority => json!("majority"),
        Acknowledgment::Custom(name) => json!(name),
    });
    let mechanism =
        credential.and_then(|credential| credential.mechanism).map(|mechanism| mechanism.name());
    let compressors: Vec<_> =
        options.compressors.iter().map(|compressor| compressor.name()).collect();
    let preference = read_preference.clone().unwrap_or_default();
    let pairs = [
        ("appname", json!(options.app_name)),
        ("authmechanism", json!(mechanism)),
        ("authsource", json!(credential.map(|credential| &credential.source))),
        ("compressors", json!(compressors)),
        ("connecttimeoutms", ms(&options.connect_timeout)),
        ("directconnection", json!(options.direct_connection)),
        ("heartbeatfrequencyms", ms(&options.heartbeat_frequency)),
        ("journal", json!(write_concern.journal)),
        ("loadbalanced", json!(options.load_balanced)),
        ("enableoverloadretargeting", json!(options.enable_overload_retargeting)),
        ("localthresholdms", ms(&options.local_threshold)),
        ("maxadaptiveretries", json!(options.max_adaptive_retries)),
        ("maxconnecting", json!(options.max_connecting)),
        ("maxidletimems", ms(&options.max_idle_time)),
        ("maxpoolsize", json!(options.max_pool_size)),
        ("maxstalenessseconds", json!(preference.max_staleness.map(|time| time.as_secs()))),
        ("minpoolsize", json!(options.min_pool_size)),
        ("readconcernlevel", json!(read_concern.as_ref().map(|read| &read.level))),
        ("readpreference", json!(preference.mode.name())),
        ("readpreferencetags", json!(preference.tag_sets)),
        ("replicaset", json!(options.replica_set)),
        ("retrywrites", json!(options.retry_writes)),
        ("servermonitoringmode", json!(options.server_monitoring_mode.map(|mode| mode.name()))),
        ("serverselectiontimeoutms", ms(&options.server_selection_timeout)),
        ("sockettimeoutms", ms(&options.socket_timeout)),
        ("srvmaxhosts", json!(options.srv_max_hosts)),
        ("srvservicename", json!(options.srv_service_name)),
        ("timeoutms", ms(&options.timeout)),
        ("tls", json!(tls.enabled)),
        ("tlsallowinvalidcertificates", json!(tls.allow_invalid_certificates)),
        ("tlsallowinvalidhostnames", json!(tls.allow_invalid_hostnames)),
        ("tlscafile", json!(tls.ca_file)),
        ("tlscertificatekeyfile", json!(tls.certificate_key_file)),
        ("tlscertificatekeyfilepassword", json!(tls.certificate_key_file_password)),
        ("tlsdisablecertificaterevocationcheck", json!(tls.disable_certificate_revocation_check)),
        ("tlsdisableocspendpointcheck", json!(tls.disable_ocsp_endpoint_check)),
        ("tlsinsecure", json!(tls.insecure)),
        ("w", json!(w)),
        ("wtimeoutms", ms(&write_concern.w_timeout)),
        ("zlibcompressionlevel", json!(options.zlib_level)),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Strings that have a secret in a place where it does not belong: no error and no warning repeats it.
fn check_disclosure(case: &Case) {
    const SECRET: [&str; 2] = ["SENTINELpassword1234", "%53%45%4E%54%49%4E%45%4C"];
    let told = match ConnectionString::parse(case.text("uri")) {
        Ok(parsed) => parsed.warnings.join("; "),
        Err(error) => error.to_string(),
    };
    assert!(!SECRET.iter().any(|secret| told.contains(secret)), "{}: {told}", case.name);
}

#[test]
fn connection_strings_are_parsed() {
    for case in cases("connection_string/test").unwrap_or_default() {
        match case.name.starts_with("credential-disclosure") {
            true => check_disclosure(&case),
            false => check(&case),
        }
    }
}

#[test]
fn options_are_parsed() {
    let cases = cases("uri_options").unwrap_or_default();
    cases.iter().for_each(check);
    let is_there = |name: &str| cases.is_empty() || cases.iter().any(|case| case.name == name);
    let stale = EXCEPTIONS.iter().find(|(name, _)| !is_there(name));
    assert_eq!(stale, None, "an exception of a test that is not there");
}

#[test]
fn credentials_are_made() {
    for case in cases("auth/legacy").unwrap_or_default() {
        let Some(parsed) = parse(&case) else { continue };
        let expected = &case.test["credential"];
        let found = parsed.credential.map_or(Value::Null, |credential| {
            json!({
                "username": credential.user,
                "password": credential.password,
                "source": credential.source,
                "mechanism": credential.mechanism.map(|mechanism| mechanism.name()),
                "mechanism_properties": null,
            })
        });
        assert_eq!(found, *expected, "{}", case.name);
    }
}
