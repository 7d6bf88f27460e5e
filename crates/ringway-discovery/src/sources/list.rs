//! Lists of hosts as text.
//!
//! A list is JSON, or has an address on each line, behind which `key=value` may stand:
//!
//! ```text
//! # the market
//! tcp://10.0.0.1:9000 weight=3 zone=eu-1
//! tcp://10.0.0.2:9000 status=draining
//! ```

use std::collections::BTreeMap;

use ringway_rpc::{Host, HostStatus, Status};
use serde::Deserialize;

/// A list in JSON: an array of addresses or hosts, alone or as the member `hosts` of an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonList {
    Bare(Vec<JsonHost>),
    Named { hosts: Vec<JsonHost> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonHost {
    Address(String),
    Host(HostFields),
    /// Anything else is a wrong entry, not a wrong list.
    Other(serde_json::Value),
}

#[derive(Deserialize)]
struct HostFields {
    address: String,
    #[serde(default)]
    weight: Option<u32>,
    #[serde(default)]
    zone: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

/// Reads a list. Each entry is a host, or says why it is none.
///
/// # Errors
/// Fails if JSON is malformed or no list.
pub(crate) fn parse(text: &str) -> Result<Vec<Result<Host, Status>>, String> {
    if text.trim_start().starts_with(['[', '{']) {
        let list = serde_json::from_str(text).map_err(|error| format!("not a list: {error}"))?;
        let (JsonList::Bare(hosts) | JsonList::Named { hosts }) = list;
        return Ok(hosts.into_iter().map(of_json).collect());
    }
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).map(of_line).collect())
}

fn of_json(host: JsonHost) -> Result<Host, Status> {
    match host {
        JsonHost::Address(address) => Host::new(address),
        JsonHost::Host(fields) => {
            let mut host = Host::new(fields.address)?.zone(fields.zone).version(fields.version);
            host = host.weight(fields.weight.unwrap_or(1)).status(status_of(&fields.status)?);
            Ok(fields.metadata.into_iter().fold(host, |host, (key, value)| host.with(key, value)))
        }
        JsonHost::Other(value) => {
            let shown: String = value.to_string().chars().take(80).collect();
            Err(Status::invalid_argument(format!("`{shown}` is neither an address nor a host")))
        }
    }
}

fn of_line(line: &str) -> Result<Host, Status> {
    let mut words = line.split_whitespace();
    let mut host = Host::new(words.next().unwrap_or_default())?;
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            let why = format!("`{word}` of {} is not key=value", host.address());
            return Err(Status::invalid_argument(why));
        };
        host = match key {
            "weight" => host.weight(value.parse().map_err(|_| {
                Status::invalid_argument(format!("the weight `{value}` is not a number"))
            })?),
            "zone" => host.zone(value),
            "version" => host.version(value),
            "status" => host.status(status_of(value)?),
            _ => host.with(key, value),
        };
    }
    Ok(host)
}

fn status_of(text: &str) -> Result<HostStatus, Status> {
    match text {
        "" | "serving" => Ok(HostStatus::Serving),
        "draining" => Ok(HostStatus::Draining),
        "unavailable" => Ok(HostStatus::Unavailable),
        _ => {
            let why = format!("the status `{text}` is none of serving, draining and unavailable");
            Err(Status::invalid_argument(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<String, String>> {
        let shown = |host: Host| {
            let (zone, version) = (host.zone_of(), host.version_of());
            let (weight, status) = (host.weight_of(), host.status_of());
            let rack = host.metadata("rack").unwrap_or("-");
            format!("{} {weight} {zone} {version} {status:?} {rack}", host.address())
        };
        let list = parse(text).unwrap_or_else(|why| vec![Err(Status::internal(why))]);
        list.into_iter()
            .map(|it| it.map(shown).map_err(|status| status.message().to_owned()))
            .collect()
    }

    #[test]
    fn lines_and_json_say_the_same() {
        let lines = "# two hosts\n\n tcp://10.0.0.1:1 # first\n\
                     tcp://10.0.0.2:1 weight=3 zone=a version=2.1 status=draining rack=7\r\n";
        let json = r#"["tcp://10.0.0.1:1", {"address": "tcp://10.0.0.2:1", "weight": 3, "zone": "a",
                       "version": "2.1", "status": "draining", "metadata": {"rack": "7"}, "later": 1}]"#;
        let expected = [
            Ok("tcp://10.0.0.1:1 1   Serving -".to_owned()),
            Ok("tcp://10.0.0.2:1 3 a 2.1 Draining 7".to_owned()),
        ];
        assert_eq!(read(lines), expected);
        assert_eq!(read(json), expected);
        assert_eq!(read(&format!(r#"{{"source": "x", "hosts": {json}}}"#)), expected);
        assert_eq!((read(""), read("[]"), read("# none\n")), (vec![], vec![], vec![]));
    }

    #[test]
    fn wrong_entries_are_named_and_wrong_lists_refused() {
        for (text, said) in [
            ("ftp://a:1", "`ftp://a:1` is not an address"),
            ("tcp://a:1 weight=x", "the weight `x`"),
            ("tcp://a:1 status=gone", "the status `gone`"),
            ("tcp://a:1 fast", "`fast` of tcp://a:1"),
            ("[7]", "`7` is neither"),
            (r#"[{"address": 7}]"#, "is neither"),
            (r#"[{"address": "a:1", "status": "x"}]"#, "`a:1` is not an address"),
            ("[", "not a list"),
            ("{}", "not a list"),
            (r#"{"hosts": 7}"#, "not a list"),
        ] {
            let [Err(why)] = &read(text)[..] else { panic!("a wrong entry: {text}") };
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn deep_and_endless_text_is_bounded() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert_eq!(parse(&"x\n".repeat(10_000)).expect("lines").len(), 10_000);
    }
}
