//! `ringway registry`: who is registered, and changes by hand.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table};
use ringway_discovery::{
    Discovery, Endpoint, EndpointChange, EtcdConfig, EtcdRegistry, Freshness, Health,
    ListedEndpoint, RegistryAdmin,
};

use crate::args::{NewEndpoint, RegistryAction, RegistryConfig};
use crate::foreign::printable;
use crate::stderr;

/// Does what is asked, and returns the exit status.
///
/// # Errors
/// The registry cannot be reached or refuses, or the output cannot be written.
pub(crate) fn run(config: RegistryConfig) -> Result<ExitCode, Box<dyn Error>> {
    let password = std::env::var("RINGWAY_REGISTRY_PASSWORD").unwrap_or_default();
    ringway_runtime::block_on(async move {
        if let RegistryAction::Watch(service) = &config.action {
            return watch(&config, service, &password).await;
        }
        let members: Vec<&str> = config.members.iter().map(String::as_str).collect();
        let user = config.user.as_deref().map(|name| (name, &*password));
        let registry = RegistryAdmin::connect(&members, user).await?.namespace(&config.namespace);
        act(&registry, &config.action).await
    })?
}

async fn act(
    registry: &RegistryAdmin,
    action: &RegistryAction,
) -> Result<ExitCode, Box<dyn Error>> {
    let (service, address, is_there) = match action {
        RegistryAction::List(service) => {
            let listed = registry.list(service.as_deref()).await?;
            write!(io::stdout(), "{}", table(&listed))?;
            return Ok(ExitCode::SUCCESS);
        }
        RegistryAction::Watch(_) => return Ok(ExitCode::SUCCESS),
        RegistryAction::Put { service, endpoint } => {
            registry.put(service, &to_endpoint(endpoint)).await?;
            return Ok(ExitCode::SUCCESS);
        }
        RegistryAction::Remove { service, address } => {
            (service, address, registry.remove(service, address).await?)
        }
        RegistryAction::Drain { service, address, undo } => {
            let health = if *undo { Health::Serving } else { Health::Draining };
            (service, address, registry.set_health(service, address, health).await?)
        }
    };
    if is_there {
        return Ok(ExitCode::SUCCESS);
    }
    stderr::complain(format_args!(
        "{} has no endpoint {}; `ringway registry ls` lists them",
        printable(service),
        printable(address)
    ));
    Ok(ExitCode::FAILURE)
}

fn to_endpoint(new: &NewEndpoint) -> Endpoint {
    let endpoint = Endpoint::new(&*new.address).weight(new.weight);
    let endpoint = endpoint.zone(&*new.zone).version(&*new.version);
    new.metadata.iter().fold(endpoint, |endpoint, (key, value)| endpoint.with(key, value))
}

fn table(listed: &[ListedEndpoint]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["SERVICE", "ADDRESS", "HEALTH", "WEIGHT", "ZONE", "VERSION", "LEASE"]);
    for entry in listed {
        let lease = match entry.expires_in {
            Some(left) => format!("{} s", left.as_secs()),
            None => "-".to_owned(),
        };
        let (service, address) = (printable(&entry.service), printable(&entry.address));
        match &entry.endpoint {
            Ok(known) => table.add_row([
                &*service,
                &*address,
                &known.health().to_string(),
                &known.weight_of().to_string(),
                &*or_none(known.zone_of()),
                &*or_none(known.version_of()),
                &lease,
            ]),
            Err(error) => {
                let why = error.to_string();
                table.add_row([&*service, &*address, &*printable(&why), "-", "-", "-", &lease])
            }
        };
    }
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn or_none(text: &str) -> std::borrow::Cow<'_, str> {
    if text.is_empty() { "-".into() } else { printable(text) }
}

/// Prints changes for ever.
async fn watch(
    config: &RegistryConfig,
    service: &str,
    password: &str,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut of_registry = EtcdConfig::new(&config.members)?.namespace(&*config.namespace);
    if let Some(user) = &config.user {
        of_registry = of_registry.user(user, password);
    }
    let registry = EtcdRegistry::new(of_registry);
    let mut watch = registry.watch(service, None)?;
    let mut freshness = watch.freshness();
    loop {
        for change in watch.changed().await {
            let (sign, endpoint) = match &change {
                EndpointChange::Added(endpoint) => ('+', endpoint),
                EndpointChange::Updated(endpoint) => ('~', endpoint),
                EndpointChange::Removed(endpoint) => ('-', endpoint),
            };
            writeln!(io::stdout(), "{sign} {}", printable(&described(endpoint)))?;
        }
        let now = watch.freshness();
        if now != freshness {
            match &now {
                Freshness::Unknown(Some(error)) | Freshness::Stale(error) => {
                    stderr::complain(printable(&error.to_string()));
                }
                Freshness::Current if freshness != Freshness::Unknown(None) => {
                    stderr::complain("the registry is back");
                }
                _ => {}
            }
            freshness = now;
        }
    }
}

fn described(endpoint: &Endpoint) -> String {
    let mut text = format!("{} {}", endpoint.address(), endpoint.health());
    let weight = endpoint.weight_of().to_string();
    for (name, value) in
        [("weight", &*weight), ("zone", endpoint.zone_of()), ("version", endpoint.version_of())]
    {
        if !value.is_empty() {
            text.push_str(&format!(" {name}={value}"));
        }
    }
    text
}
