//! The keys of services and endpoints.

use crate::endpoint::{Endpoint, Error};
use crate::limits;

/// The keys of one service: `namespace`, `service`, a slash, and the address of each endpoint.
#[derive(Clone, Debug)]
pub(crate) struct ServiceKeys {
    prefix: String,
}

impl ServiceKeys {
    /// # Errors
    /// Fails if the name is empty or too long, or would be that of other keys.
    pub(crate) fn new(namespace: &str, service: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Err(Error::new(format!("`{service}` is no service: {why}")));
        if service.is_empty() || service.len() > limits::SERVICE_NAME_BYTES_MAX {
            return wrong("its name has 1 to 256 bytes");
        }
        if service.split('/').any(str::is_empty) {
            return wrong("its name has a slash at an end, or two in a row");
        }
        if service.chars().any(char::is_control) {
            return wrong("its name has a control character");
        }
        Ok(Self { prefix: format!("{namespace}{service}/") })
    }

    /// The first key of the service, as etcd writes ranges.
    pub(super) fn first(&self) -> Vec<u8> {
        self.prefix.clone().into()
    }

    /// The key after the last one of the service.
    pub(super) fn end(&self) -> Vec<u8> {
        let mut end = self.first();
        // The prefix ends with a slash.
        end.pop();
        end.push(b'/' + 1);
        end
    }

    pub(crate) fn of(&self, endpoint: &Endpoint) -> Vec<u8> {
        format!("{}{}", self.prefix, endpoint.address()).into()
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        key.starts_with(self.prefix.as_bytes())
    }

    /// Whether the key is one of a service whose name goes on after this one's, such as `market/eu` after `market`.
    pub(super) fn is_of_longer_name(&self, key: &[u8], endpoint: &Endpoint) -> bool {
        let rest = key.get(self.prefix.len()..).unwrap_or_default();
        let name = rest.strip_suffix(endpoint.address().as_bytes());
        name.is_some_and(|name| name.len() > 1 && name.ends_with(b"/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_service_are_one_range() {
        let keys = ServiceKeys::new("ringway/", "market").expect("a name");
        let endpoint = Endpoint::new("tcp://a:1");
        let key = keys.of(&endpoint);
        assert_eq!(key, b"ringway/market/tcp://a:1");
        assert!(keys.first() < key && key < keys.end() && keys.contains(&key));
        let longer = ServiceKeys::new("ringway/", "market/eu").expect("a name").of(&endpoint);
        assert!(keys.contains(&longer) && keys.is_of_longer_name(&longer, &endpoint));
        assert!(!keys.is_of_longer_name(&key, &endpoint));
        let next = ServiceKeys::new("ringway/", "market2").expect("a name").of(&endpoint);
        assert!(!keys.contains(&next) && (next < keys.first() || next >= keys.end()));
    }

    #[test]
    fn names_that_would_be_other_keys_are_refused() {
        let long = "x".repeat(257);
        for name in ["", "/a", "a/", "a//b", "a\n", &long] {
            assert!(ServiceKeys::new("", name).is_err(), "{name}");
        }
    }
}
