//! Values of options.

use std::time::Duration;

use super::{InvalidUri, TagSet};

/// What is wrong with a value.
pub(super) enum Problem {
    /// The option is ignored, for this reason.
    Ignored(String),
    /// The connection string is refused.
    Refused(InvalidUri),
}

impl From<InvalidUri> for Problem {
    fn from(error: InvalidUri) -> Self {
        Self::Refused(error)
    }
}

pub(super) type Outcome<T> = Result<T, Problem>;

fn ignored<T>(wanted: &str) -> Outcome<T> {
    Err(Problem::Ignored(format!("needs {wanted}")))
}

pub(super) fn boolean(value: &str) -> Outcome<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => ignored("true or false"),
    }
}

/// A whole number from `least` on.
pub(super) fn count(value: &str, least: u32) -> Outcome<u32> {
    match value.parse() {
        Ok(count) if count >= least && is_number(value) => Ok(count),
        _ => ignored(&format!("a whole number from {least} to {}", u32::MAX)),
    }
}

/// A number of milliseconds from `least` on.
pub(super) fn millis(value: &str, least: u32) -> Outcome<Duration> {
    Ok(Duration::from_millis(count(value, least)?.into()))
}

/// `maxStalenessSeconds`; -1 stands for any.
pub(super) fn staleness(value: &str) -> Outcome<Option<Duration>> {
    match value {
        "-1" => Ok(None),
        value => Ok(Some(Duration::from_secs(count(value, 0)?.into()))),
    }
}

/// `zlibCompressionLevel`.
pub(super) fn level(value: &str) -> Outcome<i32> {
    match value.parse() {
        Ok(level @ -1..=9) => Ok(level),
        _ => ignored("a whole number from -1 to 9"),
    }
}

/// One of a few words.
pub(super) fn word<T>(
    value: &str,
    parse: impl FnOnce(&str) -> Option<T>,
    words: &str,
) -> Outcome<T> {
    match parse(value) {
        Some(known) => Ok(known),
        None => ignored(words),
    }
}

/// Text that is not empty.
pub(super) fn text(value: &str) -> Outcome<String> {
    match value {
        "" => ignored("a value"),
        value => Ok(value.to_owned()),
    }
}

/// One `readPreferenceTags`: `key:value` pairs with commas between them; empty for a set without tags.
pub(super) fn tags(value: &str) -> Outcome<TagSet> {
    let pairs = value.split(',').filter(|_| !value.is_empty());
    let tags: Option<TagSet> = pairs
        .map(|pair| pair.split_once(':').map(|(key, tag)| (key.to_owned(), tag.to_owned())))
        .collect();
    match tags {
        Some(tags) => Ok(tags),
        None => ignored("pairs such as dc:ny,rack:1"),
    }
}

pub(super) fn is_number(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}
