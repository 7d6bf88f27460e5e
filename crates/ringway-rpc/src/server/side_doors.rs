//! What a server answers over HTTP beside its calls.

use std::collections::BTreeMap;

use ringway_http::Router;

use super::console::{ConsoleTable, Profile};
use super::console_access::Console;
use super::cors::{Cors, CorsFields};
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
    pub(super) cors: Option<Cors>,
    pub(super) console: Console,
    pub(super) tables: Vec<ConsoleTable>,
}

/// The state behind the side doors of a server.
#[derive(Debug, Default)]
pub(crate) struct SideDoors {
    pub(super) health: Health,
    pub(super) routes: Option<Router>,
    pub(super) pages: Router,
    pub(super) gateway: BTreeMap<String, String>,
    /// The pages of other origins that may make calls.
    pub(super) cors: Option<CorsFields>,
    pub(super) console: Console,
    pub(super) tables: Vec<ConsoleTable>,
    /// What the cores are seen to do, for the console.
    pub(super) profile: Profile,
}

impl SideDoors {
    /// Checks the settings.
    pub(super) fn new(health: Health, settings: HttpSettings) -> Result<Self, String> {
        let HttpSettings { routes, pages, gateway, cors, console, tables } = settings;
        console.check()?;
        let cors = cors.as_ref().map(Cors::compile).transpose()?;
        let profile = Profile::default();
        Ok(Self { health, routes, pages, gateway, cors, console, tables, profile })
    }
}
