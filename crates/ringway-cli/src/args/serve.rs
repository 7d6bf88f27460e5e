//! The configuration of `ringway serve`, resolved.

use std::path::PathBuf;
use std::time::Duration;

use super::choices::Backend;
use super::flags::{Serve, ServeFlags, ServeKind};
use super::values::{Cores, Scheme, Uri, ValueError};

/// The server to run, with all settings resolved.
#[derive(Debug, PartialEq)]
pub(crate) struct ServeConfig {
    /// How it treats received bytes.
    pub(crate) service: Service,
    /// The addresses to listen on; at least one.
    pub(crate) listen: Vec<Uri>,
    /// The cores of its pinned threads, one each; this process may use all of them.
    pub(crate) cores: Cores,
    pub(crate) backend: Backend,
    /// The time that a core polls before it sleeps; `None` leaves it to the runtime.
    pub(crate) spin: Option<Duration>,
    /// Present whenever one of `listen` is `tls://`.
    pub(crate) tls: Option<TlsFiles>,
    /// PEM file of the authorities whose clients are accepted on `tls://`; without it all clients are.
    pub(crate) client_ca: Option<PathBuf>,
    /// The folder of a registry; `None` keeps it in memory.
    pub(crate) data: Option<PathBuf>,
    /// Where a registry says that it is; empty for where it listens.
    pub(crate) advertised: Vec<String>,
    /// How often it prints what it has done, if at all.
    pub(crate) stats: Option<Duration>,
    /// Whether a parent asks for counters on standard input and ends the server by closing it.
    pub(crate) control: bool,
}

/// How a server treats received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// It sends them back.
    Echo,
    /// It counts them.
    Discard,
    /// It frames, checks and counts the packets of `bench receive`, and for `bench ttcp` acknowledges each.
    DiscardFramed { acknowledges: bool },
    /// It tells its time.
    Clock,
    /// It serves the echo service.
    Rpc,
    /// It serves a registry with etcd's API.
    Registry,
    /// It answers MongoDB clients, each command after this time.
    MongoResponder { delay: Duration },
}

/// Files of a TLS identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Certificate chain, PEM.
    pub(crate) cert: PathBuf,
    /// Private key, PEM.
    pub(crate) key: PathBuf,
}

impl ServeConfig {
    /// Returns the arguments that resolve to this configuration, for starting it as a process.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let words: &[&str] = match self.service {
            Service::Echo => &["serve", "echo"],
            Service::Discard => &["serve", "discard"],
            Service::DiscardFramed { acknowledges: false } => &["serve", "discard", "--frame"],
            Service::DiscardFramed { acknowledges: true } => {
                &["serve", "discard", "--frame", "--acknowledge"]
            }
            Service::Clock => &["serve", "clock"],
            Service::Rpc => &["serve", "rpc"],
            Service::Registry => &["serve", "registry"],
            Service::MongoResponder { .. } => &["serve", "mongo-responder"],
        };
        let mut args: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let mut flag = |name: &str, value: String| args.extend([name.to_owned(), value]);
        for uri in &self.listen {
            flag("--listen", uri.to_string());
        }
        flag("--cores", self.cores.to_string());
        flag("--backend", self.backend.as_str().to_owned());
        if let Some(spin) = self.spin {
            flag("--spin", format!("{}ns", spin.as_nanos()));
        }
        if let Some(TlsFiles { cert, key }) = &self.tls {
            flag("--cert", cert.display().to_string());
            flag("--key", key.display().to_string());
        }
        if let Some(file) = &self.client_ca {
            flag("--client-ca", file.display().to_string());
        }
        if let Some(folder) = &self.data {
            flag("--data", folder.display().to_string());
        }
        for url in &self.advertised {
            flag("--advertise-client-urls", url.clone());
        }
        if let Service::MongoResponder { delay } = self.service
            && !delay.is_zero()
        {
            flag("--delay", format!("{}ns", delay.as_nanos()));
        }
        if let Some(period) = self.stats {
            args.extend(["--stats".to_owned(), format!("{}ns", period.as_nanos())]);
        }
        if self.control {
            args.push("--control".to_owned());
        }
        args
    }
}

/// # Errors
/// A core is not allowed, `tls://` has no certificate, or an address is one for clients.
pub(super) fn resolve(raw: Serve, allowed: &Cores) -> Result<ServeConfig, ValueError> {
    let (mut data, mut advertised) = (None, Vec::new());
    let (service, flags) = match raw.kind {
        ServeKind::Echo(flags) => (Service::Echo, flags),
        ServeKind::Discard { flags, frame: false, .. } => (Service::Discard, flags),
        ServeKind::Discard { flags, frame: true, acknowledge: acknowledges } => {
            (Service::DiscardFramed { acknowledges }, flags)
        }
        ServeKind::Clock(flags) => (Service::Clock, flags),
        ServeKind::Rpc(flags) => (Service::Rpc, flags),
        ServeKind::Registry { flags, data: folder, advertise_client_urls } => {
            (data, advertised) = (folder, advertise_client_urls);
            (Service::Registry, flags)
        }
        ServeKind::MongoResponder { flags, delay } => {
            (Service::MongoResponder { delay: delay.unwrap_or_default() }, flags)
        }
    };
    let ServeFlags { mut listen, cores, backend, spin, cert, key, client_ca, stats, control } =
        flags;
    if listen.is_empty() {
        listen.push(default_address(service).parse()?);
    }
    if let Some(uri) = listen.iter().find(|uri| {
        matches!(uri.scheme(), Scheme::Grpc | Scheme::Grpcs | Scheme::Source)
            || uri.scheme().is_json_rpc()
    }) {
        return Err(ValueError::new(format!(
            "{uri}: servers listen on tcp:// or tls://, where `serve rpc` answers gRPC and JSON-RPC as well"
        )));
    }
    let tls = cert.zip(key).map(|(cert, key)| TlsFiles { cert, key });
    if let Some(uri) = listen.iter().find(|uri| uri.scheme() == Scheme::Tls && tls.is_none()) {
        return Err(ValueError::new(format!(
            "{uri} has no certificate; give one with --cert and --key"
        )));
    }
    let cores = cores.unwrap_or_else(|| allowed.clone()).within(allowed, "--cores")?;
    Ok(ServeConfig {
        service,
        listen,
        cores,
        backend,
        spin,
        tls,
        client_ca,
        data,
        advertised,
        stats,
        control,
    })
}

fn default_address(service: Service) -> &'static str {
    match service {
        Service::Echo | Service::Discard | Service::DiscardFramed { .. } | Service::Clock => {
            "tcp://127.0.0.1:7001"
        }
        Service::Rpc => "tcp://127.0.0.1:9000",
        Service::Registry => "tcp://127.0.0.1:2379",
        Service::MongoResponder { .. } => "tcp://127.0.0.1:27017",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, tests::parse_words};
    use super::*;

    fn config(words: &str) -> ServeConfig {
        match parse_words(words).expect(words) {
            Config::Serve(config) => config,
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn defaults() {
        let config = config("serve echo");
        assert_eq!(config.service, Service::Echo);
        assert_eq!(config.listen, ["tcp://127.0.0.1:7001".parse().expect("an address")]);
        assert_eq!(config.cores.as_slice(), [0, 1, 2, 3]);
        assert_eq!((config.backend, config.spin, config.control), (Backend::Auto, None, false));
    }

    #[test]
    fn every_flag() {
        let config = config(
            "serve discard --frame --listen tcp://[::1]:0 --listen unix:///tmp/d --cores 1-2 \
             --backend epoll --spin 0 --control --cert c.pem --key k.pem --client-ca ca.pem",
        );
        assert_eq!(config.service, Service::DiscardFramed { acknowledges: false });
        assert_eq!(config.listen.len(), 2);
        assert_eq!(config.cores.as_slice(), [1, 2]);
        assert_eq!(config.backend, Backend::Epoll);
        assert_eq!(config.spin, Some(Duration::ZERO));
        assert!(config.control && config.tls.is_some());
    }

    #[test]
    fn a_configuration_survives_the_way_through_its_arguments() {
        for words in [
            "serve echo --stats 5s",
            "serve rpc --spin 0",
            "serve clock --listen udp://127.0.0.1:1",
            "serve discard --cores 2",
            "serve discard --frame --acknowledge",
            "serve registry --data /tmp/registry",
            "serve registry --advertise-client-urls http://a:1,https://b:2",
            "serve mongo-responder --delay 30ms",
            "serve mongo-responder",
            "serve discard --frame --listen tcp://[::1]:0 --listen unix:///tmp/d --cores 1,3 \
             --backend uring --spin 1.5us --control --cert c.pem --key k.pem --client-ca ca.pem",
        ] {
            let config = config(words);
            assert_eq!(self::config(&config.to_args().join(" ")), config, "{words}");
        }
    }
}
