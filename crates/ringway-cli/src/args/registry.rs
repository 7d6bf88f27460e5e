//! The configuration of `ringway registry`, resolved.

use clap::{Args, Subcommand};

use super::examples;
use super::values;

#[derive(Debug, Args)]
pub(super) struct RegistryFlags {
    /// Where the registry is: host:port of a registry server or of etcd's members; https:// or tls://
    /// before it for TLS
    #[arg(
        long = "at",
        value_name = "ADDR",
        value_delimiter = ',',
        default_value = "127.0.0.1:2379",
        global = true
    )]
    members: Vec<String>,
    /// User who asks; the password is taken from the variable RINGWAY_REGISTRY_PASSWORD
    #[arg(long, value_name = "NAME", global = true)]
    user: Option<String>,
    /// What all keys of the registry begin with
    #[arg(long, value_name = "PREFIX", default_value = "ringway/", global = true)]
    namespace: String,
    #[command(subcommand)]
    action: ActionFlags,
}

#[derive(Debug, Subcommand)]
enum ActionFlags {
    /// List who is registered, with health, weight, zone, version and the time left of the lease.
    #[command(after_help = examples::REGISTRY)]
    Ls {
        /// One service only
        service: Option<String>,
    },
    /// Print the endpoints of a service, and then its changes, until interrupted.
    Watch { service: String },
    /// Add an endpoint that stays until it is removed.
    Put(PutFlags),
    /// Remove an endpoint.
    Rm { service: String, address: String },
    /// Have clients make no new calls to an endpoint; running ones finish.
    Drain {
        service: String,
        address: String,
        /// Have them call it again
        #[arg(long)]
        undo: bool,
    },
}

#[derive(Debug, Args)]
struct PutFlags {
    service: String,
    /// Such as tcp://10.0.0.1:9000 or grpc://10.0.0.1:9000
    address: String,
    /// Share of the calls, compared to the others
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    weight: u32,
    #[arg(long, default_value = "")]
    zone: String,
    #[arg(long, default_value = "")]
    version: String,
    /// Metadata as key=value; repeatable
    #[arg(long = "with", value_name = "KEY=VALUE", value_parser = values::parse_entry)]
    metadata: Vec<(String, String)>,
}

/// The registry, and what to do with it.
#[derive(Debug, PartialEq)]
pub(crate) struct RegistryConfig {
    /// Addresses as for etcdctl; at least one.
    pub(crate) members: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) namespace: String,
    pub(crate) action: RegistryAction,
}

#[derive(Debug, PartialEq)]
pub(crate) enum RegistryAction {
    List(Option<String>),
    Watch(String),
    Put { service: String, endpoint: NewEndpoint },
    Remove { service: String, address: String },
    Drain { service: String, address: String, undo: bool },
}

/// What is known of an endpoint.
#[derive(Debug, PartialEq)]
pub(crate) struct NewEndpoint {
    pub(crate) address: String,
    pub(crate) weight: u32,
    pub(crate) zone: String,
    pub(crate) version: String,
    pub(crate) metadata: Vec<(String, String)>,
}

pub(super) fn resolve(raw: RegistryFlags) -> RegistryConfig {
    let RegistryFlags { members, user, namespace, action } = raw;
    let action = match action {
        ActionFlags::Ls { service } => RegistryAction::List(service),
        ActionFlags::Watch { service } => RegistryAction::Watch(service),
        ActionFlags::Put(PutFlags { service, address, weight, zone, version, metadata }) => {
            let endpoint = NewEndpoint { address, weight, zone, version, metadata };
            RegistryAction::Put { service, endpoint }
        }
        ActionFlags::Rm { service, address } => RegistryAction::Remove { service, address },
        ActionFlags::Drain { service, address, undo } => {
            RegistryAction::Drain { service, address, undo }
        }
    };
    RegistryConfig { members, user, namespace, action }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, tests::parse_words};
    use super::*;

    fn config(words: &str) -> RegistryConfig {
        match parse_words(words).expect(words) {
            Config::Registry(config) => config,
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn a_list_of_the_registry_of_this_machine() {
        let RegistryConfig { members, user, namespace, action } = config("registry ls");
        assert_eq!((members, user), (vec!["127.0.0.1:2379".to_owned()], None));
        assert_eq!((&*namespace, action), ("ringway/", RegistryAction::List(None)));
    }

    #[test]
    fn the_registry_is_named_before_or_behind_what_is_done() {
        for words in [
            "registry --at tcp://a:1 --user ada --namespace test/ ls market",
            "registry ls market --at tcp://a:1 --user ada --namespace test/",
            "registry --user ada ls --at tcp://a:1 market --namespace test/",
        ] {
            let RegistryConfig { members, user, namespace, action } = config(words);
            assert_eq!((members, user), (vec!["tcp://a:1".to_owned()], Some("ada".to_owned())));
            let listed = RegistryAction::List(Some("market".to_owned()));
            assert_eq!((&*namespace, action), ("test/", listed), "{words}");
        }
    }

    #[test]
    fn every_flag() {
        let config = config(
            "registry --at a:1,https://b:2 --user ada --namespace test/ put market tcp://c:3 --weight 3 --zone eu \
             --version 2 --with rack=7 --with row=a=b",
        );
        assert_eq!((config.members.len(), config.user.as_deref()), (2, Some("ada")));
        let RegistryAction::Put { service, endpoint } = config.action else { panic!("a put") };
        let NewEndpoint { address, weight, zone, version, metadata } = endpoint;
        assert_eq!((&*service, &*address, weight), ("market", "tcp://c:3", 3));
        assert_eq!((&*zone, &*version), ("eu", "2"));
        assert_eq!(metadata[1], ("row".to_owned(), "a=b".to_owned()));
    }
}
