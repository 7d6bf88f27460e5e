//! Which commands may be sent without waiting for the answers to those before.

use bson::{RawBsonRef, RawDocument};

use crate::error::{Error, Fate, Kind, Result};

/// Commands that only read.
const READS: [&str; 11] = [
    "ping",
    "find",
    "count",
    "distinct",
    "aggregate",
    "listCollections",
    "listIndexes",
    "listDatabases",
    "buildInfo",
    "dbStats",
    "collStats",
];

/// Commands that change the connection, belong to a transaction or a cursor, or wait for news.
const NEVER: [&str; 13] = [
    "hello",
    "isMaster",
    "ismaster",
    "saslStart",
    "saslContinue",
    "authenticate",
    "logout",
    "getMore",
    "killCursors",
    "startTransaction",
    "commitTransaction",
    "abortTransaction",
    "endSessions",
];

/// Fields that make a transaction of a command, or a stream of its answers.
const NEVER_WITH: [&str; 7] =
    ["startTransaction", "autocommit", "txnNumber", "lsid", "tailable", "awaitData", "exhaust"];

pub(super) fn check(command: &RawDocument, allows_writes: bool) -> Result {
    let refuse = |why: &str| Err(Error::new(Kind::Options, Fate::NotSent, why));
    let malformed = |error| Error::encoding(error);
    let mut name = None;
    for field in command.iter() {
        let (key, value) = field.map_err(malformed)?;
        let key = key.as_str();
        let name = *name.get_or_insert(key);
        if NEVER.contains(&name) || NEVER_WITH.contains(&key) {
            return refuse(
                "a pipeline takes no command of a handshake, a transaction or a cursor; run it by itself",
            );
        }
        if key == "pipeline" && name == "aggregate" {
            check_stages(value, allows_writes)?;
        }
    }
    match name {
        None => refuse("a command has to begin with its name"),
        Some(name) if allows_writes || READS.contains(&name) => Ok(()),
        Some(_) => refuse(
            "this command may write, and a broken connection would leave it open whether it did; call `allow_writes` if that is right",
        ),
    }
}

fn check_stages(stages: RawBsonRef<'_>, allows_writes: bool) -> Result {
    for stage in stages.as_array().into_iter().flatten() {
        let stage = stage.map_err(Error::encoding)?.as_document();
        let first = stage.and_then(|stage| stage.iter().next()).and_then(Result::ok);
        let what = match first.map_or("", |(key, _)| key.as_str()) {
            "$changeStream" => "a change stream waits for news, so it has no place in a pipeline",
            "$out" | "$merge" if !allows_writes => {
                "this aggregation writes; call `allow_writes` if it may stay open whether it did"
            }
            _ => continue,
        };
        return Err(Error::new(Kind::Options, Fate::NotSent, what));
    }
    Ok(())
}
