//! Conditional requests: RFC 9110 section 13.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{
    HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};
use httpdate::{fmt_http_date, parse_http_date};
use ringway_runtime::fs::Metadata;

use crate::limits;

/// Identifies a version of a file by its length, the time of its last change, and the time at which the file system noted
/// it: programs set the former as they like, for example to the same for all files of an archive.
#[derive(Debug)]
pub(super) struct Version {
    /// The tag without its quotes.
    tag: String,
    is_strong: bool,
    /// The time of the last change, in whole seconds as in headers.
    modified: SystemTime,
}

/// The outcome of a request's conditions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Whole,
    MayBeRanged,
    /// The client already has this version.
    Unchanged,
    /// The request is for another version of the file.
    Failed,
}

/// The last second of the year 9999: headers cannot hold a later date.
const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);

impl Version {
    pub(super) fn new(file: &Metadata, now: SystemTime) -> Self {
        Self::of(file.modified, file.changed, file.len, now)
    }

    fn of(modified: SystemTime, changed: SystemTime, length: u64, now: SystemTime) -> Self {
        let age = now.duration_since(modified).unwrap_or_default();
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = Duration::from_secs(since(modified).min(LAST_DATE).as_secs());
        let (modified, changed) = (since(modified).as_nanos(), since(changed).as_nanos());
        Self {
            tag: format!("{modified:x}-{length:x}-{changed:x}"),
            is_strong: age >= limits::TAG_STRONG_AFTER,
            modified: UNIX_EPOCH + seconds,
        }
    }

    pub(super) fn tag(&self) -> HeaderValue {
        let weak = if self.is_strong { "" } else { "W/" };
        format!("{weak}\"{}\"", self.tag).try_into().expect("hexadecimal digits")
    }

    pub(super) fn modified(&self) -> HeaderValue {
        fmt_http_date(self.modified).try_into().expect("a date is text")
    }

    /// Evaluates the conditions in the order of section 13.2.2.
    pub(super) fn judge(&self, headers: &HeaderMap) -> Verdict {
        if headers.contains_key(IF_MATCH) {
            if !self.is_listed(headers, &IF_MATCH, true) {
                return Verdict::Failed;
            }
        } else if date(headers, &IF_UNMODIFIED_SINCE).is_some_and(|date| self.modified > date) {
            return Verdict::Failed;
        }
        if headers.contains_key(IF_NONE_MATCH) {
            if self.is_listed(headers, &IF_NONE_MATCH, false) {
                return Verdict::Unchanged;
            }
        } else if date(headers, &IF_MODIFIED_SINCE).is_some_and(|date| self.modified <= date) {
            return Verdict::Unchanged;
        }
        match headers.contains_key(RANGE) && self.is_of_part(headers) {
            true => Verdict::MayBeRanged,
            false => Verdict::Whole,
        }
    }

    /// Whether the parts that the client has are of this version, if it asks (section 13.1.5).
    fn is_of_part(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(IF_RANGE) else { return true };
        let tag = value.to_str().unwrap_or_default().trim();
        self.is_strong
            && (self.is_tag(tag, true) || date(headers, &IF_RANGE) == Some(self.modified))
    }

    fn is_listed(&self, headers: &HeaderMap, name: &HeaderName, strongly: bool) -> bool {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
        tags.any(|tag| tag == "*" || self.is_tag(tag, strongly))
    }

    fn is_tag(&self, tag: &str, strongly: bool) -> bool {
        let (is_strong, tag) = match tag.strip_prefix("W/") {
            Some(tag) => (false, tag),
            None => (true, tag),
        };
        let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        tag == Some(&*self.tag) && (!strongly || is_strong && self.is_strong)
    }
}

/// Returns the date in a header, or `None` if it is wrong, so that it is ignored.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Duration = Duration::from_secs(1_000_000_000);

    /// A change half a second after 2001-09-09 01:46:40.
    fn version(age: Duration) -> Version {
        let modified = UNIX_EPOCH + OLD + Duration::from_millis(500);
        Version::of(modified, modified, 16, modified + age)
    }

    #[track_caller]
    fn check(version: &Version, headers: &[(HeaderName, &str)], verdict: Verdict) {
        let named = |(name, value): &(HeaderName, &str)| {
            (name.clone(), HeaderValue::from_str(value).expect("a value"))
        };
        let headers = headers.iter().map(named).collect();
        assert_eq!(version.judge(&headers), verdict, "{headers:?}");
    }

    const SAME: &str = "\"de0b6b3c5316500-10-de0b6b3c5316500\"";
    const THEN: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
    const BEFORE: &str = "Sun, 09 Sep 2001 01:46:39 GMT";

    #[test]
    fn a_version_is_told_by_its_tag_and_its_date() {
        let old = version(Duration::from_secs(2));
        assert_eq!((old.tag(), old.modified()), (SAME.parse().unwrap(), THEN.parse().unwrap()));
        let young = version(Duration::from_secs(1));
        assert_eq!(young.tag(), format!("W/{SAME}"));
    }

    #[test]
    fn conditions_are_judged_in_their_order() {
        let old = version(Duration::from_secs(10));
        check(&old, &[], Verdict::Whole);
        check(&old, &[(IF_NONE_MATCH, SAME)], Verdict::Unchanged);
        check(&old, &[(IF_NONE_MATCH, "*")], Verdict::Unchanged);
        check(&old, &[(IF_NONE_MATCH, &format!("\"x\", W/{SAME}"))], Verdict::Unchanged);
        check(&old, &[(IF_NONE_MATCH, "\"x\"")], Verdict::Whole);
        check(&old, &[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, THEN)], Verdict::Whole);
        check(&old, &[(IF_MODIFIED_SINCE, THEN)], Verdict::Unchanged);
        check(&old, &[(IF_MODIFIED_SINCE, BEFORE)], Verdict::Whole);
        check(&old, &[(IF_MODIFIED_SINCE, "yesterday")], Verdict::Whole);
        check(&old, &[(IF_MATCH, SAME)], Verdict::Whole);
        check(&old, &[(IF_MATCH, "*")], Verdict::Whole);
        check(&old, &[(IF_MATCH, &format!("W/{SAME}"))], Verdict::Failed);
        check(&old, &[(IF_MATCH, "\"x\"")], Verdict::Failed);
        check(&old, &[(IF_UNMODIFIED_SINCE, THEN)], Verdict::Whole);
        check(&old, &[(IF_UNMODIFIED_SINCE, BEFORE)], Verdict::Failed);
        check(&old, &[(IF_MATCH, SAME), (IF_UNMODIFIED_SINCE, BEFORE)], Verdict::Whole);
        check(&old, &[(IF_MATCH, SAME), (IF_NONE_MATCH, SAME)], Verdict::Unchanged);
    }

    #[test]
    fn a_part_is_sent_of_the_same_state_only() {
        let (old, young) = (version(Duration::from_secs(10)), version(Duration::ZERO));
        let range = || (RANGE, "bytes=0-1");
        check(&old, &[range()], Verdict::MayBeRanged);
        check(&young, &[range()], Verdict::MayBeRanged);
        check(&old, &[range(), (IF_RANGE, SAME)], Verdict::MayBeRanged);
        check(&old, &[range(), (IF_RANGE, THEN)], Verdict::MayBeRanged);
        check(&old, &[range(), (IF_RANGE, BEFORE)], Verdict::Whole);
        check(&old, &[range(), (IF_RANGE, "\"x\"")], Verdict::Whole);
        check(&old, &[range(), (IF_RANGE, &format!("W/{SAME}"))], Verdict::Whole);
        check(&young, &[range(), (IF_RANGE, SAME)], Verdict::Whole);
        check(&young, &[range(), (IF_RANGE, THEN)], Verdict::Whole);
    }

    #[test]
    fn a_file_of_any_time_has_a_date() {
        let now = UNIX_EPOCH + OLD;
        let early = Version::of(UNIX_EPOCH - OLD, now, 1, now);
        assert_eq!(early.modified(), "Thu, 01 Jan 1970 00:00:00 GMT");
        let late = Version::of(UNIX_EPOCH + Duration::from_secs(1 << 40), now, 1, now);
        assert_eq!(late.modified(), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert!(!late.is_strong, "a file of the future may change in any tick");
    }
}
