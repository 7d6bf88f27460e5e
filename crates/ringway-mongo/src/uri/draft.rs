//! A connection string while its options are read.

use super::credential::AuthOptions;
use super::host::Parsed;
use super::percent::decode;
use super::user_info::UserInfo;
use super::values::Problem;
use super::{ConnectionString, InvalidUri, ReadPreference, UriOptions, table};

/// The options read so far.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) options: UriOptions,
    pub(super) auth: AuthOptions,
    warnings: Vec<String>,
}

impl Draft {
    /// Reads what follows the question mark, over what was read before.
    pub(super) fn read(self, query: &str) -> Result<Self, InvalidUri> {
        let mut draft = self;
        let mut seen = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(InvalidUri::new(
                    "an option has no value; options are written as name=value",
                ));
            };
            let name = decode(name, "an option's name")?;
            let value = decode(value, &format!("the value of {name:?}"))?;
            let key = name.to_lowercase();
            match table::set(&mut draft, &key, &value) {
                Ok(()) => {}
                Err(Problem::Refused(error)) => return Err(error),
                Err(Problem::Ignored(why)) => {
                    draft.warn(format!("the option {name:?} is ignored: it {why}"))
                }
            }
            if seen.contains(&key) && !table::may_repeat(&key) {
                draft.warn(format!(
                    "the option {name:?} is there more than once; the last one counts"
                ));
            }
            seen.push(key);
        }
        Ok(draft)
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    pub(super) fn read_preference(&mut self) -> &mut ReadPreference {
        self.options.read_preference.get_or_insert_default()
    }

    /// Checks the options against each other and against the rest of the string.
    pub(super) fn finish(
        self,
        user: Option<UserInfo>,
        srv_host: Option<String>,
        hosts: Vec<Parsed>,
        database: Option<String>,
    ) -> Result<ConnectionString, InvalidUri> {
        let Self { mut options, auth, warnings } = self;
        options.tls.check()?;
        options.proxy.check()?;
        options.write_concern.check()?;
        if let Some(preference) = &options.read_preference {
            preference.check()?;
        }
        check_pool(&options)?;
        check_topology(&options, hosts.len(), srv_host.is_some())?;
        if srv_host.is_some() {
            options.tls.enabled.get_or_insert(true);
        }
        let hosts = hosts.into_iter().map(|(host, _)| host).collect();
        let credential = auth.credential(user, database.as_deref())?;
        let looked_up = None;
        Ok(ConnectionString { hosts, srv_host, database, credential, options, looked_up, warnings })
    }
}

fn check_pool(options: &UriOptions) -> Result<(), InvalidUri> {
    match (options.min_pool_size, options.max_pool_size) {
        (Some(min), Some(max @ 1..)) if min > max => Err(InvalidUri::new(format!(
            "minPoolSize is {min} and maxPoolSize {max}: the least is above the most"
        ))),
        _ => Ok(()),
    }
}

fn check_topology(options: &UriOptions, hosts: usize, is_srv: bool) -> Result<(), InvalidUri> {
    let is_direct = options.direct_connection == Some(true);
    let is_balanced = options.load_balanced == Some(true);
    let has_set = options.replica_set.is_some();
    let limits_hosts = options.srv_max_hosts.is_some_and(|max| max > 0);
    let has_srv_option = options.srv_max_hosts.is_some() || options.srv_service_name.is_some();
    let rules = [
        (is_direct && hosts > 1, "directConnection=true needs exactly one host"),
        (is_direct && is_srv, "directConnection=true cannot be used with mongodb+srv://"),
        (is_balanced && hosts > 1, "loadBalanced=true needs exactly one host"),
        (
            is_balanced && is_direct,
            "loadBalanced=true and directConnection=true exclude each other",
        ),
        (is_balanced && has_set, "loadBalanced=true and replicaSet exclude each other"),
        (limits_hosts && has_set, "srvMaxHosts and replicaSet exclude each other"),
        (limits_hosts && is_balanced, "srvMaxHosts and loadBalanced=true exclude each other"),
        (has_srv_option && !is_srv, "srvMaxHosts and srvServiceName need mongodb+srv://"),
    ];
    match rules.iter().find(|(is_broken, _)| *is_broken) {
        Some((_, rule)) => Err(InvalidUri::new(*rule)),
        None => Ok(()),
    }
}
