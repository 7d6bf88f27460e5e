//! What DNS tells of a `mongodb+srv://` string, by the specification "Initial DNS Seedlist Discovery".

use super::host::{HostAddress, Parsed};
use super::invalid_uri::InvalidUri;

/// The records of a name.
pub(crate) struct SrvRecords {
    /// The targets of its SRV records, with their ports.
    pub(crate) targets: Vec<(String, u16)>,
    /// Its TXT records, the strings of each joined.
    pub(crate) texts: Vec<String>,
}

/// "A Driver MUST raise an error if multiple TXT records exist", and if they have other options than these.
const OPTIONS_ALLOWED: [&str; 3] = ["authsource", "replicaset", "loadbalanced"];

impl SrvRecords {
    /// The options of the TXT record, as they stand in a connection string.
    pub(super) fn options(&self) -> Result<String, InvalidUri> {
        let text = match &self.texts[..] {
            [] => return Ok(String::new()),
            [text] => text,
            [..] => {
                return Err(InvalidUri::new("the name has several TXT records; one is allowed"));
            }
        };
        for option in text.split('&') {
            let name = option.split_once('=').map_or(option, |(name, _)| name);
            if !OPTIONS_ALLOWED.contains(&&*name.to_lowercase()) {
                return Err(InvalidUri::new(format!(
                    "the TXT record has the option {name:?}; it may have authSource, replicaSet and loadBalanced"
                )));
            }
        }
        Ok(text.clone())
    }

    /// The servers, each of which has to be below the parent of the name.
    pub(crate) fn hosts(&self, name: &str) -> Result<Vec<Parsed>, InvalidUri> {
        if self.targets.is_empty() {
            return Err(InvalidUri::new(format!("{name} has no SRV records")));
        }
        let host = |(target, port): &(String, u16)| {
            let target = target.strip_suffix('.').unwrap_or(target).to_lowercase();
            match is_below(&target, name) {
                true => Ok((HostAddress::Tcp { host: target, port: *port }, true)),
                false => Err(InvalidUri::new(format!(
                    "the SRV records of {name} name {target}, which is not in the same domain"
                ))),
            }
        };
        self.targets.iter().map(host).collect()
    }
}

/// Whether a target ends with the domain of a name: what is behind its first label, or all of a name of fewer than three.
fn is_below(target: &str, name: &str) -> bool {
    let domain = match name.split_once('.') {
        Some((_, domain)) if domain.contains('.') => domain,
        _ => name,
    };
    target.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn a_server_is_in_the_domain_of_the_name() {
        for (target, name, expected) in [
            ("a.test.example.com", "cluster.test.example.com", true),
            ("a.b.test.example.com", "cluster.test.example.com", true),
            ("test.example.com", "cluster.test.example.com", false),
            ("a.nottest.example.com", "cluster.test.example.com", false),
            (".test.example.com", "cluster.test.example.com", false),
            ("a.example.com", "example.com", true),
            ("example.com", "example.com", false),
            ("a.local", "local", true),
            ("a.com", "example.com", false),
        ] {
            assert_eq!(is_below(target, name), expected, "{target} {name}");
        }
    }
}
