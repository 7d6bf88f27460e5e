//! What a server answers over HTTP beside its calls.

use std::collections::BTreeMap;

use ringway_http::Router;

use super::console::{ConsoleTable, Profile, Viewers};
use super::console_access::{Access, Console};
use super::cors::{Cors, CorsFields};
use super::hosts::Hosts;
use crate::builtin::health::Health;

/// The settings of HTTP, as the program has made them.
#[derive(Debug, Default)]
pub(super) struct HttpSettings {
    /// The program's own routes.
    pub(super) routes: Option<Router>,
    /// What libraries have added, where the program has no route.
    pub(super) pages: Router,
    /// Methods that are called by JSON at paths of their own.
    pub(super) gateway: BTreeMap<String, String>,
    pub(super) has_no_metrics: bool,
    pub(super) cors: Option<Cors>,
    pub(super) hosts: Option<Hosts>,
    pub(super) console: Console,
    pub(super) tables: Vec<ConsoleTable>,
}

/// The state behind the side doors of a server.
#[derive(Default)]
pub(crate) struct SideDoors {
    pub(super) health: Health,
    pub(super) routes: Option<Router>,
    pub(super) pages: Router,
    pub(super) gateway: BTreeMap<String, String>,
    /// The pages of other origins that may make calls.
    pub(super) cors: Option<CorsFields>,
    /// Its own names.
    pub(super) hosts: Option<Hosts>,
    pub(super) console: Access,
    pub(super) tables: Vec<ConsoleTable>,
    /// Whether `/metrics` is switched off.
    pub(super) has_no_metrics: bool,
    /// What the cores are seen to do, for the console.
    pub(super) profile: Profile,
    /// The connections by which somebody looks at the console.
    pub(super) viewers: Viewers,
}

impl SideDoors {
    /// Whether the program or a library answers at this path.
    pub(super) fn has_page(&self, path: &str) -> bool {
        self.pages.has(path) || self.routes.as_ref().is_some_and(|routes| routes.has(path))
    }

    /// Checks the settings.
    pub(super) fn new(health: Health, settings: HttpSettings) -> Result<Self, String> {
        let HttpSettings { routes, pages, gateway, has_no_metrics, cors, hosts, console, tables } =
            settings;
        let console = console.access()?;
        hosts.as_ref().map_or(Ok(()), Hosts::check)?;
        let cors = cors.as_ref().map(Cors::compile).transpose()?;
        let (profile, viewers) = Default::default();
        Ok(Self {
            health,
            routes,
            pages,
            gateway,
            cors,
            hosts,
            console,
            tables,
            has_no_metrics,
            profile,
            viewers,
        })
    }
}
