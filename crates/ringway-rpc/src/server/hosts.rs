//! The names of a server.

/// Hosts with or without a port.
#[derive(Clone, Debug)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    pub(super) fn new(hosts: impl Iterator<Item = String>) -> Self {
        Self(hosts.collect())
    }

    /// Whether a host, perhaps with a port, is one of them.
    pub(super) fn has(&self, host: &str) -> bool {
        let (name, _port) = split(host);
        let name = name.strip_suffix('.').unwrap_or(name);
        self.0.iter().any(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(name))
    }

    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_host = |host: &str| {
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
            !host.is_empty() && host.bytes().all(is_legal)
        };
        match self.0.iter().find(|host| !is_host(host)) {
            Some(wrong) => {
                Err(format!("{wrong:?} is not a host: write shop.example or shop.example:8080"))
            }
            None => Ok(()),
        }
    }
}

/// A host and its port.
fn split(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_all_ports_unless_it_names_one() {
        let hosts = Hosts(vec!["shop.example".into(), "a.example:81".into(), "[::1]".into()]);
        for own in ["shop.example", "SHOP.example:8080", "shop.example.", "a.example:81", "[::1]:9"]
        {
            assert!(hosts.has(own), "{own}");
        }
        for other in ["", "a.example", "a.example:80", "x.shop.example", "shop.example.evil:80"] {
            assert!(!hosts.has(other), "{other}");
        }
        assert!(hosts.check().is_ok());
        for wrong in ["", "https://shop.example", "*.example", "a b"] {
            assert!(Hosts(vec![wrong.into()]).check().is_err(), "{wrong}");
        }
    }
}
