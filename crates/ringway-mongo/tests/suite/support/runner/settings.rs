//! The settings that a test gives to clients, collections and operations.

use std::time::Duration;

use bson::{Bson, Document};
use ringway_mongo::{
    ClientOptions, Collection, ConnectionString, ReadConcern, ReadPreference, ServerApi,
    ServerApiVersion,
};

use super::super::fault_proxy::Shape;
use super::{Runner, Why, failed};

/// How long a client waits for a server that suits, in milliseconds: longer than a busy machine keeps one from answering.
/// A test that wants less says so.
const SELECTION_MS: u32 = 20_000;

pub(crate) fn client_options(runner: &Runner<'_>, client: &Document) -> Result<ClientOptions, Why> {
    let given = client.get_document("uriOptions").ok();
    let mut words = Vec::new();
    // A test of monitors has its own period, and the usual one otherwise.
    let is_telling = matches!(runner.shape, Shape::Telling | Shape::TellingSet);
    if !is_telling {
        words.push("heartbeatFrequencyMS=500".to_owned());
    }
    match runner.shape {
        Shape::Single | Shape::Newest | Shape::Telling | Shape::Sharded => {}
        Shape::ReplicaSet | Shape::TellingSet | Shape::Whole => {
            words.push("replicaSet=rs".to_owned());
        }
        Shape::LoadBalanced => words.push("loadBalanced=true".to_owned()),
    }
    if given.is_some_and(|it| it.contains_key("waitQueueTimeoutMS")) {
        return Err(failed("the client has no waitQueueTimeoutMS".to_owned()));
    }
    if is_telling && given.is_some_and(|it| it.contains_key("socketTimeoutMS")) {
        return Err(failed("the client has no socketTimeoutMS but that of operations".to_owned()));
    }
    if is_telling
        && given.is_some_and(|it| it.get_str("appname").is_ok_and(|it| it == "extendsTimeoutTest"))
    {
        return Err(failed("its margin is 250 ms".to_owned()));
    }
    let several = client.get_bool("useMultipleMongoses").ok();
    let place = match (runner.proxy, several) {
        (Some(proxy), Some(true)) if runner.shape == Shape::Sharded => {
            format!("{},{}", proxy.place, proxy.place_of_one)
        }
        (Some(proxy), Some(false)) => proxy.place_of_one.clone(),
        _ => runner.place.to_owned(),
    };
    if !given.is_some_and(|it| it.contains_key("serverSelectionTimeoutMS")) {
        words.push(format!("serverSelectionTimeoutMS={SELECTION_MS}"));
    }
    for (name, value) in given.into_iter().flatten() {
        words.push(format!("{name}={}", value.to_string().trim_matches('"')));
    }
    let uri = format!("mongodb://{place}/?{}", words.join("&"));
    let options = ClientOptions::parse(&uri);
    let options = options.map_err(|error| failed(format!("the client's options: {error}")))?;
    Ok(match client.get_document("serverApi") {
        Ok(api) => options.server_api(server_api(api)),
        Err(_) => options,
    })
}

fn server_api(api: &Document) -> ServerApi {
    assert_eq!(api.get_str("version").ok(), Some("1"));
    let mut declared = ServerApi::new(ServerApiVersion::V1);
    if let Ok(is_strict) = api.get_bool("strict") {
        declared = declared.strict(is_strict);
    }
    if let Ok(are_errors) = api.get_bool("deprecationErrors") {
        declared = declared.deprecation_errors(are_errors);
    }
    declared
}

pub(crate) fn write_concern(concern: &Document) -> Result<ringway_mongo::WriteConcern, Why> {
    let word = |(name, value): (&String, &Bson)| {
        let name = if name == "wtimeout" { "wtimeoutMS" } else { name };
        format!("{name}={}", value.to_string().trim_matches('"'))
    };
    let words: Vec<_> = concern.iter().map(word).collect();
    let uri = ConnectionString::parse(&format!("mongodb://a/?{}", words.join("&")));
    let uri = uri.map_err(|error| failed(format!("the write concern: {error}")))?;
    Ok(uri.options.write_concern)
}

pub(crate) fn read_preference(preference: &Document) -> ReadPreference {
    let mode = preference.get_str("mode").expect("a mode");
    let uri = ConnectionString::parse(&format!("mongodb://a/?readPreference={mode}"));
    uri.expect("a mode").options.read_preference.expect("it was given")
}

pub(crate) fn read_concern(concern: &Document) -> ReadConcern {
    ReadConcern { level: concern.get_str("level").expect("a level").to_owned() }
}

pub(crate) fn with_concerns(
    things: &Collection<Document>,
    options: &Document,
) -> Result<Collection<Document>, Why> {
    let mut things = things.clone();
    let mut words = Vec::new();
    if let Ok(concern) = options.get_document("writeConcern") {
        for (name, value) in concern {
            words.push(format!("{name}={}", value.to_string().trim_matches('"')));
        }
    }
    if let Ok(concern) = options.get_document("readConcern") {
        words.push(format!("readConcernLevel={}", concern.get_str("level").expect("a level")));
    }
    if let Ok(preference) = options.get_document("readPreference") {
        words.push(format!("readPreference={}", preference.get_str("mode").expect("a mode")));
    }
    let uri = ConnectionString::parse(&format!("mongodb://a/?{}", words.join("&")));
    let uri = uri.map_err(|error| failed(format!("the collection's options: {error}")))?;
    if let Some(concern) = &uri.options.read_concern {
        things = things.read_concern(concern);
    }
    if let Some(limit) = timeout(options) {
        things = things.timeout(limit);
    }
    if let Some(preference) = &uri.options.read_preference {
        things = things.read_preference(preference).expect("a mode alone is possible");
    }
    let written = things.write_concern(&uri.options.write_concern);
    written.map_err(|error| failed(format!("the collection's options: {error}")))
}

pub(crate) fn timeout(arguments: &Document) -> Option<Duration> {
    let millis = arguments.get("timeoutMS")?;
    let millis = millis.as_i64().or_else(|| millis.as_i32().map(i64::from)).expect("a number");
    Some(match millis {
        0 => Duration::MAX,
        millis => Duration::from_millis(millis.try_into().expect("a time")),
    })
}
