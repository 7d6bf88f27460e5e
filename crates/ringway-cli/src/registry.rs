//! `ringway registry`: who is registered, and changes by hand.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table};
use ringway_discovery::{Endpoint, Health, ListedEndpoint, RegistryAdmin};

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
